"""The order of sampled rows, read from their keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch.accumulators.sample import LARGEST_KEY
from nysketch.accumulators.sample_order import SampleOrder
from nysketch.tiles.hashing import find_sample


def keys_of(seed, rows, share, first=0):
    """The keys of the sampled rows of an input, and their numbers."""
    found, keys = np.empty(rows, np.int64), np.empty(rows, np.int64)
    keep, bound = np.ones(rows, bool), min(int(share * LARGEST_KEY), LARGEST_KEY)
    count = find_sample(first, keep, np.uint64(seed), bound, found, keys)
    return keys[:count].copy(), found[:count] + first


@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 - 1), st.integers(300, 3000)),
        min_size=1,
        max_size=4,
        unique_by=lambda a: a[0],
    ),
    st.sampled_from([1.0, 0.3, 0.05]),
)
def test_rows_are_found_in_the_order_of_their_inputs(inputs, share):
    parts = [keys_of(seed, rows, share) for seed, rows in inputs]
    keys = np.concatenate([keys for keys, _ in parts])
    numbers = np.concatenate([own for _, own in parts])
    owner = np.repeat(np.arange(len(parts)), [len(keys) for keys, _ in parts])
    by_key = np.argsort(keys)
    found = SampleOrder.of(keys[by_key])
    numbers, owner = numbers[by_key][found.order], owner[by_key][found.order]
    assert found.starts.tolist() == [0, *(np.flatnonzero(np.diff(owner)) + 1)]
    steps = np.diff(numbers)
    inside = np.diff(owner) == 0
    assert (found.gaps[1:][inside] == steps[inside]).all() and (steps[inside] > 0).all()
    assert (found.gaps[found.starts] == 0).all()


def test_a_few_rows_of_a_large_file_are_in_order():
    keys, numbers = keys_of(12345, 2_000_000, 0.001, first=10**9)
    by_key = np.argsort(keys)
    found = SampleOrder.of(keys[by_key])
    assert (np.diff(numbers[by_key][found.order]) > 0).all() and found.starts.tolist() == [0]


def test_no_rows_and_one():
    assert len(SampleOrder.of(np.zeros(0, np.int64)).order) == 0
    assert SampleOrder.of(np.array([17])).starts.tolist() == [0]


def test_the_sample_of_a_sketch_is_in_order():
    rows = np.stack([np.arange(500.0), np.random.default_rng(0).normal(size=500)], axis=1)
    made = nysketch.sketch(rows, landmarks=5, threads=1)
    sample = made.tally.sample
    found = SampleOrder.of(sample.keys)
    assert (np.diff(sample.rows[found.order, 0]) > 0).all() and (found.gaps[1:] == 1).all()
    twice = made + made
    order = SampleOrder.of(twice.tally.sample.keys)
    assert (np.diff(twice.tally.sample.rows[order.order, 0]) >= 0).all()
