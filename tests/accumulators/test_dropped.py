"""Dropped rows: counted by column as a slow reference counts them, added, stored, and put into words."""

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.accumulators.dropped import DroppedRows
from nysketch.errors import InputError, NysketchWarning
from nysketch.files.format import load_sketch, save
from nysketch.sketches.losses import notes_on_losses

NAMES = ["a", "b", "v", "w"]


def holey(seed, rows, shares):
    """A table with nulls, NaN and infinities, in a column of lists and in the weights, too."""
    random = np.random.default_rng(seed)
    bad = random.random((rows, 4)) < shares
    a, b = random.normal(size=(2, rows))
    v, w = random.normal(size=(rows, 3)), random.uniform(0.5, 2, rows)
    b[bad[:, 1]], w[bad[:, 3]] = -np.inf, np.nan
    v[bad[:, 2], random.integers(3, size=bad[:, 2].sum())] = np.nan
    table = {
        "a": pa.array(a, mask=bad[:, 0]),
        "b": b,
        "v": pa.FixedSizeListArray.from_arrays(pa.array(v.ravel()), 3),
        "w": w,
    }
    return pa.table(table), bad


def naive_counts(bad):
    """Row by row."""
    invalid, alone = [0] * 4, [0] * 4
    for row in bad:
        which = [i for i in range(4) if row[i]]
        for i in which:
            invalid[i] += 1
            alone[i] += len(which) == 1
    return invalid, alone


@pytest.fixture(scope="module")
def basis():
    return nysketch.Basis.fit(holey(0, 200, [0] * 4)[0], weights="w", landmarks=5)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    shares=st.lists(st.sampled_from([0, 0.02, 0.3, 0.8]), min_size=4, max_size=4),
    rows=st.sampled_from([1, 50, 700]),
)
def test_counts_are_those_of_the_reference(basis, seed, shares, rows):
    table, bad = holey(seed, rows, shares)
    if bad.any(axis=1).all():
        return
    with pytest.warns(NysketchWarning) if bad.any() else nothing():
        found = nysketch.sketch(table, basis=basis, weights="w", nulls="drop", batch_rows=64)
    dropped = found.tally[DroppedRows]
    assert dropped.count == bad.any(axis=1).sum() == found.dropped_rows
    if dropped.count:
        invalid, alone = naive_counts(bad)
        assert dropped.invalid.tolist() == invalid
        assert dropped.alone.tolist() == alone
    else:
        assert dropped.arrays() == {}


class nothing:  # noqa: N801 - like contextlib.nullcontext, in a line of its own
    def __enter__(self):
        return self

    def __exit__(self, *of):
        return None


def of(*rows):
    return DroppedRows.of(np.array(rows, bool))


def same(one, other):
    ours, theirs = one.arrays(), other.arrays()
    return (
        one.count == other.count
        and ours.keys() == theirs.keys()
        and all((ours[name] == theirs[name]).all() for name in ours)
    )


matrices = st.lists(st.sampled_from([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]]), max_size=6)


@given(matrices, matrices, matrices)
def test_they_are_a_group(one, two, three):
    a, b, c = (of(*rows) if rows else DroppedRows() for rows in (one, two, three))
    assert same(a + b, b + a)
    assert same((a + b) + c, a + (b + c))
    assert same((a + b) - b, a)
    assert same((a - b) + b, a)
    assert same(a - a, DroppedRows())
    if one or two:
        assert same(a + b, of(*one, *two))


def test_what_is_unknown_stays_so():
    unknown, known = DroppedRows(3), of([1, 0, 0])
    assert same(unknown + known, DroppedRows(4))
    assert same(known + unknown, DroppedRows(4))
    assert same(unknown - unknown, DroppedRows())
    assert same(unknown + DroppedRows(), unknown)


