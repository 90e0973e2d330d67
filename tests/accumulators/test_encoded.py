"""Statistics of tables with categories, times and missing values, against the plain definitions."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.accumulators.groups import GroupSums
from nysketch.accumulators.sample import RowSample
from nysketch.passes.chunks import ChunkReader
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from tests import mixed, naive
from tests.accumulators.test_cells import require_farthest

N = 700
TABLE = mixed.table(np.random.default_rng(0), N)
OPTIONS = {"nulls": "keep", "threads": 1, "blocks": 3, "far_rows": 25, "sample_rows": 40}
BASIS = nysketch.Basis.fit(TABLE, kinds=mixed.KINDS, nulls="keep", landmarks=40, weights="w", seed=3)


def sketch(table=TABLE, basis=BASIS, **options):
    return nysketch.sketch(table, basis=basis, **{**OPTIONS, **options})


def rows_of(table, basis=BASIS):
    """Return the numbers of rows, column by column, by Python."""
    columns = []
    for column in basis.columns:
        values = table.column(column.name).to_pylist()
        kind = column.kind
        if kind is None or kind.name == "number":
            columns.append([np.nan if value is None else float(value) for value in values])
        elif kind.name == "category":
            columns.append([code_of(kind, value) for value in values])
        else:
            columns.append([np.nan if v is None else (v - EPOCH).total_seconds() for v in values])
    rows = np.array(columns).T
    plain = np.array([column.kind is None for column in basis.columns])
    rows[:, plain] = np.where(np.isnan(rows[:, plain]), basis.fill[plain], rows[:, plain])
    return rows


EPOCH = datetime.datetime(1970, 1, 1)


def code_of(kind, value):
    if value is None:
        return len(kind.values) + 1
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return kind.values.index(text) if text in kind.values else len(kind.values)


def cells_of(basis, rows, weights):
    """Return the cell and the offset of each row; counts, weights, sums and squares of cells."""
    scaled, landmarks = mixed.slow_scaled(basis, rows), mixed.slow_scaled(basis, basis.landmarks)
    of_row = ((scaled[:, None] - landmarks[None]) ** 2).sum(axis=2).argmin(axis=1)
    offsets = scaled - landmarks[of_row]
    sums, squares = np.zeros(landmarks.shape), np.zeros(landmarks.shape)
    np.add.at(sums, of_row, weights[:, None] * offsets)
    np.add.at(squares, of_row, weights[:, None] * offsets**2)
    counts = np.bincount(of_row, minlength=basis.m)
    return of_row, offsets, counts, np.bincount(of_row, weights, minlength=basis.m), sums, squares


def test_the_table_is_read_as_expected():
    rows = rows_of(TABLE)
    assert np.isnan(rows).any() and BASIS.encoded
    source = open_source(TABLE, ReadOptions(weights="w").for_basis(BASIS))
    reader = ChunkReader(source, nulls="keep", fill=BASIS.fill)
    read = [chunk.rows.copy() for part in source.fragments() for chunk in reader.chunks(part)]
    assert np.array_equal(np.concatenate(read), rows, equal_nan=True)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_pass_over_a_mixed_table_against_the_definitions(weights, precision):
    rows = rows_of(TABLE)
    w = np.ones(N) if weights is None else np.asarray(TABLE.column("w"))
    made = sketch(weights=weights, precision=precision)
    values = BASIS.evaluate(mixed.slow_scaled(BASIS, rows))
    assert np.allclose(made.kernel_sums, w @ values, rtol=1e-5 if precision == "float32" else 1e-12)
    assert made.rows == N and np.isclose(made.total_weight, w.sum(), rtol=1e-12)
    of_row, offsets, counts, weight, sums, squares = cells_of(BASIS, rows, w)
    cells = made.cells
    assert np.array_equal(cells.rows, counts) and np.allclose(cells.weight, weight, rtol=1e-12)
    assert np.allclose(cells.sums.high, sums, rtol=1e-10, atol=1e-8)
    assert np.allclose(cells.squares.high, squares, rtol=1e-10, atol=1e-8)
    assert np.allclose(cells.means[counts > 0], (sums / np.maximum(weight, 1e-9)[:, None])[counts > 0])
    exact = BASIS.transform(rows) - BASIS.scaled_landmarks[of_row]
    require_farthest(made, of_row, exact)
    assert np.allclose(
        made.cells.far.offsets.std(), offsets[np.argsort(-(offsets**2).sum(1))][:25].std(), rtol=0.1
    )


def test_the_sample_has_features_of_rows():
    made = sketch()
    scaled, sampled = BASIS.transform(rows_of(TABLE)), made.tally[RowSample].scaled(BASIS.middle)
    assert len(sampled) == 40
    distances = np.abs(sampled[:, None] - scaled[None]).max(axis=2).min(axis=1)
    assert (distances < 1e-5 * (1 + np.abs(sampled).max())).all()


def test_second_moments_are_products_of_values():
    made = sketch(second_moments=True)
    values = BASIS.values(rows_of(TABLE))
    assert np.allclose(made.second_moments.matrix(), values.T @ values, rtol=1e-9)


def test_groups_are_sums_at_their_columns():
    groups = {"place": ["city", "zip"], "money": ["price", "x"], "time": ["ts", "flag"]}
    basis = nysketch.Basis.fit(
        TABLE.drop(["w"]), kinds=mixed.KINDS, nulls="keep", landmarks=30, groups=groups, seed=3
    )
    made = sketch(basis=basis, pairs=True, permutation_rows=30)
    rows = rows_of(TABLE, basis)
    assert np.allclose(made.kernel_sums, basis.values(rows).sum(axis=0), rtol=1e-5)
    groups = made.tally[GroupSums]
    for part, sums in zip(groups.parts, groups.sums.high, strict=True):
        alone = basis.of_groups(part)
        assert np.allclose(sums, alone.values(rows[:, basis.numbers_of(part)]).sum(axis=0), rtol=1e-5)


def test_spans_are_sums_of_consecutive_rows():
    made = sketch(spans=8)
    values = BASIS.values(rows_of(TABLE))
    spans, start = made.spans, 0
    for rows, sums in zip(spans.rows, spans.sums.high, strict=True):
        assert np.allclose(sums, values[start : start + rows].sum(axis=0), rtol=1e-5)
        start += int(rows)
    assert start == N and len(spans.rows) > 3


# ---- the algebra -----------------------------------------------------------------------------------


PARTS = [sketch(TABLE.slice(start, 140), spans=8) for start in range(0, N, 140)]


@settings(max_examples=15)
@given(st.permutations(range(5)))
def test_merging_in_any_order_gives_the_same_bytes(order):
    assert nysketch.to_bytes(sum(PARTS[i] for i in order)) == nysketch.to_bytes(sum(PARTS))


@settings(max_examples=15)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 4))
def test_subtraction_undoes_addition_to_the_bit(added, other):
    a, b = sum(PARTS[i] for i in added), PARTS[other]
    back = (a + b) - b
    for name in ("rows", "beyond"):
        assert np.array_equal(getattr(back.cells, name), getattr(a.cells, name))
    for name in ("sums", "squares"):
        assert np.array_equal(getattr(back.cells, name).high, getattr(a.cells, name).high)
    assert np.array_equal(back.kernel_sums, a.kernel_sums)


def test_a_merged_sketch_can_be_saved_and_read():
    whole = sum(PARTS)
    assert nysketch.to_bytes(nysketch.from_bytes(nysketch.to_bytes(whole))) == nysketch.to_bytes(whole)
    rest = whole - PARTS[1]
    assert nysketch.to_bytes(nysketch.from_bytes(nysketch.to_bytes(rest))) == nysketch.to_bytes(rest)


# ---- ugly tables -----------------------------------------------------------------------------------


UGLY = {
    "one row": TABLE.slice(3, 1),
    "nothing but nulls": pa.table(
        {
            name: TABLE.column(name) if name == "w" else pa.nulls(N, TABLE.schema.field(name).type)
            for name in TABLE.column_names
        }
    ),
    "unseen values": TABLE.set_column(0, "city", pa.array([f"new {i}" for i in range(N)])),
    "a dictionary of nulls": TABLE.set_column(
        0, "city", pa.DictionaryArray.from_arrays(pa.array([0, 1] * (N // 2)), pa.array([None, "Köln"]))
    ),
    "years 1 and 9999": TABLE.set_column(
        4, "ts", pa.array(np.array(["0001-01-01", "9999-12-31"] * (N // 2), "datetime64[s]"))
    ),
}


@pytest.mark.parametrize("name", UGLY)
def test_ugly_tables_are_summed_and_stored_like_any(name):
    made = sketch(UGLY[name])
    rows = rows_of(UGLY[name])
    assert np.allclose(made.kernel_sums, BASIS.values(rows).sum(axis=0), rtol=1e-5, atol=1e-6)
    assert nysketch.from_bytes(nysketch.to_bytes(made)).rows == len(rows)
    of_row, *_, sums, _squares = cells_of(BASIS, rows, np.ones(len(rows)))
    alone = nearest_alone(BASIS, rows)
    sure = np.bincount(of_row[alone], minlength=BASIS.m)
    assert (made.cells.rows >= sure).all() and made.cells.rows.sum() == len(rows)
    assert alone.mean() > 0.9 or name == "nothing but nulls"
    if alone.all():
        assert np.allclose(made.cells.sums.high, sums, rtol=1e-10, atol=1e-8)


def nearest_alone(basis, rows):
    """Tell which rows are as near to no other landmark as to the nearest, but for the last digits."""
    scaled, landmarks = mixed.slow_scaled(basis, rows), mixed.slow_scaled(basis, basis.landmarks)
    distances = np.sort(((scaled[:, None] - landmarks[None]) ** 2).sum(axis=2), axis=1)
    return distances[:, 1] - distances[:, 0] > 1e-9


def test_plain_columns_with_holes_are_filled_with_the_centre():
    table = pa.table({"a": [1.0, 2.0, 3.0, 4.0] * 20, "city": ["x", "y"] * 40})
    basis = nysketch.Basis.fit(table, kinds={"city": "category"}, landmarks=8)
    holes = table.set_column(0, "a", pa.array([None, 2.0, np.nan, 4.0] * 20))
    filled = table.set_column(0, "a", pa.array([2.5, 2.0, 2.5, 4.0] * 20))
    assert basis.columns[0].kind is None and basis.fill[0] == 2.5
    one, other = sketch(holes, basis), sketch(filled, basis)
    # Rows of other tables are in other blocks: the same terms, added in another order.
    assert np.allclose(one.kernel_sums, other.kernel_sums, rtol=1e-14)
    assert np.allclose(one.cells.squares.high, other.cells.squares.high, rtol=1e-14, atol=1e-14)


def test_one_category_column_alone():
    table = pa.table({"city": ["a", "b", "c", None, "a", "a"] * 30})
    made = nysketch.sketch(table, kinds={"city": "category"}, nulls="keep", landmarks=3, threads=1)
    rows = rows_of(table, made.basis)
    assert np.allclose(made.kernel_sums, made.basis.values(rows).sum(axis=0), rtol=1e-5)
    assert made.cells.rows.sum() == len(rows)
    assert nysketch.from_bytes(nysketch.to_bytes(made)).rows == 180


def test_the_naive_cells_are_those_of_plain_columns():
    rows = np.random.default_rng(1).normal(size=(60, 3))
    basis = nysketch.Basis.fit(rows, landmarks=7)
    expected, found = naive.cells(basis, rows), cells_of(basis, rows, np.ones(60))
    assert np.array_equal(expected[0], found[0]) and np.allclose(expected[4], found[4])
