"""Serial numbers and constants: left out of a new basis wherever one is made, and nowhere else."""

import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.errors import NysketchWarning, OutputError, SchemaError
from nysketch.files.checkpoint import Checkpoint
from nysketch.passes.pilot import fit_basis, notes_on_constants_of
from nysketch.passes.sketching import run_pass
from nysketch.passes.to_file import Saving, _request, sketch_to_file
from nysketch.sources.open import open_source

ROWS = 600


def day(seed, *, first=1, version=3.0, rows=ROWS):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": first + np.arange(rows),
            "x": random.normal(size=rows),
            "version": np.full(rows, version),
            "y": random.exponential(size=rows),
            "city": ["here", "there"] * (rows // 2),
        }
    )


def columns_of(thing):
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    return [column.name for column in basis.columns]


@pytest.fixture
def table():
    return day(0)


def test_two_days_of_one_distribution_do_not_differ_by_their_serial_numbers(table):
    with pytest.warns(NysketchWarning, match=r"id \(serial number\), version \(constant 3\)"):
        one = nysketch.sketch(table, landmarks=40)
    two = nysketch.sketch(day(1, first=ROWS + 1), basis=one)
    assert columns_of(one) == ["x", "y", "city"]
    assert one.basis.origin["left_out"] == {"id": "serial number", "version": "constant 3"}
    assert one.basis.origin["constants"] == {"version": 3.0}
    assert nysketch.compare(one, two, seed=1).p_value > 0.05
    kept = nysketch.sketch(table, landmarks=40, columns=["id", "x", "version", "y"])
    assert columns_of(kept) == ["id", "x", "version", "y"]
    assert nysketch.compare(kept, nysketch.sketch(day(1, first=ROWS + 1), basis=kept), seed=1).p_value < 0.01


def test_the_sketch_is_that_of_the_other_columns(table, tmp_path):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        left_out = nysketch.sketch(table, landmarks=20)
        excluded = nysketch.sketch(table, landmarks=20, exclude=["id", "version"])
    assert left_out.basis.digest == excluded.basis.digest
    ours, theirs = left_out.tally.arrays(), excluded.tally.arrays()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert list(ours) == list(theirs)


def as_parquet(table, folder):
    pq.write_table(table, folder / "t.parquet", row_group_size=100)
    return str(folder / "t.parquet")


def as_files(table, folder):
    for i in range(3):
        pq.write_table(table.slice(200 * i, 200), folder / f"{i}.parquet")
    return str(folder / "*.parquet")


def as_csv(table, folder):
    pyarrow.csv.write_csv(table, folder / "t.csv")
    return str(folder / "t.csv")


def as_feather(table, folder):
    pyarrow.feather.write_feather(table, folder / "t.feather", chunksize=100)
    return str(folder / "t.feather")


def as_hdf5(table, folder):
    with h5py.File(folder / "t.h5", "w") as file:
        for name in ("id", "x", "version", "y"):
            file[name] = table[name].to_numpy()
    return str(folder / "t.h5")


def as_dataset(table, folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(as_parquet(table, folder))


def as_pandas(table, folder):
    return table.to_pandas()


KINDS = [as_parquet, as_files, as_csv, as_feather, as_hdf5, as_dataset, as_pandas]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_every_kind_of_source_leaves_them_out(kind, table, tmp_path):
    data = kind(table, tmp_path)
    made = nysketch.sketch(data, landmarks=20)
    names = ["x", "y"] if kind is as_hdf5 else ["x", "y", "city"]
    assert columns_of(made) == names
    assert made.rows == ROWS
    again = nysketch.sketch(data, basis=made)
    assert np.array_equal(again.kernel_sums, made.kernel_sums)
    few = nysketch.coreset(data, 5, landmarks=20)
    assert [column.name for column in few.columns] == names
    assert few.of_rows == ROWS


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_what_is_named_or_has_no_name_is_never_left_out(table):
    matrix = np.column_stack([np.arange(ROWS), np.full(ROWS, 3.0), table["x"].to_numpy()])
    assert len(columns_of(nysketch.sketch(matrix, landmarks=5))) == 3
    lists = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 3), "x": table["x"]})
    assert columns_of(nysketch.sketch(lists, landmarks=5)) == ["v", "x"]
    grouped = nysketch.sketch(table, landmarks=5, groups={"a": ["id"], "b": ["x", "version"]})
    assert columns_of(grouped) == ["id", "x", "version"]
    weighted = nysketch.sketch(table, landmarks=5, weights="version")
    assert columns_of(weighted) == ["x", "y", "city"]
    assert weighted.basis.origin["left_out"]["version"] == "row weights"


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_estimators_learn_from_all_columns_they_are_given(table, tmp_path):
    pytest.importorskip("sklearn")
    numbers = table.drop(["city"])
    path = as_parquet(numbers, tmp_path)
    for data in (numbers.to_pandas(), path):
        model = nysketch.SketchedKMeans(n_clusters=2, landmarks=10).fit(data)
        assert list(model.feature_names_in_) == ["id", "x", "version", "y"]


def test_a_table_of_nothing_else_is_refused(table):
    with pytest.raises(SchemaError, match=r"id \(serial number\), version \(constant 3\)\. Name those"):
        nysketch.Basis.fit(table.select(["id", "version"]), landmarks=5)
    assert columns_of(nysketch.Basis.fit(table.select(["id"]), columns=["id"], landmarks=5)) == ["id"]