def test_counts_that_no_rows_have_are_refused(basis):
    good = of([1, 0, 0, 0], [1, 1, 0, 0])
    good.check(basis, None)
    for count, invalid, alone in (
        (2, [2, 1, 0, 0], [2, 0, 0, 0]),  # alone in all, and yet not
        (2, [1, 0, 0, 0], [1, 0, 0, 0]),  # a row without a reason
        (1, [2, 1, 0, 0], [0, 0, 0, 0]),
        (2, [2, 1, 0, 0], [-1, 0, 0, 0]),
        (2, [2, 1, 0], [1, 0, 0]),
        (2, [2**63 - 1] * 4, [0] * 4),
    ):
        with pytest.raises(ValueError, match="dropped rows"):
            DroppedRows(count, np.array(invalid), np.array(alone)).check(basis, None)
    with pytest.raises(ValueError, match="incomplete"):
        DroppedRows(2, good.invalid).check(basis, None)


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_files_keep_them(basis, tmp_path):
    table, _ = holey(1, 300, [0.3, 0.1, 0.1, 0.1])
    made = nysketch.sketch(table, basis=basis, weights="w", nulls="drop")
    save(made, tmp_path / "s.nysk")
    assert same(load_sketch(tmp_path / "s.nysk").tally[DroppedRows], made.tally[DroppedRows])
    clean = nysketch.sketch(holey(1, 300, [0] * 4)[0], basis=basis, weights="w", nulls="drop")
    assert not [name for name in clean.tally.arrays() if name.startswith("dropped")]
    facts = nysketch.info(tmp_path / "s.nysk")
    assert next(iter(facts["dropped_by_column"])) == "a"
    assert "row weights" in facts["dropped_by_column"]


# ---- words ---------------------------------------------------------------------------------------------


def planes(rows=400):
    """As in a table of aeroplanes: the speed of hardly any is known."""
    random = np.random.default_rng(0)
    columns = {name: random.normal(size=rows) for name in ("year", "engines", "seats", "speed")}
    columns["speed"][: rows - 60] = np.nan
    columns["year"][::20] = np.nan
    return pa.table(columns)


def test_a_warning_names_the_column_that_costs_most():
    with pytest.warns(NysketchWarning) as caught:
        made = nysketch.sketch(planes(), landmarks=20, nulls="drop")
    (message,) = [str(one.message) for one in caught if "dropped" in str(one.message)]
    assert "343 of 400 rows (86 %)" in message
    assert "speed in 340, year in 20" in message
    assert 'Without speed, 323 of them would be kept: `exclude="speed"`' in message
    assert nysketch.sketch(planes(), landmarks=20, nulls="drop", exclude="speed").rows == made.rows + 323
    quality = nysketch.info(made, quality=True)["quality"]
    assert not [line for line in quality["advice"] if line.startswith("Enough landmarks")]


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_few_dropped_rows_are_a_notice_and_no_warning(caplog):
    table = planes().drop(["speed"])
    with caplog.at_level(logging.WARNING, "nysketch"):
        made = nysketch.sketch(table, landmarks=20, nulls="drop")
    assert made.dropped_rows == 20
    assert not caplog.records
    assert notes_on_losses(made) == []


@pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
def test_where_several_columns_are_invalid_together_it_says_so():
    table = planes()
    both = table.append_column("range", table["speed"])
    (note,) = notes_on_losses(nysketch.sketch(both, landmarks=20, nulls="drop"))
    assert "only 3 of them would be kept: several columns are invalid" in note


def test_a_basis_of_a_pilot_that_was_mostly_dropped_says_so():
    with pytest.warns(NysketchWarning, match="of the pilot, 343 of 400 rows"):
        basis = nysketch.Basis.fit(planes(), landmarks=20, nulls="drop")
    assert basis.origin["pilot_dropped"] == {"dropped": 343, "rows": 57}
    quality = nysketch.info(basis)["quality"]
    assert quality is None or not [x for x in quality["advice"] if x.startswith("Enough landmarks")]


def test_where_all_rows_are_dropped_the_error_names_the_column(tmp_path):
    table = planes().append_column("empty", pa.array([None] * 400, pa.float64()))
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"Column 'empty' is invalid in 400 of them.*exclude=\"empty\""):
        nysketch.sketch(tmp_path / "t.parquet", nulls="drop")
