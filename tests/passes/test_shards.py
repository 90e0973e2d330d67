"""Parts of a source: how they are cut, what they remember, that they add up to the whole, byte for byte."""

import dataclasses
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch._support.intervals import at_least, common, in_words, numbers, others, settled, stretched
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import IncompatibleError, InputError, OutputError, UsageError
from nysketch.files.merge import merge_files, merged, subtract_files
from nysketch.passes.execution import Execution
from nysketch.passes.shards import Shard, fragments_of, rows_of
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.provenance import LISTED, MOST_PARTS, Input, Provenance, Whole
from nysketch.sources.open import open_source
from nysketch.sources.protocol import Fragment
from tests.disturbances import dying_at_checkpoint

# ---- cutting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1/1", "3/16", " 16/16 ", f"7/{MOST_PARTS}"])
def test_parts_are_named_as_people_count(text):
    assert str(Shard.parse(text)) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["0/16", "17/16", "3", "3/", "/16", "3/16/2", "-1/16", "a/b", "1.0/2", "3/0", "1/100001", "", "٣/١٦"],
)
def test_what_is_no_part_is_refused(text):
    with pytest.raises(UsageError, match="part"):
        Shard.parse(text)


class Cut:
    """A source of fragments with so many rows."""

    def __init__(self, sizes):
        self.sizes, self.rows = sizes, sum(sizes)

    def fragments(self):
        first = 0
        for number, rows in enumerate(self.sizes):
            yield Fragment(number, first, rows, f"fragment {number}", first, 0)
            first += rows


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, 10**12)), min_size=1), st.integers(1, 40))
def test_parts_are_disjoint_complete_in_order_and_balanced(sizes, of):
    source = Cut(sizes)
    parts = [list(fragments_of(source, Shard(i, of))) for i in range(1, of + 1)]
    assert [fragment for part in parts for fragment in part] == list(source.fragments())
    for i in range(1, of + 1):
        rows = rows_of(source, Shard(i, of))
        assert rows == sum(fragment.rows for fragment in parts[i - 1])
        assert abs(rows * of - source.rows) <= max(sizes) * of


def test_without_a_part_there_is_everything():
    source = Cut([3, 0, 5])
    assert list(fragments_of(source, None)) == list(source.fragments())
    assert rows_of(source, None) == 8


# ---- counting ------------------------------------------------------------------------------------

OF = 9
counts = st.lists(st.integers(0, 3), min_size=OF, max_size=OF)


def as_stretches(times):
    """Write counts down the slow way; the least must be 0."""
    return settled([(((i + 1, i + 1, n),), 1) for i, n in enumerate(times) if n], len(times))[1]


@given(st.lists(st.tuples(counts, st.integers(-2, 2)), max_size=4))
def test_stretches_add_like_counts(terms):
    expected = np.zeros(OF, int)
    for times, factor in terms:
        expected += factor * (np.array(times) - min(times))
    least, rest = settled([(as_stretches(times), factor) for times, factor in terms], OF)
    assert least == expected.min()
    assert [n for first, last, n in rest for _ in range(first, last + 1)] == [
        n for n in (expected - least).tolist() if n
    ]
    assert list(numbers(rest)) == (np.flatnonzero(expected - least) + 1).tolist()
    assert all(a[1] < b[0] and (a[1] + 1 < b[0] or a[2] != b[2]) for a, b in pairwise(rest))


@given(counts, counts)
def test_stretches_know_what_they_share_and_lack(one, other):
    one[0] = other[0] = 0
    a, b = as_stretches(one), as_stretches(other)
    every = range(1, OF + 1)
    assert list(numbers(common(a, b))) == [i for i in every if one[i - 1] and other[i - 1]]
    assert list(numbers(others(a, OF))) == [i for i in every if not one[i - 1]]
    assert list(numbers(at_least(a, 2))) == [i for i in every if one[i - 1] >= 2]
    assert stretched(numbers(a)) == at_least(a, 1)


