"""Drift of mixed tables: what scripts/bench/mixed.py measures with many pairs, with a few."""

import pytest

from scripts.bench import mixed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("change", "size"),
    [("share of plan", 0.05), ("share of product", 0.05), ("nulls of device", 0.05), ("plan and age", 0.3)],
)
def test_changes_of_categories_are_found(change, size):
    assert mixed.drift_rate(change, size, "third", 5, seed=1) >= 0.8


def test_without_a_change_nothing_is_found():
    # Of 250 such pairs, 19 were found; more than 6 of 20 are found once in 30,000 times at 5 %.
    assert mixed.drift_rate("", 0.0, "third", 20, seed=1) <= 0.3


def test_tests_of_columns_see_no_dependence():
    assert mixed.drift_rate("plan and age", 0.3, "columns", 5, seed=1) <= 0.4
    assert mixed.drift_rate("new city", 0.02, "columns", 5, seed=1) == 1
