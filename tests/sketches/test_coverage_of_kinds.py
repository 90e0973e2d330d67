"""Whether landmarks of an old basis cover rows whose kinds are of another pilot."""

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.basis.translation import translated
from nysketch.errors import IncompatibleError
from nysketch.sketches.coverage import coverage

pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
KINDS = {"city": "category", "price": "log", "size": "rank", "ts": "hour,weekday"}


def table(seed, *, rows=800, cities="ABC", missing=0.1):
    random = np.random.default_rng(seed)

    def holes():
        return random.random(rows) < missing

    return pa.table({
        "city": pa.array(random.choice(list(cities), rows), mask=holes()),
        "price": pa.array(random.lognormal(0, 2, rows), mask=holes()),
        "size": random.lognormal(0, 1, rows),
        "x": pa.array(random.normal(size=rows), mask=holes()),
        "ts": pa.array(random.integers(0, 10**8, rows), mask=holes()).cast(pa.timestamp("s")),
    })  # fmt: skip


def basis_of(data, **options):
    return nysketch.Basis.fit(data, landmarks=40, nulls="keep", **({"kinds": KINDS} | options))


def numbers(data, basis):
    """Return the rows of a table as numbers, with the codes of a basis."""
    rows = np.empty((data.num_rows, basis.width))
    for i, column in enumerate(basis.columns):
        values = data[column.name].to_pylist()
        if column.name == "city":
            kind = column.kind
            rows[:, i] = [kind.missing if v is None else kind.code_of.get(v, kind.other) for v in values]
        elif column.name == "ts":
            start = pa.scalar(0, pa.timestamp("s")).as_py()
            rows[:, i] = [np.nan if v is None else (v - start).total_seconds()
                          for v in values]  # fmt: skip
        else:
            rows[:, i] = [np.nan if v is None else v for v in values]
    return rows


@pytest.mark.parametrize("missing", [(0.1, 0.2), (0.0, 0.2), (0.1, 0.0)])
def test_features_of_another_pilot_are_those_of_the_rows(missing):
    one, two = table(1, cities="ABCD", missing=missing[0]), table(2, cities="CBE", missing=missing[1])
    mine, theirs = basis_of(one), basis_of(two)
    assert [c.kind for c in mine.columns] != [c.kind for c in theirs.columns]
    # Rows that both have vocabularies for, or that are in neither.
    data = table(3, cities="BCE", missing=missing[1])
    features = translated(theirs.expand(numbers(data, theirs)), theirs, mine)
    rows = numbers(data, mine)
    if missing[0] == 0:
        rows = np.where(np.isnan(rows), mine.fill, rows)
    assert features == pytest.approx(mine.expand(rows), abs=1e-9)


def test_landmarks_cover_like_rows_and_no_others():
    old = nysketch.sketch(table(1), kinds=KINDS, nulls="keep", landmarks=40)
    like = nysketch.sketch(table(2), kinds=KINDS, nulls="keep", landmarks=40, seed=5)
    unlike = nysketch.sketch(table(3, cities="XYZ", missing=0.9), kinds=KINDS, nulls="keep", landmarks=40)
    assert coverage(like, old).covered
    assert not coverage(unlike, old).covered
    # At the same basis, the sampled rows are what they are.
    again = nysketch.sketch(table(2), basis=old.basis, nulls="keep")
    assert coverage(again, old).residual_now == pytest.approx(coverage(like, old).residual_now, rel=0.01)


def test_other_kinds_are_refused_by_name():
    old = nysketch.sketch(table(1), kinds=KINDS, nulls="keep", landmarks=40)
    parts = nysketch.sketch(table(1), kinds=KINDS | {"ts": "hour"}, nulls="keep", landmarks=40)
    with pytest.raises(IncompatibleError, match=r"'ts'.*hour and as hour,weekday"):
        coverage(parts, old)
    numbers_only = table(1).set_column(0, "city", pa.array(np.arange(800.0) % 3))
    number = nysketch.sketch(numbers_only, kinds=KINDS | {"city": "number"}, nulls="keep", landmarks=40)
    with pytest.raises(IncompatibleError, match=r"'city'.*as number and as category"):
        coverage(number, old)
