"""Some landmarks have the codes of other and of missing values, which the pilot need not show."""

import numpy as np
import pyarrow as pa
import pytest

import nysketch

N = 2000


def table(seed, *, new=0.0, gone=0.0):
    rng = np.random.default_rng(seed)
    city = np.where(rng.random(N) < new, "z", rng.choice(["a", "b", "c"], N))
    return pa.table(
        {
            "x": rng.standard_normal(N),
            "y": rng.standard_normal(N),
            "city": pa.array(city, mask=rng.random(N) < gone),
            "plan": rng.choice(["p", "q"], N),
        }
    )


KINDS = {"city": "category", "plan": "category"}


def basis(m=40, data=None, **options):
    data = table(0) if data is None else data
    return nysketch.Basis.fit(data, kinds=KINDS, landmarks=m, nulls="keep", **options)


def codes(basis, name):
    place = next(p for p in basis.layout.places if p.column.name == name)
    return place.column.kind, basis.landmarks[:, place.numbers.start]


@pytest.mark.parametrize("m", [8, 40, 100])
@pytest.mark.parametrize("name", ["city", "plan"])
def test_landmarks_have_the_codes_that_the_pilot_does_not_show(m, name):
    found = basis(m)
    kind, here = codes(found, name)
    assert found.m == m
    if m >= 16:
        assert (here == kind.other).any() and (here == kind.missing).any()
    assert (here < len(kind.values)).sum() >= m * 3 // 4


def test_the_others_are_those_that_would_be_chosen_first():
    some, few = basis(40).landmarks, basis(35)
    assert np.array_equal(some[:31], few.landmarks[:31])


def test_landmarks_differ_from_each_other():
    data = pa.table({"city": ["a", "b", None] * 50, "plan": ["p", "q", "p"] * 50})
    found = basis(100, data)
    assert len(np.unique(found.landmarks, axis=0)) == found.m
    assert {(0.0, 0.0), (1.0, 1.0)} <= set(map(tuple, found.landmarks))


def test_tables_without_categories_stay_as_they_are():
    data = table(0).select(["x", "y"])
    plain = nysketch.Basis.fit(data, landmarks=40)
    assert plain == nysketch.Basis.fit(data, landmarks=40, nulls="keep")
    assert set(map(tuple, plain.landmarks)) <= set(
        zip(data["x"].to_pylist(), data["y"].to_pylist(), strict=True)
    )


def test_the_same_rows_give_the_same_landmarks():
    assert basis(seed=3) == basis(seed=3)


def test_new_and_missing_values_are_found():
    found = basis(100)
    first = nysketch.sketch(table(1), basis=found, nulls="keep")
    for change in ({"new": 0.08}, {"gone": 0.08}):
        second = nysketch.sketch(table(2, **change), basis=found, nulls="keep")
        assert nysketch.compare(first, second, permutations=199, explain=False).rejected
    same = nysketch.sketch(table(3), basis=found, nulls="keep")
    assert not nysketch.compare(first, same, permutations=199, explain=False).rejected