def test_parts_are_said_in_few_words():
    assert in_words(stretched([3]), 16) == "part 3 of 16"
    assert in_words(stretched([9, 3, 7, 8]), 16) == "parts 3, 7–9 of 16"
    assert in_words(stretched(range(1, 201, 2)), 200).endswith("77, 79, … of 200")


# ---- provenance ----------------------------------------------------------------------------------


def item(name, rows=10):
    return Input(name, rows, 100 * rows, f"digest of {name}")


FILES = [item(name, rows) for rows, name in enumerate("abcdef", start=1)]
WHOLES = [
    Whole.cut(inputs, [(5, 0, 1), (6, 0, 2)], of)
    for inputs in (FILES[:2], FILES[2:3], [FILES[3], FILES[3]])
    for of in (2, 3)
]
ATOMS = [Provenance.of([file]) for file in FILES] + [
    Provenance.of_part(whole, i) for whole in WHOLES for i in range(1, whole.of + 1)
]
NOTHING = Provenance()


def combination(terms):
    total = NOTHING
    for which, times in terms:
        for _ in range(abs(times)):
            total = total + ATOMS[which] if times > 0 else total - ATOMS[which]
    return total


provenances = st.lists(
    st.tuples(st.integers(0, len(ATOMS) - 1), st.integers(-2, 2)), max_size=8
).map(combination)  # fmt: skip


