"""Rows that resemble their neighbours: in which groups, and what is tested then."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

import nysketch
from nysketch.errors import UsageError
from nysketch.hsic.order import GroupOrder, Order
from tests.hsic.test_independence import THREE, dependent, sketch, sorted_by_x, table


def series(rng, n, memory):
    """A series of which each value remembers this share of the one before."""
    return lfilter([1.0], [1.0, -memory], rng.normal(size=n + 500))[500:]


def two_series(seed, n, *memories):
    rng = np.random.default_rng(seed)
    return np.stack([series(rng, n, memory) for memory in memories], axis=1)


def found(rows, groups=None, **options):
    made = sketch(rows, groups, spans=64, blocks=64, seed=options.get("seed", 0))
    return nysketch.independence(made, permutations=99, **options)


def group(name, *facts):
    return GroupOrder(name, **{fact: fact in facts for fact in ("serial", "sorted", "local", "settled")})


# ---- what follows from the order -------------------------------------------------------------------------


def test_one_serial_group_is_as_good_as_none():
    for one in (group("p", "serial"), group("p", "serial", "local", "sorted"), group("p", "settled")):
        assert Order((one, group("q", "settled")), 500).exchangeable


def test_two_serial_groups_keep_their_order():
    p, q = group("p", "serial", "local", "settled"), group("q", "serial", "local", "settled")
    assert not Order((p, q), 500).exchangeable and Order((p, q), 500).shiftable
    assert not Order((p, q), 199).shiftable  # too few to tell
    endless = group("r", "serial", "local")
    assert Order((p, endless), 500).shiftable and not Order((endless, endless), 500).shiftable


def test_a_file_sorted_by_a_group_may_be_permuted_if_others_follow_it_but_for_noise():
    by, noisy = group("p", "serial", "sorted", "local"), group("q", "serial")
    assert Order((noisy, by), 500).sorted_by == "p" and Order((noisy, by), 500).exchangeable
    smooth = group("q", "serial", "local")
    assert not Order((by, smooth), 500).exchangeable


# ---- tables ------------------------------------------------------------------------------------------------


def test_series_in_two_groups_are_shifted():
    rejected = 0
    for seed in range(12):
        verdict = found(two_series(seed, 600, 0.8, 0.8), seed=seed)
        assert verdict.blocks == "consecutive" and verdict.describe()["blocks"] == "consecutive"
        (note,) = verdict.notes
        assert "Rows resemble their neighbours in p and q: groups are shifted" in note
        rejected += verdict.rejected
    assert rejected <= binom.ppf(0.999, 12, 0.05)
    ignored = sum(
        found(two_series(seed, 600, 0.9, 0.9), seed=seed, blocks="random").rejected for seed in range(12)
    )
    assert ignored >= 6  # why


def test_series_that_depend_on_each_other_are_found():
    rows = two_series(0, 800, 0.8, 0.8)
    rows[:, 1] += rows[:, 0]
    verdict = found(rows)
    assert verdict.rejected and verdict.blocks == "consecutive"


@pytest.mark.parametrize("n", [100, 800])
def test_slow_series_have_no_verdict(n):
    walks = np.random.default_rng(3).normal(size=(n, 2)).cumsum(axis=0)
    verdict = found(walks)
    assert verdict.verdict is verdict.rejected is verdict.p_value is None
    assert verdict.describe()["rejected"] is verdict.describe()["blocks"] is None
    (note,) = verdict.notes
    assert "in p and q, for longer than so few rows can be shifted: no test" in note
    random = found(walks, blocks="random")
    assert random.rejected and '`blocks="random"` ignores this' in random.notes[0]


def test_a_series_in_one_group_is_no_matter():
    verdict = found(two_series(0, 800, 0.95, 0.0))
    assert verdict.blocks == "random" and verdict.notes == []


def test_a_clock_and_a_series_are_shifted():
    rows = two_series(0, 1500, 0.0, 0.8)
    rows[:, 0] = np.arange(1500)
    verdict = found(rows)
    assert verdict.blocks == "consecutive" and verdict.rejected is not None


def test_shifts_can_be_asked_for():
    rows = dependent(np.random.default_rng(0), 400, 2)
    verdict = found(rows, blocks="consecutive")
    assert verdict.rejected and verdict.blocks == "consecutive" and verdict.notes == []
    with pytest.raises(UsageError, match="`blocks` must be one of auto, random, consecutive, not 'spans'"):
        found(rows, blocks="spans")


def test_pairs_of_which_one_cannot_be_tested():
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(800, 2)).cumsum(axis=0), rng.normal(size=(800, 1))], axis=1)
    made = sketch(rows, THREE, pairs=True)
    joint = nysketch.independence(made, pairs=True, permutations=99)
    assert joint.rejected is None
    assert [pair.rejected for pair in joint.pairs] == [None, False, False]
    assert [pair.p_value_adjusted is None for pair in joint.pairs] == [True, False, False]


def test_a_sample_of_series_is_tested_alone():
    rows = two_series(1, 6000, 0.9, 0.9)
    made = sketch(rows, permutation_rows=1500, sample_rows=0, spans=64, blocks=64)
    verdict = nysketch.independence(made, permutations=99)
    assert verdict.blocks == "consecutive" and verdict.verdict.exact and verdict.verdict.permuted_rows == 1500
    assert "only the 1,500 sampled rows are tested" in verdict.notes[0]


def test_too_few_neighbours_to_tell_groups():
    # Spans say that rows depend on their neighbours; of 300 in 30,000, hardly any are.
    rows = two_series(1, 30_000, 0.9, 0.9)
    made = sketch(rows, permutation_rows=300, sample_rows=0, spans=64, blocks=64)
    verdict = nysketch.independence(made, permutations=99)
    assert verdict.blocks == "consecutive" and verdict.verdict.permuted_rows == 300
    assert "in too few sampled rows to tell in which groups" in verdict.notes[0]


def test_files_of_different_means_are_no_series():
    rng = np.random.default_rng(0)
    parts = [
        nysketch.sketch(
            table(rng.normal(size=(400, 2))), groups={"p": ["x"], "q": ["y"]}, landmarks=20, threads=1
        )
    ]
    parts.append(nysketch.sketch(table(rng.normal(size=(400, 2)) + 3), basis=parts[0].basis, threads=1))
    verdict = nysketch.independence(parts[0] + parts[1], permutations=99)
    assert verdict.rejected and verdict.blocks == "random" and verdict.notes == []


@pytest.mark.slow
def test_level_of_sorted_and_unsorted_independent_rows_is_that_of_permutations():
    consecutive = 0
    for seed in range(60):
        rows = sorted_by_x(np.random.default_rng(seed), 400, 0.0)
        consecutive += found(rows, seed=seed).blocks == "consecutive"
    assert consecutive <= 6
