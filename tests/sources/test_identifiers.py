"""Which columns of numbers are no features: serial numbers and constants, and nothing that is measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.columns import Column
from nysketch.sources.identifiers import (
    FEWEST_ROWS,
    SampledRows,
    constant_columns,
    is_serial,
    notes_on_constants,
    serial_columns,
)


def serial(values, numbers=None, starts=None):
    values = np.asarray(values, float)
    numbers = np.arange(len(values)) if numbers is None else np.asarray(numbers)
    return is_serial(values, numbers, np.zeros(len(values), np.int64) if starts is None else starts)


def gaps(rng, count, mean):
    return np.cumsum(rng.geometric(1 / mean, count))


@settings(max_examples=30)
@given(
    count=st.integers(FEWEST_ROWS, 1000),
    first=st.integers(-(10**6), 10**8),
    step=st.integers(1, 100),
    up=st.booleans(),
)
def test_counters_are_serial_numbers(count, first, step, up):
    values = first + step * np.arange(count)
    if values.min() >= 1800 and values.max() <= 2200:
        values = values + 10_000  # else they are years
    assert serial(values if up else values[::-1])


@pytest.mark.parametrize("mean", [1.5, 5, 50])
def test_ids_with_gaps_are_serial_numbers(mean):
    ids = 1_000_000 + gaps(np.random.default_rng(1), 5000, mean)
    assert serial(ids)
    assert serial(ids[::-1])
    # A pilot of a large table sees some rows only.
    seen = np.sort(np.random.default_rng(2).choice(5000, 800, replace=False))
    assert serial(ids[seen], seen) == (10 * 5000 * mean <= 800**2)
    shuffled = np.random.default_rng(3).permuted(ids.reshape(-1, 20), axis=1).ravel()  # parallel writers
    assert serial(shuffled)


@pytest.mark.parametrize("up", [True, False])
def test_ids_that_are_nearly_in_order_are_serial_numbers(up):
    rng, n = np.random.default_rng(8), 20_000
    ids = np.arange(n) if up else np.arange(n)[::-1]
    swapped = ids.copy()
    some = rng.choice(n, n // 100, replace=False)
    swapped[some] = swapped[rng.permutation(some)]
    assert serial(swapped)
    twice = np.insert(ids, some, ids[some])
    assert serial(twice)
    seen = np.sort(rng.choice(n, 5000, replace=False))  # what a pilot sees
    assert serial(swapped[seen], seen) and serial(twice[seen], seen)
    starts = np.repeat(np.arange(4) * 5000, 5000)
    restarted = np.concatenate([swapped[:5000] - swapped[:5000].min()] * 4)
    assert serial(restarted, np.arange(n), starts) == serial(restarted[:5000])
    # A tenth in other places is no running order.
    many = ids.copy()
    some = rng.choice(n, n // 10, replace=False)
    many[some] = many[rng.permutation(some)]
    assert not serial(many)


@pytest.mark.parametrize("step", [128, 1000, 10**6])
def test_counters_of_any_step_are_serial_numbers(step):
    assert serial(7 + step * np.arange(500))
    assert serial(7 - step * np.arange(500))
    seen = np.sort(np.random.default_rng(1).choice(10_000, 800, replace=False))
    assert serial(step * np.arange(10_000)[seen], seen)


@pytest.mark.parametrize("mean", [150, 400])
def test_ids_with_wide_gaps_are_serial_numbers_where_draws_would_repeat(mean):
    ids = gaps(np.random.default_rng(1), 5000, mean)
    assert serial(ids) and serial(ids[::-1])
    assert not serial(ids[:1000])


def test_counters_that_restart_in_every_file_are_serial_numbers():
    starts = np.repeat(np.arange(20) * 500, 500)
    assert serial(np.tile(np.arange(500), 20), np.arange(10_000), starts)
    assert not serial(np.tile(np.arange(500), 20))  # in one file, they are hours of something
    # Files in another order than that in which they were written.
    blocks = np.random.default_rng(0).permutation(20)
    ids = (blocks[:, None] * 500 + np.arange(500)).ravel()
    assert serial(ids, np.arange(10_000), starts)
    # One row of each file.
    assert serial(3 * np.arange(1000), np.arange(1000), np.arange(1000))


def measured():
    rng = np.random.default_rng(5)
    n = 4000
    yield "unsorted", rng.permutation(n)
    yield "hashes", rng.choice(2**52, n, replace=False)
    yield "sorted hashes", np.sort(rng.choice(2**52, n, replace=False))
    yield "fractions", np.arange(n) / 8
    yield "sorted, some twice", np.sort(rng.integers(0, 40 * n, n))
    yield "shuffled in large parts", rng.permuted(np.arange(n).reshape(-1, 1000), axis=1).ravel()
    yield "sorted, half as many values as rows", np.arange(n) // 2
    yield "populations", np.unique(np.exp(rng.normal(10, 1.5, n)).astype(int))[::-1]
    yield "a ranking", np.sort(rng.choice(10_000, 120, replace=False))[::-1]
    yield "events by second", 1_710_115_200 + gaps(rng, n, 3)
    yield "events by millisecond", 1_710_115_200_000 + gaps(rng, n, 40)
    yield "dates", [20240000 + 100 * month + day for month in range(1, 13) for day in range(1, 29)]
    yield "months", [100 * year + month for year in range(1950, 2020) for month in range(1, 13)]
    yield "years", np.arange(1900, 2020)
    yield "few rows", np.arange(FEWEST_ROWS - 1)
    yield "a constant", np.full(n, 3)
    yield "a random walk", np.cumsum(rng.choice([-1, 1], n))
    yield "an accelerating counter", np.arange(n) ** 2


@pytest.mark.parametrize(("what", "values"), list(measured()))
def test_measurements_are_kept_sorted_or_not(what, values):
    assert not serial(values), what


def test_seconds_that_count_the_rows_are_serial_numbers():
    assert serial(1_710_115_200 + np.arange(86_400))


@settings(max_examples=30)
@given(
    count=st.integers(FEWEST_ROWS, 400),
    values=st.integers(1, 10**7),
    seed=st.integers(0, 2**32 - 1),
)
def test_independent_values_in_any_order_of_rows_are_kept(count, values, seed):
    assert not serial(np.random.default_rng(seed).integers(values, size=count))


def test_sorted_independent_integers_are_hardly_ever_taken_for_serial_numbers():
    """They are if all are different and there are few: with probability exp(-5) at the bound."""
    rng = np.random.default_rng(3)
    taken = [serial(np.sort(rng.integers(0, 10 * 100, 100))) for _ in range(1000)]
    assert sum(taken) < 20


def test_of_which_columns_it_is_decided():
    rows = np.column_stack([np.arange(100.0), np.full(100, 7.0), np.arange(100.0), np.full((100, 2), 3.0)])
    sample = SampledRows(rows, np.arange(100), np.zeros(100, np.int64))
    columns = [Column("id"), Column("version"), Column("wanted"), Column("vector", 2)]
    optional = frozenset(["id", "version", "vector"])
    assert serial_columns(sample, columns, optional) == ["id"]
    assert constant_columns(sample, columns, optional) == {"version": 7.0}
    few = SampledRows(rows[:20], np.arange(20), np.zeros(20, np.int64))
    assert not serial_columns(few, columns, optional)
    assert not constant_columns(few, columns, optional)


def test_a_constant_that_changes_is_named_with_both_values():
    before = {"version": 3.0, "site": 1.5, "gone": 0.0}
    notes = notes_on_constants(before, {"version": (3.0, 7.0), "site": (2.25, 2.25)})
    assert "'version' was constant (3)" in notes[0]
    assert "from 3 to 7" in notes[0]
    assert "(1.5)" in notes[1]
    assert "2.25" in notes[1]
    assert len(notes) == 2