@given(provenances, provenances, provenances)
def test_provenance_is_a_commutative_group(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NOTHING == a
    assert a - a == NOTHING
    assert (a + b) - b == a
    assert (a - b) + b == a
    assert a - (b - c) == (a - b) + c
    assert Provenance.from_description(json.loads(json.dumps(a.describe()))) == a


@given(st.permutations(ATOMS), st.sampled_from(WHOLES))
def test_all_parts_are_the_whole_in_any_order_among_others(atoms, whole):
    everything = NOTHING
    for atom in atoms:
        everything = everything + atom
    assert not everything.parts
    counted = Counter(dict(everything.inputs))
    # Each file once by itself, and by two wholes; the last one is twice in each.
    assert counted == Counter(dict(zip(FILES, (3, 3, 3, 5, 1, 1), strict=True)))
    parts = [atom for atom in atoms if atom.parts and atom.parts[0][0] == whole]
    rest = Provenance.of(file for file, n in whole.inputs for _ in range(n))
    for part in parts:
        rest = rest - part
    assert rest == NOTHING


LONG = [item(f"{i:04}") for i in range(LISTED + 120)]
LONG_WHOLE = Whole.cut(LONG, [(1, 0, 1)], 4)
LONG_ATOMS = [Provenance.of_part(LONG_WHOLE, i) for i in range(1, 5)] + [
    Provenance.of([item("before")]),
    Provenance.of([item("zzz")]),
    Provenance.of_part(WHOLES[0], 1),
    Provenance.of(LONG[100:]),
]


@given(*[st.lists(st.sampled_from(LONG_ATOMS), max_size=5)] * 3)
def test_inputs_beyond_the_list_add_in_any_order(one, two, three):
    a, b, c = (sum(atoms, start=NOTHING) for atoms in (one, two, three))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


def test_parts_of_more_inputs_than_are_listed_are_the_whole():
    parts, whole = LONG_ATOMS[:4], Provenance.of(LONG)
    assert (len(whole.inputs), whole.unlisted) == (LISTED, 120)
    assert (parts[2] + parts[0]) + (parts[3] + parts[1]) == whole
    assert whole - parts[2] == parts[0] + parts[1] + parts[3]
    assert whole - parts[2] - parts[0] - parts[3] - parts[1] == NOTHING
    assert (parts[0] + parts[1]).parts[0][0].name == "0000 and 619 more"


def test_a_whole_is_its_inputs_in_their_order_as_they_were_cut():
    inputs, fragments = FILES[:2], [(5, 0, 1), (6, 0, 2)]
    digest = Whole.cut(inputs, fragments, 3).digest
    assert Whole.cut(inputs, fragments, 5).digest == digest
    different = [
        (inputs[::-1], fragments),
        (inputs[:1], fragments),
        (inputs, [(5, 0, 1), (5, 0, 2), (1, 5, 2)]),
        ([inputs[0], dataclasses.replace(inputs[1], digest="another")], fragments),
        ([inputs[0], dataclasses.replace(inputs[1], path="another")], fragments),
    ]
    assert all(Whole.cut(*changed, 3).digest != digest for changed in different)


def test_what_is_missing_and_doubled_is_told():
    one, two, three = (Provenance.of_part(WHOLES[1], i) for i in (1, 2, 3))
    assert (one + three).missing_parts() == [(WHOLES[1], ((2, 2, 1),))]
    assert (one + two + three).missing_parts() == (one + two + three).doubled_parts() == []
    assert (one + one + two).doubled_parts() == [(WHOLES[1], ((1, 1, 1),))]
    whole_and_more = one + one + two + three
    assert whole_and_more.missing_parts() == []
    assert whole_and_more.doubled_parts() == [(WHOLES[1], ((1, 1, 1),))]
    assert (one + two).parts_shared_with(two + three) == [(WHOLES[1], ((2, 2, 1),))]
    assert one.parts_shared_with(two) == []


def test_what_may_be_counted_twice_is_told():
    part, other_part = (Provenance.of_part(WHOLES[1], i) for i in (1, 2))
    assert part.shared_with(other_part) == []
    plain, another_cut = Provenance.of(FILES[1:2]), Provenance.of_part(WHOLES[0], 2)
    assert part.shared_with(plain) == plain.shared_with(part) == FILES[1:2]
    assert part.shared_with(another_cut) == FILES[:2]
    assert part.shared_with(Provenance.of(FILES[2:]) + Provenance.of_part(WHOLES[2], 1)) == []
    arrays = [Whole.cut([Input("array", 10)], [(10, 0, 1)], of) for of in (2, 3)]
    one, two = (Provenance.of_part(whole, 1) for whole in arrays)
    assert one.shared_with(two) == [Input("array", 10)]


# ---- sketches ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three files with row groups of different sizes, and NaN in some rows; relative names inside."""
    folder = tmp_path_factory.mktemp("files")
    generator = np.random.default_rng(0)
    for name, rows, group in (("a", 900, 70), ("b", 1500, 111), ("c", 333, 40)):
        values = generator.normal(size=(rows, 4))
        values[generator.random(rows) < 0.05, 1] = np.nan
        if name == "c":
            values[-53:, 0] = np.nan  # the last two row groups
        columns = {f"x{i}": column for i, column in enumerate(values.T)}
        table = pa.table(columns | {"w": generator.uniform(0.5, 2, rows)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=group)
    return [folder / f"{name}.parquet" for name in "abc"]


COLUMNS = ["x0", "x1", "x2", "x3"]
USUAL = {"nulls": "drop", "threads": 1, "sample_rows": 100, "blocks": 4}
GROUPS = {"p": ["x0", "x1"], "q": ["x2"], "r": ["x3"]}


def sketch_parts(files, of, **options):
    return [nysketch.sketch(files, part=f"{i}/{of}", **(USUAL | options)) for i in range(1, of + 1)]


def tree(sketches):
    """Add neighbours, and then their sums, each saved and read in between."""
    while len(sketches) > 1:
        pairs = [sketches[i : i + 2] for i in range(0, len(sketches), 2)]
        sketches = [nysketch.from_bytes(nysketch.to_bytes(sum(pair))) for pair in pairs]
    return sketches[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": 20, "columns": COLUMNS},
        {"landmarks": 20, "columns": COLUMNS, "weights": "w", "spans": 5, "far_rows": 7},
        {"landmarks": 20, "groups": GROUPS, "pairs": True, "permutation_rows": 100},
        {"landmarks": 20, "columns": COLUMNS, "second_moments": True, "precision": "float64"},
        {"landmarks": 10, "kernel": "polynomial", "seed": 3},
        {"landmarks": 10, "features": "fourier"},
        {"basis": None, "weights": "w"},
    ],
    ids=lambda options: "-".join(options),
)
def test_sixteen_parts_are_the_whole_byte_for_byte(files, options):
    if "basis" in options:
        options = options | {"basis": nysketch.Basis.fit(files, landmarks=20, nulls="drop", columns=COLUMNS)}
    whole = nysketch.to_bytes(nysketch.sketch(files, **(USUAL | options)))
    parts = sketch_parts(files, 16, **options)
    assert all(part.rows < 300 for part in parts)
    random.Random(0).shuffle(parts)
    assert nysketch.to_bytes(sum(parts)) == whole
    assert nysketch.to_bytes(tree(parts)) == whole


@pytest.fixture(scope="module")
def basis(files):
    return nysketch.Basis.fit(files, landmarks=10, nulls="drop", columns=COLUMNS)


@pytest.fixture(scope="module")
def whole(files, basis):
    return nysketch.sketch(files, basis=basis, **USUAL)


@pytest.fixture(scope="module")
def fifths(files, basis):
    return sketch_parts(files, 5, basis=basis)


def test_more_parts_than_fragments(files, basis, whole, caplog):
    parts = sketch_parts(files, 60, basis=basis)
    empty = [part for part in parts if not part.rows]
    assert len(empty) >= 60 - sum(pq.read_metadata(file).num_row_groups for file in files)
    assert "part 2/60 has no rows: there are fewer fragments" in caplog.text
    assert nysketch.to_bytes(tree(parts)) == nysketch.to_bytes(whole)


def test_a_part_whose_rows_were_all_dropped(files, basis, whole, caplog):
    parts = sketch_parts(files, 40, basis=basis)
    assert (parts[-1].rows, parts[-1].dropped_rows) == (0, 53)
    assert "part 40/40 has no rows: all 53 were dropped" in caplog.text
    assert nysketch.to_bytes(sum(parts)) == nysketch.to_bytes(whole)


def test_one_part_of_one_is_the_whole(files, basis, whole):
    assert nysketch.to_bytes(*sketch_parts(files, 1, basis=basis)) == nysketch.to_bytes(whole)


def test_a_whole_minus_a_part_is_the_other_parts(whole, fifths):
    rest, expected = whole - fifths[2], fifths[0] + fifths[1] + fifths[3] + fifths[4]
    assert rest.provenance == expected.provenance
    assert np.array_equal(rest.block_kernel_sums, expected.block_kernel_sums)
    assert (fifths[2] - fifths[2]).provenance == NOTHING
    assert (rest + fifths[2]).provenance == whole.provenance


def test_arrays_have_parts_and_streams_have_none(files):
    rows = np.random.default_rng(0).normal(size=(300_000, 1))
    whole = nysketch.sketch(rows, landmarks=5, threads=1)
    parts = [nysketch.sketch(rows, basis=whole, threads=1, part=Shard(i, 3)) for i in (1, 2, 3)]
    assert nysketch.to_bytes(sum(parts).basis) == nysketch.to_bytes(whole.basis)
    assert np.array_equal(sum(parts).block_kernel_sums, whole.block_kernel_sums)
    assert sum(parts).provenance == whole.provenance
    table = pa.table({"x": rows[:, 0]})
    stream = iter(table.to_batches())
    with pytest.raises(UsageError, match="it cannot be cut into parts"):
        nysketch.sketch(stream, basis=nysketch.Basis.fit(table, landmarks=5), part="1/2")


def test_parts_that_share_no_basis_do_not_add(fifths, files):
    with pytest.raises(IncompatibleError):
        fifths[0] + nysketch.sketch(files, landmarks=9, part="2/5", **USUAL)


# ---- files ---------------------------------------------------------------------------------------


def to_file(files, output, part, basis, *, progress=None, **saving):
    """Sketch a part as the command line does; one thread makes interruptions come at the same place."""
    return sketch_to_file(
        open_source([str(file) for file in files], columns=COLUMNS),
        output,
        BasisOptions() if basis is None else basis,
        PassOptions(blocks=4, nulls="drop", sample_rows=100),
        shard=None if part is None else Shard.parse(part),
        saving=Saving(**saving),
        execution=Execution(Threads(1), progress=progress),
    )


def stop_after(rows):
    def progress(done, total):
        assert total < 900
        if done >= rows:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_part_continues_and_no_other_one_does(files, basis, tmp_path):
    output = tmp_path / "s.nysk"
    to_file(files, tmp_path / "expected.nysk", "2/4", basis)
    with pytest.raises(KeyboardInterrupt):
        to_file(files, output, "2/4", basis, progress=stop_after(400))
    for other, said in (("3/4", "part (2/4, now 3/4)"), (None, "part (2/4, now all)")):
        with pytest.raises(InputError) as caught:
            to_file(files, output, other, basis)
        assert said in str(caught.value)
    assert to_file(files, output, "2/4", basis).resumed_fragments >= 3
    assert output.read_bytes() == (tmp_path / "expected.nysk").read_bytes()
    assert not checkpoint_path(output).exists()


def test_only_the_same_part_is_up_to_date(files, basis, tmp_path):
    output = tmp_path / "s.nysk"
    to_file(files, output, "2/4", basis)
    assert to_file(files, output, "2/4", basis, if_exists="skip").skipped
    for other in ("3/4", "2/5", None):
        with pytest.raises(OutputError, match="inputs, part differ"):
            to_file(files, output, other, basis, if_exists="skip")
    with pytest.raises(OutputError, match="inputs differ"):
        to_file(files[::-1], output, "2/4", basis, if_exists="skip")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory, files, basis, whole, fifths):
    """Sketches of parts and of other things, with their basis; for reading only."""
    folder = tmp_path_factory.mktemp("shelf")
    reversed_files, others = files[::-1], files[:1]
    things = {f"{i}-of-5": part for i, part in enumerate(fifths, start=1)}
    things |= {"whole": whole, "basis": basis, "sum": fifths[0] + fifths[1]}
    things |= {f"{i}-of-3": part for i, part in enumerate(sketch_parts(files, 3, basis=basis), start=1)}
    things["reversed"] = nysketch.sketch(reversed_files, basis=basis, part="1/5", **USUAL)
    things["a"] = nysketch.sketch(others, basis=basis, **USUAL)
    pq.write_table(pq.read_table(files[0]).slice(100), folder / "d.parquet", row_group_size=100)
    for i, part in enumerate(sketch_parts([folder / "d.parquet"], 2, basis=basis), start=1):
        things[f"d{i}-of-2"] = part
    for name, thing in things.items():
        nysketch.save(thing, folder / f"{name}.nysk")
    return folder


