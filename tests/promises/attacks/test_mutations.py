"""Damaged and hostile sketch files: one kind of error, never a wrong number, never much memory."""

import json
import tracemalloc
from random import Random

import numpy as np
import pytest

import nysketch
from nysketch.errors import CorruptSketchError
from tests.helpers import (
    ARCHIVES,
    canonical,
    grouped_sketch,
    parted_sketch,
    seal,
    small_sketch,
    squared_sketch,
    unseal,
)
from tests.promises.attacks.forgeries import (
    BASIS_FORGERIES,
    FORGERIES,
    FOURIER_FORGERIES,
    GROUPED_FORGERIES,
    PARTED_FORGERIES,
    SQUARED_FORGERIES,
    TEXT_FORGERIES,
)
from tests.promises.attacks.mutations import OF_BYTES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attacks")


@pytest.fixture(scope="module")
def original(folder):
    nysketch.save(small_sketch(weights="w"), folder / "original.nysk")
    return (folder / "original.nysk").read_bytes()


@pytest.fixture(scope="module")
def other(folder):
    nysketch.save(small_sketch(seed=1, weights="w"), folder / "other.nysk")
    return (folder / "other.nysk").read_bytes()


@pytest.fixture(scope="module")
def grouped(folder):
    nysketch.save(grouped_sketch(), folder / "grouped.nysk")
    return (folder / "grouped.nysk").read_bytes()


@pytest.fixture(scope="module")
def squared(folder):
    nysketch.save(squared_sketch(), folder / "squared.nysk")
    return (folder / "squared.nysk").read_bytes()


@pytest.fixture(scope="module")
def parted(folder):
    nysketch.save(parted_sketch(), folder / "parted.nysk")
    return (folder / "parted.nysk").read_bytes()


def require_refused(content, path):
    """Only CorruptSketchError will do: any other exception fails the test."""
    path.write_bytes(content)
    with pytest.raises(CorruptSketchError) as caught:
        nysketch.load(path)
    assert str(caught.value).startswith(str(path))


def change_header_length(random, data, other):
    lengths = [0, 1, 7, len(data), len(data) - 8, 1 << 20, (1 << 20) + 1, 1 << 62, (1 << 64) - 1]
    if random.random() < 0.5:
        value = random.choice(lengths)
    else:
        value = max(0, int.from_bytes(data[:8], "little") + random.randrange(-64, 65))
    data[:8] = value.to_bytes(8, "little")


