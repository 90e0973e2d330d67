"""Mutated sketch and basis files: damaged ones, and ones sealed again with a checksum that is right."""

import json
from functools import cache

import numpy as np
import pyarrow as pa

import nysketch
from nysketch.errors import CorruptSketchError, WrongKindError
from tests.helpers import canonical, grouped_sketch, parted_sketch, seal, small_sketch, squared_sketch, unseal
from tests.promises.attacks.mutations import OF_BYTES, changed_arrays, changed_json
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, UNCHANGED, Outcome, command

_MORE_ARRAYS = ["blocks.sums.low", "runs.sums.low", "blocks.weights", "sample.weights", "moments.sums"]
_MORE_ARRAYS += ["groups.sums", "basis.landmarks.ends", "done", "request"]


def _table(rows=300, seed=5):
    random = np.random.default_rng(seed)
    return pa.table({"x": random.normal(size=rows), "y": random.normal(3, 2, size=rows)})


def _sketch(data=None, **options):
    usual = {"landmarks": 6, "blocks": 4, "spans": 4, "sample_rows": 20, "far_rows": 5}
    return nysketch.sketch(_table() if data is None else data, threads=1, **(usual | options))


def _text():
    strings = [f"str{i % 17}" for i in range(300)]
    options = {"kernel": "spectrum", "length": 2, "landmarks": 5, "far_rows": None}
    return _sketch(pa.table({"t": strings}), **options)


def _rest():
    """Return what is left of two tables when the first is taken away."""
    first = _sketch()
    options = {"blocks": 4, "spans": 4, "sample_rows": 20, "far_rows": 5}
    return first + nysketch.sketch(_table(200, 6), basis=first.basis, threads=1, **options) - first


@cache
def originals(folder):
    """Write a sketch of every kind, and a basis: paths by name."""
    plain = _sketch()
    made = {
        "plain": plain,
        "weights": small_sketch(weights="w"),
        "float64": _sketch(precision="float64"),
        "moments": squared_sketch(),
        "groups": grouped_sketch(),
        "mixed groups": grouped_sketch(kernel={"p": "linear", "q": "gaussian", "r": "cosine"}),
        "linear": _sketch(kernel="linear", second_moments=True),
        "quadratic": _sketch(kernel="polynomial", degree=2),
        "cubic": _sketch(kernel="polynomial", degree=3),
        "laplacian": _sketch(kernel="laplacian-l1"),
        "cosine": _sketch(kernel="cosine"),
        "fourier": _sketch(features="fourier", sample_rows=20, second_moments=True, far_rows=None),
        "text": _text(),
        "parts": parted_sketch(),
        "nothing": plain - plain,
        "rest": _rest(),
        "basis": plain.basis,
    }
    paths = {name: folder / f"{name}.original.nysk".replace(" ", "-") for name in made}
    for name, path in paths.items():
        nysketch.save(made[name], path)
    return paths


@cache
def _content(path):
    return path.read_bytes()


@cache
def _parts(path):
    return unseal(_content(path))[1:]


def mutate_sketch(random, folder):
    """Change one file, in its bytes or before it is sealed, load it, and use it if that is possible."""
    paths = originals(folder)
    name = random.choice(sorted(paths))
    path = folder / "mutated.nysk"
    original = _content(paths[name])
    if random.random() < 0.35:
        mutation, content = _damaged(random, original, _content(random.choice(list(paths.values()))))
    else:
        mutation, content = _forged(random, *_parts(paths[name]))
    if content == original:
        return Outcome(mutation, UNCHANGED)
    path.write_bytes(content)
    try:
        loaded = nysketch.load(path)
    except (CorruptSketchError, WrongKindError) as error:
        named = str(error).startswith(f"{path}: ") and str(error).isprintable()
        return Outcome(mutation, REFUSED if named else FAILED, str(error))
    if mutation.startswith("bytes"):
        return Outcome(mutation, FAILED, f"damage to {name} was not noticed")
    return _used(random, mutation, loaded, path, paths)


def _damaged(random, original, other):
    data = bytearray(original)
    change = random.choice(OF_BYTES)
    for _ in range(random.choice([1, 1, 2, 5])):
        if data:
            change(random, data, other)
    return f"bytes: {change.__name__}", bytes(data)


def _forged(random, metadata, arrays):
    mutation = random.choice(["metadata", "arrays", "arrays", "both"])
    if mutation != "arrays":
        metadata = changed_json(random, metadata)
    if mutation != "metadata":
        arrays = changed_arrays(random, arrays, _MORE_ARRAYS)
    return f"sealed: {mutation}", seal(canonical(metadata), arrays)


# ---- what was accepted must be of use ----------------------------------------------------------------------


def _used(random, mutation, loaded, path, paths):
    out = path.parent
    beside = paths["rest" if random.random() < 0.3 else "plain"]
    again = ["--if-exists", "overwrite", "-o"]
    commands = [
        ["info", path, "--json"],
        ["info", path],
        ["verify", path],
        ["sketch", "--basis", path, out / "d.csv", *again, out / "b.nysk"],
    ]
    if isinstance(loaded, nysketch.Sketch):
        commands += [
            ["compare", path, beside, "--json"],
            ["compare", path, path, "--json"],
            ["learn", "kmeans", path, "-k", "2", *again, out / "m.json"],
            ["learn", "gmm", path, "-k", "2", *again, out / "m.json"],
            ["coreset", path, "-s", "3", *again, out / "c.csv"],
            ["export", path, *again, out / "e.json"],
            ["export", path, *again, out / "e.npz"],
            ["merge", path, beside, "--force", *again, out / "s.nysk"],
            ["subtract", beside, path, "--force", *again, out / "s.nysk"],
            ["independence", path, "--json"],
            ["info", path, "--against", beside],
        ]
    if not (out / "d.csv").exists():
        (out / "d.csv").write_text("x,y\n1,2\n3,4\n5,6\n" * 10)
    if random.random() < 0.05:
        commands = [["plot", path, *again, out / "p.svg"]]
    given = random.choice(commands)
    code, printed, said = command(*given)
    what = f"{' '.join(map(str, given[:2]))}, of {mutation}"
    if code == 1:
        return Outcome(mutation, FAILED, f"exit code 1: {what}: {said[:200]}")
    if "--json" in given and code in (0, 7):
        json.loads(printed, parse_constant=_refuse)
    if " nan" in printed.lower():
        return Outcome(mutation, FAILED, f"nan printed: {what}")
    return Outcome(mutation, ACCEPTED, what)


def _refuse(constant):
    raise ValueError(f"{constant} in JSON")