def merge(shelf, names, output, **options):
    paths = [shelf / f"{name}.nysk" for name in names.split()]
    return merge_files(paths, output, overwrite=True, **options)


FIFTHS = "1-of-5 2-of-5 3-of-5 4-of-5 5-of-5"


def test_all_parts_merge_into_the_file_of_the_whole(shelf, tmp_path):
    output = tmp_path / "x.nysk"
    for names in (FIFTHS, "3-of-5 5-of-5 sum 4-of-5", "1-of-3 3-of-3 2-of-3"):
        made = merge(shelf, names, output)
        assert output.read_bytes() == (shelf / "whole.nysk").read_bytes()
        assert not (made.doubled_inputs or made.doubled_parts or made.missing_parts)
    both = merge(shelf, f"d2-of-2 {FIFTHS} d1-of-2", output).sketch
    assert not both.provenance.parts
    assert len(both.provenance.inputs) == 4


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("1-of-5 3-of-5 4-of-5", "parts 2, 5 of 5 of {a} and 2 more are missing from these 3 sketches"),
        ("1-of-5", "parts 2–5 of 5 of {a} and 2 more are missing"),
        ("sum 3-of-5 5-of-5", "part 4 of 5 of {a} and 2 more is missing"),
        (f"{FIFTHS} d1-of-2", "part 2 of 2 of {d} is missing"),
        ("sum d2-of-2", "is missing; parts"),
    ],
)
def test_missing_parts_are_named(shelf, files, tmp_path, names, said):
    with pytest.raises(IncompatibleError) as caught:
        merge(shelf, names, tmp_path / "x.nysk", force=True)
    message = str(caught.value)
    if "; " not in said:
        assert said.format(a=files[0], d=shelf / "d.parquet") in message
    assert "merge again" in message and "`partial=True`" in message
    assert list(tmp_path.iterdir()) == []
    made = merge(shelf, names, tmp_path / "x.nysk", partial=True)
    assert made.missing_parts == nysketch.load(tmp_path / "x.nysk").provenance.missing_parts() != []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("1-of-5 2-of-5 2-of-5", "2-of-5.nysk: part 2 of 5 of {a} and 2 more is in it and in {s}2-of-5.nysk"),
        ("1-of-5 sum", "sum.nysk: part 1 of 5 of {a} and 2 more is in it and in {s}1-of-5.nysk"),
        (f"{FIFTHS} sum", "sum.nysk: parts 1–2 of 5 of {a} and 2 more are in it and in {s}1-of-5.nysk"),
        (
            "1-of-5 2-of-3",
            "2-of-3.nysk: {a} and 2 more is cut into 3 parts in it and into 5 in {s}1-of-5.nysk",
        ),
        ("whole 2-of-3", "2-of-3.nysk: {a} is in it and in another of these sketches"),
        ("2-of-3 whole", "whole.nysk: {a} is in it and in another of these sketches"),
        ("2-of-3 a", "a.nysk: {a} is in it and in another of these sketches"),
        ("reversed 1-of-5", "in the same order"),
    ],
)
def test_rows_that_are_there_twice_are_named(shelf, files, tmp_path, names, said):
    with pytest.raises(IncompatibleError) as caught:
        merge(shelf, names, tmp_path / "x.nysk", partial=True)
    message = str(caught.value)
    assert said.format(a=files[0], s=f"{shelf}/") in message
    assert "counted twice" in message and "`force=True`" in message
    made = merge(shelf, names, tmp_path / "x.nysk", partial=True, force=True)
    assert made.doubled_inputs or made.doubled_parts
    with pytest.raises(IncompatibleError, match=r"`nysketch\.merge\(force=True\)`"):
        merged([shelf / f"{name}.nysk" for name in names.split()])