def edit_header(random, data, other):
    """Change the JSON of the header and mend its length, but not the checksum."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8 : 8 + length]))
    names = [name for name in header if name != "__metadata__"]
    name = random.choice(names)
    entry, container = header[name], header["__metadata__"]
    edits = [
        lambda: entry.update(shape=[-n for n in entry["shape"]]),
        lambda: entry.update(shape=[2**40, 2**40]),
        lambda: entry.update(shape=[10**400]),
        lambda: entry.update(shape=[0, 2**70]),
        lambda: entry.update(shape=[float("inf")]),
        lambda: entry.update(shape=[1.5]),
        lambda: entry.update(shape=[str(n) for n in entry["shape"]]),
        lambda: entry.update(shape=None),
        lambda: entry.update(shape=entry["shape"] + [1] * 100),
        lambda: entry.update(shape=[[]]),
        lambda: entry.update(dtype="BF16"),
        lambda: entry.update(dtype=["F64"]),
        lambda: entry.update(dtype="F32"),
        lambda: entry.update(data_offsets=[0, 8]),
        lambda: entry.update(data_offsets=[-8, 10**30]),
        lambda: entry.pop("dtype"),
        lambda: entry.pop("shape"),
        lambda: header.pop(name),
        lambda: header.update(more={"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}),
        lambda: header.update({name: 5}),
        lambda: header.pop("__metadata__"),
        lambda: header.update(__metadata__="nysketch"),
        lambda: container.update(nysketch={}),
        lambda: container.update(nysketch="NaN"),
        lambda: container.update(nysketch='{"format_version":NaN,"kind":"sketch"}'),
        lambda: container.update(nysketch="[" * 100_000),
        lambda: container.update(sha256="0" * 64),
        lambda: container.update(more="x"),
    ]
    random.choice(edits)()
    text = json.dumps(header)
    if random.random() < 0.1:  # the same key twice
        text = text[:-1] + f", {json.dumps(name)}: {json.dumps(header.get(name))}}}"
    if random.random() < 0.05:
        text = '{"a":' * 50_000 + text + "}" * 50_000
    if random.random() < 0.05:
        text = "9" * 5_000
    data[: 8 + length] = len(text).to_bytes(8, "little") + text.encode()


MUTATIONS = [*OF_BYTES, change_header_length, edit_header]


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_ten_thousand_mutations_are_noticed(mutation, original, other, folder):
    random = Random(MUTATIONS.index(mutation))
    path = folder / "mutated.nysk"
    for _ in range(1112):  # times nine kinds
        data = bytearray(original)
        mutation(random, data, other)
        if data != original:
            require_refused(bytes(data), path)


@pytest.mark.slow
def test_every_bit_of_the_header_counts(original, folder):
    path = folder / "mutated.nysk"
    length = int.from_bytes(original[:8], "little")
    for at in range(8 + length):
        data = bytearray(original)
        data[at] ^= 1 << (at % 8)
        require_refused(bytes(data), path)


def test_the_forger_can_write_files_that_load(original, folder):
    _, metadata, arrays = unseal(original)
    (folder / "forged.nysk").write_bytes(seal(canonical(metadata), arrays))
    assert nysketch.load(folder / "forged.nysk").rows == 300


@pytest.mark.parametrize("name", FORGERIES)
def test_a_right_checksum_does_not_make_a_sketch(name, original, folder):
    _, metadata, arrays = unseal(original)
    arrays = {key: array.copy() for key, array in arrays.items()}
    text = FORGERIES[name](metadata, arrays)
    require_refused(seal(text or canonical(metadata), arrays), folder / "forged.nysk")


@pytest.mark.parametrize("name", BASIS_FORGERIES)
def test_a_right_checksum_does_not_make_a_basis(name, original, folder):
    nysketch.save(nysketch.load(folder / "original.nysk").basis, folder / "basis.nysk")
    _, metadata, arrays = unseal((folder / "basis.nysk").read_bytes())
    arrays = {key: array.copy() for key, array in arrays.items()}
    BASIS_FORGERIES[name](metadata, arrays)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mutations_of_a_sketch_with_groups_are_noticed(mutation, grouped, original, folder):
    random = Random(MUTATIONS.index(mutation))
    for _ in range(100):
        data = bytearray(grouped)
        mutation(random, data, original)
        if data != grouped:
            require_refused(bytes(data), folder / "mutated.nysk")


def test_the_forger_can_write_sums_of_groups_that_load(grouped, folder):
    _, metadata, arrays = unseal(grouped)
    (folder / "forged.nysk").write_bytes(seal(canonical(metadata), arrays))
    groups = nysketch.load(folder / "forged.nysk").groups
    assert groups.pairs and arrays["groups.sums"].tolist() == groups.sums.high.tolist()


@pytest.mark.parametrize("name", GROUPED_FORGERIES)
def test_a_right_checksum_does_not_make_sums_of_groups(name, grouped, folder):
    _, metadata, arrays = unseal(grouped)
    arrays = {key: array.copy() for key, array in arrays.items()}
    GROUPED_FORGERIES[name](metadata, arrays)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


@pytest.mark.parametrize("description", [{"pairs": False}, {"pairs": True}, {}, []])
def test_a_sketch_without_groups_has_no_sums_of_them(description, original, folder):
    _, metadata, arrays = unseal(original)
    metadata["groups"] = description
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")
    arrays["groups.sums"] = arrays["blocks.sums"][:2].copy()
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")
    metadata["groups"] = None
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


def test_two_groups_have_no_pairs_besides_all(folder):
    made = grouped_sketch(groups={"p": ["a", "b"], "q": ["c", "d"]})
    nysketch.save(made, folder / "two.nysk")
    _, metadata, arrays = unseal((folder / "two.nysk").read_bytes())
    assert metadata["groups"] == {"pairs": False}
    metadata["groups"]["pairs"] = True
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mutations_of_a_sketch_with_second_moments_are_noticed(mutation, squared, original, folder):
    random = Random(MUTATIONS.index(mutation))
    for _ in range(100):
        data = bytearray(squared)
        mutation(random, data, original)
        if data != squared:
            require_refused(bytes(data), folder / "mutated.nysk")


def test_the_forger_can_write_second_moments_that_load(squared, folder):
    _, metadata, arrays = unseal(squared)
    (folder / "forged.nysk").write_bytes(seal(canonical(metadata), arrays))
    moments = nysketch.load(folder / "forged.nysk").second_moments
    assert arrays["moments.sums"].tolist() == moments.sums.high.tolist()


@pytest.mark.parametrize("name", SQUARED_FORGERIES)
def test_a_right_checksum_does_not_make_second_moments(name, squared, folder):
    _, metadata, arrays = unseal(squared)
    arrays = {key: array.copy() for key, array in arrays.items()}
    SQUARED_FORGERIES[name](metadata, arrays)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


def test_a_sketch_without_second_moments_cannot_claim_them(original, folder):
    _, metadata, arrays = unseal(original)
    assert metadata["moments"] is False
    metadata["moments"] = True
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")
    metadata["moments"], arrays["moments.sums"] = False, np.zeros(36)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


OTHER_FORGERIES = {
    **{(name, "text"): forge for name, forge in TEXT_FORGERIES.items()},
    **{(name, "fourier"): forge for name, forge in FOURIER_FORGERIES.items()},
}


@pytest.mark.parametrize(("name", "kind"), OTHER_FORGERIES)
def test_a_right_checksum_does_not_make_text_or_frequencies(name, kind, folder):
    _, metadata, arrays = unseal((ARCHIVES / "v4" / f"{kind}.sketch.nysk").read_bytes())
    arrays = {key: array.copy() for key, array in arrays.items()}
    OTHER_FORGERIES[name, kind](metadata, arrays)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


@pytest.mark.parametrize("shape", [[0, 2**62], [2**62, 0, 2**62], [0] * 65], ids=str)
def test_shapes_that_hold_nothing_are_no_way_around(shape, original, folder):
    header, _, _ = unseal(original)
    header["more"] = {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}
    text = canonical(header).encode()
    data = original[8 + int.from_bytes(original[:8], "little") :]
    require_refused(len(text).to_bytes(8, "little") + text + data, folder / "nothing.nysk")


@pytest.mark.parametrize("shape", [[2**40], [2**20, 2**20], [2**62], [2**31] * 2, [0, 2**62]])
def test_terabytes_that_are_only_declared_are_not_allocated(shape, original, folder):
    header, _, _ = unseal(original)
    header["blocks.sums"]["shape"] = shape
    text = canonical(header).encode()
    path = folder / "huge.nysk"
    path.write_bytes(len(text).to_bytes(8, "little") + text + original[-4096:])
    tracemalloc.start()
    try:
        with pytest.raises(CorruptSketchError):
            nysketch.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.slow
def test_the_command_line_says_it_in_one_line_each(original, folder, run_cli):
    _, metadata, arrays = unseal(original)
    hostile = {
        "truncated": original[:-1],
        "flipped": original[:-5] + bytes([original[-5] ^ 4]) + original[-4:],
        "empty": b"",
        "other": b"PAR1" * 100,
        "bandwidth": seal(
            canonical(metadata).replace('"name":"gaussian"', '"name":"\\u001b[31m\\n\\u009b"'), arrays
        ),
        "kind": seal(canonical(metadata | {"kind": "\x1b[2J\nno"}), arrays),
        "nested": seal('{"a":' * 10_000 + "1" + "}" * 10_000, arrays),
    }
    paths = []
    for name, content in hostile.items():
        paths.append(folder / f"{name}.hostile")
        paths[-1].write_bytes(content)
    result = run_cli("verify", *paths)
    assert result.returncode == 5
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert [line.split(": ")[2] for line in lines] == [str(path) for path in paths]
    assert all(line.isprintable() and line.startswith("nysketch: error: ") for line in lines)
    for path in paths[:2]:
        result = run_cli("info", path)
        assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (5, "", 1)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mutations_of_a_sketch_of_parts_are_noticed(mutation, parted, original, folder):
    random = Random(MUTATIONS.index(mutation))
    for _ in range(100):
        data = bytearray(parted)
        mutation(random, data, original)
        if data != parted:
            require_refused(bytes(data), folder / "mutated.nysk")


def test_the_forger_can_write_parts_that_load(parted, folder):
    _, metadata, arrays = unseal(parted)
    assert metadata["format_version"] == 7
    (folder / "forged.nysk").write_bytes(seal(canonical(metadata), arrays))
    held = [held for _, held in nysketch.load(folder / "forged.nysk").provenance.parts]
    assert held == [((2, 3, 1),), ((2, 2, 1),)]


@pytest.mark.parametrize("name", PARTED_FORGERIES)
def test_a_right_checksum_does_not_make_parts(name, parted, folder):
    _, metadata, arrays = unseal(parted)
    PARTED_FORGERIES[name](metadata, arrays)
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


def test_a_sketch_without_parts_has_the_version_without_them(original, folder):
    _, metadata, arrays = unseal(original)
    assert metadata["format_version"] == 6
    metadata["format_version"] = 7
    require_refused(seal(canonical(metadata), arrays), folder / "forged.nysk")


UNLIKE_KERNELS = {
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "polynomial"},
    "cubic": {"kernel": "polynomial", "degree": 3},
    "cosine": {"kernel": "cosine"},
    "fourier": {"features": "fourier"},
    "gaussian": {},
}


@pytest.mark.parametrize("kernel", UNLIKE_KERNELS)
def test_sums_are_within_what_the_columns_allow(kernel, folder):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    options = {"landmarks": 6, "blocks": 4, "spans": 4, "second_moments": True}
    made = nysketch.sketch(rows, threads=1, **options, **UNLIKE_KERNELS[kernel])
    _, metadata, arrays = unseal(nysketch.to_bytes(made))
    assert nysketch.from_bytes(seal(canonical(metadata), arrays)) == made
    for name in ("blocks.sums", "runs.sums", "moments.sums"):
        for factor in (-1e4, 1e4, 1e300):
            forged = {key: value for key, value in arrays.items() if key != f"{name}.low"}
            forged[name] = arrays[name] * factor
            require_refused(seal(canonical(metadata), forged), folder / "forged.nysk")


@pytest.mark.parametrize("what", ["rest", "nothing"])
def test_what_a_subtraction_leaves_has_limits_too(what, folder):
    b = small_sketch(weights="w", seed=1, rows=50)
    a = nysketch.sketch(sketch_rows(1), basis=b.basis, weights="w", blocks=4, threads=1)
    left = (a + b) - a if what == "rest" else a - a
    _, metadata, arrays = unseal(nysketch.to_bytes(left))
    nysketch.from_bytes(seal(canonical(metadata), arrays))
    for name in (
        "blocks.sums",
        "blocks.weights",
        "cells.sums",
        "cells.squares",
        "cells.weights",
        "runs.sums",
    ):
        if arrays[name].size:
            forged = {key: value for key, value in arrays.items() if key != f"{name}.low"}
            forged[name] = np.full_like(arrays[name], 1e200)
            require_refused(seal(canonical(metadata), forged), folder / "forged.nysk")


def sketch_rows(seed):
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=80), "y": random.normal(size=80), "w": random.uniform(0.5, 2, 80)}
