"""What several test files need: small sketches, scripts, and the file layout written a second time."""

import hashlib
import importlib.util
import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import nysketch
from nysketch.provenance import Input, Provenance, Whole

ROOT = Path(__file__).parent.parent
ARCHIVES = ROOT / "tests" / "promises" / "archives"

DTYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8", "int32": "I32"}


@contextmanager
def loaded(script):
    """Give the module of a script."""
    spec = importlib.util.spec_from_file_location(f"script_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def small_sketch(*, rows=300, seed=0, landmarks=8, blocks=4, weights=None, precision="float32"):
    """Sketch a table in memory; few kilobytes."""
    random = np.random.default_rng(seed)
    table = pa.table(
        {"x": random.normal(size=rows), "y": random.normal(size=rows), "w": random.uniform(0.5, 2, rows)}
    )
    if weights is None:
        table = table.drop(["w"])
    return nysketch.sketch(
        table, landmarks=landmarks, blocks=blocks, weights=weights, precision=precision, threads=1
    )


# What files store keeps its names; functions and commands have others.
PUBLIC_NAMES = {
    "m": "landmarks",
    "scaling": "scale",
    "runs": "spans",
    "shuffles": "permutations",
    "shuffle_rows": "permutation_rows",
}


def as_keywords(settings):
    """Return stored settings, or the fields of options, as keywords of public functions."""
    return {PUBLIC_NAMES.get(name, name): value for name, value in settings.items()}


def grouped_sketch(*, rows=300, seed=0, **options):
    """Sketch a table of three groups of columns in memory, with sums of their pairs; few kilobytes."""
    random = np.random.default_rng(seed)
    table = pa.table({name: random.normal(size=rows) for name in "abcd"})
    groups = {"p": ["a", "b"], "q": ["c"], "r": ["d"]}
    usual = {
        "landmarks": 8,
        "blocks": 4,
        "groups": groups,
        "pairs": True,
        "permutation_rows": 50,
        "sample_rows": 50,
    }
    return nysketch.sketch(table, threads=1, **(usual | options))


def squared_sketch(*, rows=300, seed=0, **options):
    """Sketch a table in memory with second moments; few kilobytes."""
    random = np.random.default_rng(seed)
    table = pa.table({name: random.normal(size=rows) for name in "ab"})
    usual = {"landmarks": 8, "blocks": 4, "second_moments": True, "sample_rows": 50}
    return nysketch.sketch(table, threads=1, **(usual | options))


def parted_sketch():
    """Return a sketch that says it holds parts 2 and 3 of 5 of some files, and 2 of 2 of another."""
    sketch = small_sketch()
    files = [Input(name, 100, 1000, f"digest of {name}") for name in "abc"]
    wholes = [
        Whole("0" * 64, 5, ((files[0], 1), (files[1], 1)), 3),
        Whole("1" * 64, 2, ((files[2], 1),)),
    ]
    held = [(wholes[0], 2), (wholes[0], 3), (wholes[1], 2)]
    provenance = sum((Provenance.of_part(whole, i) for whole, i in held), start=sketch.provenance)
    return replace(sketch, provenance=provenance)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def seal(text, arrays):
    """Return the bytes of a file with this metadata text and these arrays, checksum and all."""
    data = b"".join(np.ascontiguousarray(array).tobytes() for _, array in sorted(arrays.items()))

    def header(digest):
        entries = {"__metadata__": {"nysketch": text, "sha256": digest}}
        offset = 0
        for name, array in sorted(arrays.items()):
            entries[name] = {
                "dtype": DTYPES[array.dtype.name],
                "shape": list(array.shape),
                "data_offsets": [offset, offset + array.nbytes],
            }
            offset += array.nbytes
        raw = canonical(entries).encode()
        return raw + b" " * (-len(raw) % 8)

    raw = header(hashlib.sha256(header("0" * 64) + data).hexdigest())
    return len(raw).to_bytes(8, "little") + raw + data


def unseal(content):
    """Return header, metadata and arrays of a file, unchecked."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    data = content[8 + length :]
    dtypes = {name: dtype for dtype, name in DTYPES.items()}
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            arrays[name] = np.frombuffer(data[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
    return header, json.loads(header["__metadata__"]["nysketch"]), arrays