def test_doubled_parts_do_not_hide_what_is_missing(shelf, tmp_path):
    made = merge(shelf, f"{FIFTHS} 3-of-5", tmp_path / "x.nysk", force=True)
    assert [(whole.of, parts) for whole, parts in made.doubled_parts] == [(5, ((3, 3, 1),))]
    assert (made.missing_parts, made.doubled_inputs) == ([], [])
    with pytest.raises(IncompatibleError, match="part 5 of 5"):
        merge(shelf, f"{FIFTHS[:-7]} 3-of-5", tmp_path / "x.nysk", force=True)


def test_parts_are_subtracted(shelf, whole, fifths, tmp_path):
    paths = [shelf / f"{name}.nysk" for name in ("whole", "sum", "4-of-5")]
    rest, missing = subtract_files(paths[0], paths[1:], tmp_path / "rest.nysk", overwrite=False)
    assert (rest.provenance, missing) == ((fifths[2] + fifths[4]).provenance, [])
    assert nysketch.load(tmp_path / "rest.nysk").provenance == rest.provenance
    with pytest.raises(
        IncompatibleError, match=r"part 3 of 5 of .*a\.parquet and 2 more, which is not among"
    ):
        subtract_files(paths[1], [shelf / "3-of-5.nysk"], tmp_path / "x.nysk", overwrite=False)


