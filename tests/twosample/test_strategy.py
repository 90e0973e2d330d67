"""Which test is chosen for blocks of rows, and what is said about it."""

import numpy as np
import pytest

from nysketch.errors import UsageError
from nysketch.twosample.mmd import Blocks
from nysketch.twosample.results import Options
from nysketch.twosample.strategy import (
    Tolerance,
    choose_test,
    notes_on_landmarks,
    notes_on_test,
    require_no_permutation,
    run_test,
)


def blocks(count, rows=10.0, seed=0):
    return Blocks(np.random.default_rng(seed).normal(size=(count, 2)), np.full(count, rows))


def chosen(test="auto", *, counts=(16, 16), rows=(10, 10), partition="random", weighted=False, allowance=0):
    one, two = (blocks(*of, seed=seed) for seed, of in enumerate(zip(counts, rows, strict=True)))
    return choose_test(one, two, test, partition, Tolerance(allowance), weighted=weighted)


@pytest.mark.parametrize(
    ("case", "test"),
    [
        ({}, "permutation"),
        ({"weighted": True}, "bootstrap"),
        ({"allowance": 0.1}, "bootstrap"),
        ({"partition": "consecutive"}, "bootstrap"),
        ({"rows": (10.0, 14.0)}, "bootstrap"),  # not to be made equal without too few blocks
        ({"counts": (64, 64), "rows": (10.0, 300.0)}, "permutation"),  # two of 320 against 64 of 300
        ({"counts": (64, 64), "rows": (10.0, 5000.0)}, "permutation"),  # not to be made equal at all
    ],
)
def test_auto_has_nothing_to_say_of_what_it_takes(case, test):
    found = chosen(**case)
    assert found.test == test and notes_on_test(found) == []
    assert run_test(found, Tolerance(), Options(permutations=50)).test == test


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"test": "permutation"}, []),
        ({"test": "permutation", "weighted": True}, ["Rows have weights"]),
        ({"test": "permutation", "rows": (10.0, 14.0)}, ["approximate"]),
        ({"test": "permutation", "counts": (4, 16), "weighted": True}, ["Only 4", "weights", "approximate"]),
        ({"test": "bootstrap", "counts": (4, 16), "weighted": True}, ["Only 4"]),
        ({"counts": (1, 16)}, ["Too few blocks"]),
    ],
)
def test_notes_follow_from_what_was_chosen(case, words):
    notes = notes_on_test(chosen(**case))
    assert len(notes) == len(words) and all(word in note for word, note in zip(words, notes, strict=True))


def test_one_block_is_no_sample():
    assert run_test(chosen(counts=(16, 1)), Tolerance(), Options()) is None
    with pytest.raises(UsageError, match="at least 2 blocks"):
        chosen("permutation", counts=(16, 1))


def test_different_landmarks_are_said_and_never_permuted():
    assert "no test" in notes_on_landmarks(None, tested=True)[0]
    assert "the test allows for" in notes_on_landmarks(0.25, tested=True)[0]
    assert "allows" not in notes_on_landmarks(0.25, tested=False)[0]
    require_no_permutation("bootstrap")
    require_no_permutation(None)
    with pytest.raises(UsageError, match="same landmarks"):
        require_no_permutation("permutation")
