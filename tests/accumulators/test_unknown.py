"""Missing values, and categories that no vocabulary has: counted, stored, and warned about."""

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.accumulators.unknown import UnknownValues
from nysketch.errors import NysketchWarning
from nysketch.files.format import from_bytes, to_bytes

KINDS = {"city": "category", "x": "number", "ts": "hour"}
quiet = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")


def table(seed, rows=400, *, cities="ABC", missing=0.1):
    random = np.random.default_rng(seed)

    def holes():
        return random.random(rows) < missing

    seconds = random.integers(0, 10**8, rows)
    return pa.table({
        "city": pa.array(random.choice(list(cities), rows), mask=holes()),
        "x": pa.array(random.normal(size=rows), mask=holes()),
        "y": random.normal(size=rows),
        "ts": pa.array(seconds, mask=holes()).cast(pa.timestamp("s")),
    })  # fmt: skip


def sketched(data, **options):
    return nysketch.sketch(data, kinds=KINDS, nulls="keep", landmarks=20, **options)


def expected(data, seen):
    """Count in Python, value by value."""
    found = {}
    for name in data.column_names:
        values = data[name].to_pylist()
        counts = Counter("missing" if v is None or v != v else "value" for v in values)
        unseen = sum(v is not None and v not in seen for v in values) if name == "city" else 0
        if counts["missing"] or unseen:
            found[name] = {"missing": counts["missing"], "unseen": unseen}
    return found


@quiet
def test_counts_are_those_of_the_table():
    first, second = table(1), table(2, cities="ABCDE")
    basis = sketched(first).basis
    a, b = (nysketch.sketch(data, basis=basis, nulls="keep") for data in (first, second))
    for sketch, data in ((a, first), (b, second), (a + b, pa.concat_tables([first, second]))):
        assert sketch.tally[UnknownValues].by_column(basis) == expected(data, "ABC")
        assert nysketch.info(sketch)["unknown_by_column"] == expected(data, "ABC")
        again = from_bytes(to_bytes(sketch)).tally[UnknownValues]
        assert again.by_column(basis) == expected(data, "ABC")
    left = ((a + b) - b).tally[UnknownValues]
    assert left.by_column(basis) == expected(first, "ABC")
    assert (left - left).arrays() == {}


@quiet
def test_dropped_rows_do_not_count():
    data = table(3)
    basis = sketched(table(1)).basis
    made = nysketch.sketch(data, basis=basis, nulls="drop")
    kept = [row for row in data.to_pylist() if None not in (row["x"], row["ts"], row["city"])]
    assert made.rows == len(kept) < data.num_rows
    assert made.tally[UnknownValues].by_column(basis) == {}


@quiet
def test_numbers_without_a_kind_have_missing_values_too():
    basis = nysketch.sketch(table(1, missing=0), columns=["x", "y"], landmarks=20).basis
    plain = nysketch.sketch(table(2, missing=0), basis=basis, nulls="keep")
    assert plain.tally[UnknownValues].arrays() == {}
    holey = nysketch.sketch(table(2), basis=basis, nulls="keep")
    assert list(holey.tally[UnknownValues].by_column(basis)) == ["x"]
    assert from_bytes(to_bytes(holey)) == holey
    versions = [int(re.search(rb'format_version\\":(\d)', to_bytes(s))[1]) for s in (plain, holey)]
    assert versions == [6, 8]


@quiet
@pytest.mark.parametrize("change", [-1000, 1000, 2**62])
@pytest.mark.parametrize("name", ["missing", "unseen"])
def test_forged_counts_are_refused(name, change):
    made = sketched(table(1))
    counts = made.tally[UnknownValues]
    forged = {"missing": counts.missing, "unseen": counts.unseen}
    forged[name] = forged[name] + change
    with pytest.raises(ValueError, match="unknown values"):
        UnknownValues(**forged).check(made.basis, made.tally)


@quiet
def test_counts_in_columns_that_cannot_have_them_are_refused():
    made = sketched(table(1))
    unseen = np.array([0, 1, 0, 0])
    with pytest.raises(ValueError, match="impossible"):
        UnknownValues(np.zeros(4, np.int64), unseen).check(made.basis, made.tally)
    with pytest.raises(ValueError, match="do not match"):
        UnknownValues.none(3).check(made.basis, made.tally)
    with pytest.raises(ValueError, match="incomplete"):
        UnknownValues.from_parts({}, {"unknown.missing": unseen}, made.basis, weighted=False)


# ---- words ---------------------------------------------------------------------------------------------


def warnings_of(data, basis):
    with pytest.warns(NysketchWarning) as caught:
        nysketch.sketch(data, basis=basis, nulls="keep")
    return [str(one.message) for one in caught]


@quiet
def test_what_the_pilot_had_too_is_no_news(recwarn):
    basis = sketched(table(1)).basis
    recwarn.clear()
    nysketch.sketch(table(2), basis=basis, nulls="keep")
    assert not recwarn.list


@quiet
def test_what_the_pilot_did_not_have_is():
    basis = sketched(table(1, missing=0)).basis
    data = table(2, missing=0.01).set_column(0, "city", pa.array(["A"] * 390 + ["Z"] * 10))
    unseen, missing = warnings_of(data, basis)
    assert "'city' in 10 rows (2.5 %)" in unseen and "did not have" in unseen
    assert "'x' in " in missing and "'ts' in " in missing and "average" in missing


@quiet
def test_many_unseen_values_ask_for_a_new_basis():
    basis = sketched(table(1, cities="ABCD")).basis
    (message,) = warnings_of(table(2, cities="WXYZ"), basis)
    assert "new basis" in message and "'city' in 3" in message