def test_what_is_made_of_some_parts_says_so(shelf, caplog):
    merged([shelf / f"{name}.nysk" for name in ("4-of-5", "sum")], "the coreset")
    assert "parts 3, 5 of 5 of" in caplog.text
    assert "are missing: the coreset covers only the remaining rows" in caplog.text
    caplog.clear()
    merged([shelf / f"{name}-of-5.nysk" for name in range(1, 6)])
    assert not caplog.text


def test_comparing_parts_warns_if_they_share_rows(fifths):
    apart = nysketch.compare(fifths[0], fifths[1]).notes
    assert not any("shared rows hide" in note for note in apart)
    shared = nysketch.compare(fifths[0], fifths[0] + fifths[1]).notes
    assert any("a.parquet is in" in note and "shared rows hide" in note for note in shared)


# ---- the command line ----------------------------------------------------------------------------


def refusal(result, code):
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.slow
def test_sixteen_commands_leave_the_file_of_one(run_cli, files, tmp_path):
    folder = files[0].parent
    inputs = ["a.parquet", "b.parquet", "c.parquet"]
    how = ["--weights", "w", "--nulls", "drop", "--threads", "1", "--sample-rows", "100", "-q"]
    basis, expected, output = (tmp_path / name for name in ("basis.nysk", "expected.nysk", "all.nysk"))
    made = run_cli("basis", *inputs, "--exclude", "w", "-m", "20", "--nulls", "drop", "-o", basis, cwd=folder)
    assert made.returncode == 0, made.stderr
    run_cli("sketch", *inputs, "--basis", basis, *how, "-o", expected, cwd=folder)
    order = list(range(1, 17))
    random.Random(1).shuffle(order)
    commands = [
        ["sketch", *inputs, *how, "--part", f"{i}/16", "--basis", basis, "-o", tmp_path / f"part-{i}.nysk"]
        for i in order
    ]
    for command in commands[:3]:
        result = run_cli(*command, cwd=folder)
        assert (result.returncode, result.stderr) == (0, "")
    # The others by one process: it takes longer to start one than to sketch a part.
    code = (
        "import json, sys; from nysketch.cli import group\n"
        "for line in json.load(sys.stdin): group.main(line, standalone_mode=False)"
    )
    rest = json.dumps([[*map(str, command)] for command in commands[3:]])
    subprocess.run([sys.executable, "-c", code], input=rest, text=True, check=True, cwd=folder)
    result = run_cli("merge", *[tmp_path / f"part-{i}.nysk" for i in order], "-o", output, "--json")
    report = json.loads(result.stdout)
    assert (report["doubled_inputs"], report["doubled_parts"], report["missing_parts"]) == ([], [], [])
    assert output.read_bytes() == expected.read_bytes()

    (tmp_path / "part-7.nysk").unlink()
    (tmp_path / "part-3.nysk").unlink()
    message = refusal(run_cli("merge", tmp_path / "part-*.nysk", "-o", tmp_path / "x.nysk"), 4)
    assert "parts 3, 7 of 16 of a.parquet and 2 more are missing" in message and "--partial" in message
    result = run_cli("merge", tmp_path / "part-*.nysk", "-o", tmp_path / "x.nysk", "--partial", "--json")
    missing = json.loads(result.stdout)["missing_parts"]
    assert [(found["of"], found["parts"], found["whole_name"]) for found in missing] == [
        (16, [3, 7], "a.parquet and 2 more")
    ]
    facts = json.loads(run_cli("info", tmp_path / "x.nysk", "--json").stdout)
    assert (facts["format_version"], facts["inputs"]) == (7, [])
    assert (facts["parts"][0]["missing"], len(facts["parts"][0]["held"])) == ([3, 7], 14)
    shown = run_cli("info", tmp_path / "x.nysk").stdout
    assert "parts 1–2, 4–6, 8–16 of 16 of these inputs; missing: parts 3, 7 of 16" in shown
    model = ["learn", "kmeans", tmp_path / "x.nysk", "-k", "2", "-o", tmp_path / "model.json"]
    result = run_cli(*model)
    assert result.returncode == 0
    assert "warning: parts 3, 7 of 16 of a.parquet and 2 more are missing: the model covers" in result.stderr
    result = run_cli("export", tmp_path / "x.nysk", "-o", tmp_path / "x.npz")
    assert result.returncode == 0 and "parts 3, 7 of 16" in result.stderr
    result = run_cli("compare", tmp_path / "x.nysk", expected)
    assert (
        result.returncode == 0 and "the result for" in result.stderr and "parts 3, 7 of 16" in result.stderr
    )