def test_of_few_rows_nothing_is_left_out():
    assert columns_of(nysketch.sketch({"id": [1, 2, 3], "one": [1, 1, 1]}, landmarks=2)) == ["id", "one"]


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_a_flag_that_the_pilot_misses_is_no_constant(tmp_path):
    """One row in 50,000 has it: no row of the pilot, but statistics of Parquet and tables know."""
    flag = np.zeros(50_000)
    flag[17] = 1
    table = pa.table({"x": np.random.default_rng(0).normal(size=50_000), "flag": flag})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10_000)
    for data in (table, tmp_path / "t.parquet"):
        assert columns_of(nysketch.Basis.fit(data, landmarks=10, pilot_rows=500)) == ["x", "flag"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_constant_that_changes_is_reported(kind, table, tmp_path):
    basis = fit_basis(open_source(table), BasisOptions(m=5))
    data = kind(day(1, version=4.0), tmp_path)
    source = open_source(data, like=basis.columns)
    notes = notes_on_constants_of(basis, source)
    if kind is as_dataset:  # a query is not run for it
        assert notes == []
        return
    assert len(notes) == 1
    assert "'version' was constant (3)" in notes[0]
    assert "the value 4" in notes[0]
    with pytest.warns(NysketchWarning, match="was constant"):
        nysketch.sketch(data, basis=basis)


def test_a_constant_that_does_not_change_is_not_mentioned(table, tmp_path):
    basis = fit_basis(open_source(table), BasisOptions(m=5))
    for data in (day(1), as_parquet(day(1), tmp_path), table.select(["x", "y"])):
        assert notes_on_constants_of(basis, open_source(data, like=basis.columns)) == []
    nulls = table.set_column(2, "version", pa.array([None] * ROWS, pa.float64()))
    pq.write_table(nulls, tmp_path / "nulls.parquet")
    assert notes_on_constants_of(basis, open_source(tmp_path / "nulls.parquet", like=basis.columns)) == []


def test_a_constant_of_one_row_group_is_noticed_without_reading_rows(table, tmp_path):
    basis = fit_basis(open_source(table), BasisOptions(m=5))
    changed = table["version"].to_numpy().copy()
    changed[-1] = 9
    pq.write_table(
        table.set_column(2, "version", pa.array(changed)), tmp_path / "t.parquet", row_group_size=90
    )
    source = open_source(tmp_path / "t.parquet", like=basis.columns)
    source.read = None  # nobody may
    assert "values from 3 to 9" in notes_on_constants_of(basis, source)[0]
    pq.write_table(
        table.set_column(2, "version", pa.array(changed)), tmp_path / "u.parquet", write_statistics=False
    )
    source = open_source(tmp_path / "u.parquet", like=basis.columns)
    assert notes_on_constants_of(basis, source) == []  # beyond the rows that were looked at


# ---- existing outputs ----------------------------------------------------------------------------------


def to_file(path, output, **saving):
    return sketch_to_file(
        open_source(path), output, BasisOptions(m=10), PassOptions(blocks=4), saving=Saving(**saving)
    )


def as_before(path):
    """Return a source and a basis as versions had them that left out no numbers."""
    source = open_source(path)
    named = open_source(path, columns=[column.name for column in source.columns])
    return source, fit_basis(named, BasisOptions(m=10))


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_outputs_are_up_to_date_whether_made_before_or_now(table, tmp_path):
    path, output = as_parquet(table, tmp_path), tmp_path / "s.nysk"
    to_file(path, output)
    assert to_file(path, output, if_exists="skip").skipped
    _, old = as_before(path)
    options, wanted = PassOptions(blocks=4), BasisOptions(m=10)
    nysketch.save(run_pass(open_source(path), old, options, made_by=wanted), output)
    kept = to_file(path, output, if_exists="skip")
    assert kept.skipped
    assert columns_of(kept.sketch) == ["id", "x", "version", "y"]
    # Named columns are another request than those that are left out.
    to_file(path, output, if_exists="overwrite")
    with pytest.raises(OutputError, match="columns differ"):
        sketch_to_file(
            open_source(path, columns=["id", "x", "version", "y"]), output, wanted, options,
            saving=Saving("skip"),
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
@pytest.mark.parametrize("before", [True, False])
def test_a_checkpoint_is_continued_with_the_columns_it_has(before, table, tmp_path):
    path, output = as_parquet(table, tmp_path), tmp_path / "s.nysk"
    source, basis = as_before(path)
    options, wanted = PassOptions(blocks=4), BasisOptions(m=10)
    if not before:
        basis = fit_basis(source, wanted)
    request = _request(source, wanted, options) | {"inputs": source.state(), "part": None}
    whole = run_pass(source, basis, options, made_by=wanted)
    numbers = {fragment.number for fragment in source.fragments()}
    Checkpoint(output, request, every=0.0).save(whole, numbers)
    outcome = to_file(path, output)
    assert outcome.resumed_fragments == len(numbers)
    assert columns_of(outcome.sketch) == (["id", "x", "version", "y"] if before else ["x", "y"])
    assert np.array_equal(outcome.sketch.kernel_sums, whole.kernel_sums)


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_parts_and_merged_sketches_share_the_basis(table, tmp_path):
    path = as_parquet(table, tmp_path)
    parts = [nysketch.sketch(path, landmarks=10, part=f"{i}/3") for i in (1, 2, 3)]
    whole = nysketch.sketch(path, landmarks=10)
    merged = parts[0] + parts[1] + parts[2]
    assert np.array_equal(merged.kernel_sums, whole.kernel_sums)
    assert merged.basis.origin["left_out"] == whole.basis.origin["left_out"]