def test_a_part_without_a_basis_makes_the_same_one_and_says_what_that_takes(run_cli, files, tmp_path):
    folder = files[0].parent
    sketch = ["sketch", "a.parquet", "c.parquet", "-m", "20", "--nulls", "drop"]
    assert run_cli(*sketch, "-o", tmp_path / "whole.nysk", cwd=folder).returncode == 0
    for i in (2, 1):
        result = run_cli(*sketch, "--part", f"{i}/2", "-o", tmp_path / f"{i}.nysk", cwd=folder)
        assert result.returncode == 0
        assert "run `nysketch basis` once, and give its file" in result.stderr
    result = run_cli("merge", tmp_path / "2.nysk", tmp_path / "1.nysk", "-o", tmp_path / "all.nysk")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "all.nysk").read_bytes() == (tmp_path / "whole.nysk").read_bytes()
    plan = run_cli(*sketch, "--part", "2/2", "-o", tmp_path / "x.nysk", "--dry-run", "--json", cwd=folder)
    facts = json.loads(plan.stdout)
    source = open_source([str(files[0]), str(files[2])])
    assert (facts["rows"], facts["fragments"]) == (
        rows_of(source, Shard(2, 2)),
        len(list(fragments_of(source, Shard(2, 2)))),
    )


def test_an_empty_part_is_no_failure_but_a_stream_is(run_cli, make_parquet, tmp_path):
    make_parquet(tmp_path / "a.parquet", row_group_size=600)
    sketch = ["sketch", "a.parquet", "-m", "5", "-o", "s.nysk"]
    result = run_cli(*sketch, "--part", "1/2", "-q", cwd=tmp_path)
    assert result.returncode == 0 and "part 1/2 has no rows" in result.stderr
    assert json.loads(run_cli("info", "s.nysk", "--json", cwd=tmp_path).stdout)["rows"] == 0
    assert "is not a part" in refusal(run_cli(*sketch, "--part", "half", cwd=tmp_path), 2)
    stream = pa.BufferOutputStream()
    table = pq.read_table(tmp_path / "a.parquet")
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    arguments = ["sketch", "-", "--basis", "s.nysk", "-o", "t.nysk", "--part", "1/2"]
    result = run_cli(*arguments, cwd=tmp_path, input=stream.getvalue().to_pybytes(), text=False)
    assert result.returncode == 2 and b"it cannot be cut into parts" in result.stderr


def test_a_killed_part_continues(run_cli, make_parquet, tmp_path):
    make_parquet(tmp_path / "many.parquet", rows=5000, row_group_size=50)
    sketch = ["sketch", "many.parquet", "-m", "20", "--threads", "1", "--part", "2/3"]
    assert run_cli(*sketch, "-o", "expected.nysk", cwd=tmp_path).returncode == 0
    often = ["-o", "s.nysk", "--checkpoint-every", "0"]
    killed = run_cli(*sketch, *often, cwd=tmp_path, prepare=dying_at_checkpoint(5))
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "s.nysk.checkpoint").exists()
    result = run_cli(*sketch, "-o", "s.nysk", "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["resumed_fragments"] >= 5
    assert (tmp_path / "s.nysk").read_bytes() == (tmp_path / "expected.nysk").read_bytes()
