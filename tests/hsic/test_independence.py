"""`nysketch.independence`: sums of groups in sketches, what is told from them, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import nysketch
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.hsic import independence

TWO = {"p": ["x"], "q": ["y"]}
THREE = {"p": ["x"], "q": ["y"], "r": ["z"]}


def table(rows, names="xyzuvw"):
    return pa.table(dict(zip(names, np.asarray(rows).T, strict=False)))


def dependent(rng, n, d, strength=1.0):
    return strength * rng.normal(size=(n, 1)) + rng.normal(size=(n, d))


def sketch(rows, groups=None, **options):
    usual = {"landmarks": 30, "threads": 1, "blocks": 4, "cells": False, "spans": 0}
    basis = {} if "basis" in options else {"groups": groups or TWO}
    if "basis" in options:
        del usual["landmarks"]
    return nysketch.sketch(table(rows), **(usual | basis | options))


def v_statistic(kernel, rows):
    """The squared HSIC, by its definition."""
    grams = kernel.factors(rows, rows)
    crossed = np.prod([gram.mean(axis=1) for gram in grams], axis=0).mean()
    return np.prod(grams, axis=0).mean() + np.prod([gram.mean() for gram in grams]) - 2 * crossed


def within_level(rejections, runs, alpha=0.05):
    """Whether so many rejections are in the two-sided 99.9 % interval of a test of this level."""
    low, high = binom.interval(0.999, runs, alpha)
    return low <= rejections <= high


# ---- the estimate -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4])
def test_with_all_rows_as_landmarks_hsic_is_the_v_statistic(count):
    rows = dependent(np.random.default_rng(count), 150, count + 1)
    groups = dict(list(zip("pqrs", [["x", "y"], ["z"], ["u"], ["v"]], strict=True))[:count])
    made = sketch(rows, groups, landmarks=150, sampling="uniform", precision="float64")
    assert made.basis.m == 150
    scaled = made.basis.transform(rows)
    found = nysketch.independence(made, permutations=0)
    truth = v_statistic(made.basis.kernel, scaled)
    assert found.hsic_at_landmarks**2 == pytest.approx(truth, abs=1e-8)
    # Without the bias of a square it is smaller, and no other number beside its error.
    assert 0.01 < found.hsic < np.sqrt(truth) < found.hsic + 2 * found.standard_error
    assert found.groups == tuple("pqrs"[:count])


def naive_sums(sketch, rows, weights):
    """The sums of parts at the landmarks, over all rows, by the definition of the kernels."""
    basis = sketch.basis
    factors = basis.kernel.factors(basis.scaled_landmarks, basis.transform(rows))
    return np.array([np.prod([factors[n] for n in part], axis=0) @ weights for part in sketch.groups.parts])


KERNELS = {
    "gaussian": {},
    "laplacian": {"kernel": "laplacian-l1"},
    "polynomial": {"kernel": {"p": "gaussian", "q": "polynomial", "r": "laplacian-l2"}},
    "sums of gaussians": {"bandwidth": [0.5, 1.0, 2.0]},
}


@pytest.mark.parametrize(("precision", "accuracy"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_of_groups_and_pairs_are_sums_over_all_rows(kernel, weighted, precision, accuracy):
    rng = np.random.default_rng(0)
    rows, weights = dependent(rng, 500, 4), rng.uniform(0.5, 2, 500) if weighted else np.ones(500)
    holed = rows.copy()
    dropped = rng.random(500) < 0.1
    holed[dropped, rng.integers(4, size=dropped.sum())] = np.nan
    data = table(holed, "xyzu").append_column("weight", pa.array(weights))
    # The columns of the second group are neither the first ones of the table nor beside each other.
    made = nysketch.sketch(
        data,
        groups={"p": ["z"], "q": ["x", "u"], "r": ["y"]},
        landmarks=12,
        nulls="drop",
        weights="weight" if weighted else None,
        exclude=() if weighted else ["weight"],
        pairs=True,
        precision=precision,
        threads=1,
        **KERNELS[kernel],
    )
    assert made.dropped_rows == dropped.sum() > 20
    assert made.groups.parts == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    naive = naive_sums(made, rows[~dropped][:, [2, 0, 3, 1]], weights[~dropped])
    scale = np.abs(naive).max(axis=1, keepdims=True)
    assert np.abs(made.groups.sums.high / scale - naive / scale).max() < accuracy


def test_the_sums_of_a_pair_of_two_groups_are_those_of_the_sketch():
    made = sketch(dependent(np.random.default_rng(0), 200, 2), pairs=True)
    assert made.groups.parts == ((0,), (1,)) and not made.groups.pairs
    assert nysketch.independence(made, pairs=True).pairs == ()


def test_bytes_do_not_depend_on_threads_and_batches(tmp_path):
    rows = dependent(np.random.default_rng(0), 4000, 3)
    pq.write_table(table(rows, "xyz"), tmp_path / "data.parquet", row_group_size=300)
    basis = nysketch.Basis.fit(tmp_path / "data.parquet", groups=THREE, landmarks=20)
    contents = set()
    for threads in (1, 2, 3, 4):
        for batch_rows in (None, 77, 1000):
            made = nysketch.sketch(
                tmp_path / "data.parquet",
                basis=basis,
                pairs=True,
                threads=threads,
                batch_rows=batch_rows,
                permutation_rows=500,
            )
            nysketch.save(made, tmp_path / "made.nysk")
            contents.add((tmp_path / "made.nysk").read_bytes())
    assert len(contents) == 1


# ---- adding and subtracting -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two files, whose groups are independent within each and both shifted in the second."""
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(1)
    for name, shift, n in (("a", 0.0, 700), ("b", 2.0, 900)):
        pq.write_table(
            table(np.add(rng.normal(size=(n, 3)), [shift, shift, 0]), "xyz"), folder / f"{name}.parquet"
        )
    nysketch.save(nysketch.Basis.fit(folder / "a.parquet", groups=THREE, landmarks=25), folder / "basis.nysk")
    return folder


def of_parts(folder, *names, **options):
    paths = [folder / f"{name}.parquet" for name in names]
    return nysketch.sketch(paths, basis=folder / "basis.nysk", threads=1, **options)


def equal(a, b):
    return (a.sums.high == b.sums.high).all() and (a.sums.low == b.sums.low).all() and a.parts == b.parts


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_of_groups_add_and_subtract(parts, pairs, precision):
    a, b, both = (of_parts(parts, *names, pairs=pairs, precision=precision) for names in ("a", "b", "ab"))
    assert equal((a + b).groups, both.groups) and equal((b + a).groups, both.groups)
    assert a + b == both
    assert equal(((a + b) - b).groups, a.groups)
    assert equal((both - a).groups, b.groups)
    assert nysketch.independence(a + b).describe() == nysketch.independence(both).describe()


def test_what_one_of_two_sketches_lacks_their_sum_lacks_too(parts, tmp_path):
    a, with_pairs = of_parts(parts, "a"), of_parts(parts, "a", pairs=True)
    b, without = of_parts(parts, "b", pairs=True), of_parts(parts, "b", permutations=0)
    assert without.groups is None
    for lacking in (a + without, without + a, (a + b) - without):
        assert lacking.groups is None
        with pytest.raises(IncompatibleError, match="no sums of its groups"):
            nysketch.independence(lacking)
    assert (with_pairs + b).groups.pairs
    for fewer in (a + b, b + a, (with_pairs + b) - of_parts(parts, "b")):
        assert not fewer.groups.pairs and len(fewer.groups.parts) == 3
        nysketch.save(fewer, tmp_path / "fewer.nysk")
        assert nysketch.load(tmp_path / "fewer.nysk") == fewer
    assert equal((a + b).groups, (a + of_parts(parts, "b")).groups)


@pytest.mark.slow
def test_a_dependence_that_is_only_between_parts_is_found(parts):
    a, b = of_parts(parts, "a", pairs=True), of_parts(parts, "b", pairs=True)
    assert not nysketch.independence(a).rejected and not nysketch.independence(b).rejected
    found = nysketch.independence(a + b, pairs=True)
    assert found.rejected and found.verdict.exact and found.verdict.permuted_rows == found.rows == 1600
    assert [pair.rejected for pair in found.pairs] == [True, False, False]
    assert [pair.groups for pair in found.pairs] == [("p", "q"), ("p", "r"), ("q", "r")]
    sampled = of_parts(parts, "a", permutation_rows=300, sample_rows=0) + b
    again = nysketch.independence(sampled)
    assert again.rejected and not again.verdict.exact
    assert again.verdict.permuted_rows == len(sampled.tally.sample) <= 300
    assert again.hsic_at_landmarks == found.hsic_at_landmarks
    assert again.hsic == pytest.approx(found.hsic, abs=2 * found.standard_error)


def test_what_is_left_after_a_subtraction_is_tested_with_its_own_rows(parts):
    a, b = of_parts(parts, "a"), of_parts(parts, "b")
    found = nysketch.independence((a + b) - b)
    assert not found.rejected and found.verdict.exact and found.rows == 700
    assert found.hsic == pytest.approx(nysketch.independence(a).hsic)


# ---- tests ------------------------------------------------------------------------------------------------
#
# Levels here are those of at most a hundred tables. For what hundreds of tables say about each kind of test:
# scripts/bench/independence.py --section level.


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "answer"), [(1.0, True), (0.0, False)])
@pytest.mark.parametrize("count", [2, 3])
def test_a_sample_comes_to_the_verdict_of_all_rows(strength, answer, count):
    groups = THREE if count == 3 else TWO
    rows = dependent(np.random.default_rng(7), 2000, count, strength)
    whole = sketch(rows, groups)
    part = sketch(rows, groups, permutation_rows=400, sample_rows=0)
    exact, sampled = (nysketch.independence(made) for made in (whole, part))
    assert exact.verdict.exact and exact.verdict.permuted_rows == 2000
    assert not sampled.verdict.exact and sampled.verdict.permuted_rows == 400
    assert exact.rejected == sampled.rejected == answer
    assert exact.hsic_at_landmarks == sampled.hsic_at_landmarks
    assert exact.hsic == pytest.approx(sampled.hsic, abs=2 * sampled.standard_error)
    for found in (exact, sampled):
        assert (found.verdict.statistic > found.verdict.threshold) == answer
        assert found.notes == []


def sorted_by_x(rng, n, strength):
    rows = dependent(rng, n, 2, strength)
    return rows[np.argsort(rows[:, 0])]


def test_a_dependence_in_a_sorted_table_is_found():
    rows = sorted_by_x(np.random.default_rng(0), 1500, 1.0)
    for options in ({}, {"permutation_rows": 300, "sample_rows": 0}):
        found = nysketch.independence(sketch(rows, blocks=64, spans=64, **options))
        assert found.rejected
        (note,) = found.notes
        assert "Rows are sorted by p, and other groups follow it" in note


@pytest.mark.slow
@pytest.mark.parametrize(("n", "shuffle_rows"), [(700, 700), (1500, 300)])
def test_level_on_tables_that_are_sorted_by_one_group(n, shuffle_rows):
    """The rate among a thousand sorted tables: scripts/bench/independence.py --section level."""
    rejections = asymptotic = 0
    for seed in range(100):
        rows = sorted_by_x(np.random.default_rng(seed), n, 0.0)
        made = sketch(rows, permutation_rows=shuffle_rows, sample_rows=0, seed=seed)
        found = nysketch.independence(made, permutations=99, seed=seed)
        asymptotic += not found.verdict.exact
        rejections += found.rejected
    assert within_level(rejections, 100)
    # Of few sampled rows, some seem to resemble their neighbours in the other group, too.
    assert asymptotic == 0 if shuffle_rows == n else asymptotic >= 90


WIDE = {name: [f"c{8 * i + j}" for j in range(8)] for i, name in enumerate("pqr")}


def wide(seed, n=3000):
    rows = np.random.default_rng(seed).normal(size=(n, 24))
    return table(rows, [f"c{i}" for i in range(24)])


@pytest.mark.slow
def test_level_where_landmarks_are_rows_of_many_columns(monkeypatch):
    options = {
        "groups": WIDE,
        "landmarks": 300,
        "sampling": "uniform",
        "cells": False,
        "spans": 0,
        "threads": 1,
    }
    found, unmended = [], []
    for seed in range(100):
        made = nysketch.sketch(wide(seed), permutation_rows=1000, sample_rows=0, seed=seed, **options)
        found.append(nysketch.independence(made, permutations=39, seed=seed))
        if seed < 20:
            with monkeypatch.context() as patch:
                patch.setattr(independence, "_own_rows", lambda basis, rows: (np.full(basis.m, -1), None))
                unmended.append(nysketch.independence(made, permutations=39, seed=seed))
    assert within_level(sum(each.rejected for each in found), 100)
    ratios = [
        [each.verdict.statistic / each.verdict.threshold for each in some] for some in (found, unmended)
    ]
    assert np.mean(ratios[0][:20]) + 0.005 < np.mean(ratios[1])


@pytest.mark.slow
def test_level_where_landmarks_were_chosen_for_where_they_are():
    rejections = 0
    for seed in range(100):
        rows = np.random.default_rng(seed).exponential(size=(3000, 2)) ** 2
        made = sketch(rows, landmarks=150, permutation_rows=500, sample_rows=0, seed=seed)
        rejections += nysketch.independence(made, permutations=39, seed=seed).rejected
    assert within_level(rejections, 100)


@pytest.mark.slow
def test_level_where_only_some_landmarks_are_rows():
    rejections = 0
    for seed in range(40):
        basis = nysketch.Basis.fit(
            wide(seed, 4000), groups=WIDE, landmarks=300, sampling="uniform", seed=seed
        )
        made = nysketch.sketch(
            wide(seed, 4000)[:2000], basis=basis, permutation_rows=500, sample_rows=0, cells=False, threads=1
        )
        found = nysketch.independence(made, permutations=39, seed=seed)
        rejections += found.rejected
        assert found.verdict.permuted_rows == 500 and not found.verdict.exact
    assert within_level(rejections, 40)


@pytest.mark.parametrize("dependence", [False, True])
def test_few_different_rows_are_all_landmarks(dependence):
    rng = np.random.default_rng(0)
    x = rng.integers(5, size=3000)
    y = (x + rng.integers(3, size=3000)) % 5 if dependence else rng.integers(5, size=3000)
    made = sketch(np.stack([x, y], axis=1).astype(float), landmarks=25, permutation_rows=500, sample_rows=0)
    found = nysketch.independence(made)
    assert found.verdict.permuted_rows == 500
    assert found.rejected == dependence


def test_the_same_answer_whatever_the_threads():
    rows = dependent(np.random.default_rng(0), 1500, 3, 0.2)
    for options in (
        {},
        {"permutation_rows": 1200, "sample_rows": 0},
        {"permutation_rows": 200, "sample_rows": 0},
    ):
        made = sketch(rows, THREE, pairs=True, **options)
        described = [
            nysketch.independence(made, pairs=True, threads=threads).describe() for threads in (1, 2, 4)
        ]
        assert described[0] == described[1] == described[2]


def test_a_seed_changes_the_shuffles_and_nothing_else():
    made = sketch(dependent(np.random.default_rng(0), 300, 2, 0.3))
    first, again, other = (nysketch.independence(made, seed=seed) for seed in (0, 0, 1))
    assert first.describe() == again.describe()
    assert first.verdict.threshold != other.verdict.threshold
    assert (first.hsic, first.normalised) == (other.hsic, other.normalised)


def test_shuffles_are_those_of_the_sketch_unless_told_otherwise():
    rows = dependent(np.random.default_rng(0), 300, 3)
    made = sketch(rows, THREE, permutations=120, pairs=True)
    assert nysketch.independence(made).verdict.permutations == 120
    assert nysketch.independence(made, permutations=30).verdict.permutations == 30
    # Three pairs at this level need more.
    found = nysketch.independence(made, pairs=True, alpha=0.01)
    assert all(each.verdict.permutations == 1200 for each in (found, *found.pairs))
    assert all(pair.p_value_adjusted >= pair.p_value for pair in found.pairs)
    assert all(pair.rejected for pair in found.pairs)


# ---- what is told -----------------------------------------------------------------------------------------


def test_what_is_told_is_plain_json():
    made = sketch(dependent(np.random.default_rng(0), 300, 3), THREE, pairs=True)
    described = nysketch.independence(made, pairs=True).describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert set(described) == {
        "alpha", "blocks", "exact", "groups", "hsic", "hsic_at_landmarks", "hsic_squared", "normalised",
        "notes", "p_value", "pairs", "rejected", "rows", "shuffled_rows", "shuffles", "standard_error",
        "statistic", "statistic_of", "threshold",
    }  # fmt: skip
    assert set(described["pairs"][0]) - set(described) == {"p_value_adjusted"}
    assert described["hsic_squared"] == described["hsic"] ** 2
    untested = nysketch.independence(made, permutations=0).describe()
    assert json.loads(json.dumps(untested, allow_nan=False)) == untested
    assert untested["p_value"] is untested["rejected"] is untested["exact"] is None


def test_the_standard_error_is_how_far_hsic_moves_from_table_to_table():
    rng = np.random.default_rng(0)
    basis = sketch(dependent(rng, 500, 2), landmarks=50).basis
    found = [
        nysketch.independence(sketch(dependent(rng, 500, 2), basis=basis), permutations=0) for _ in range(60)
    ]
    spread = np.std([each.hsic for each in found])
    assert np.mean([each.standard_error for each in found]) == pytest.approx(spread, rel=0.4)


def test_groups_that_determine_each_other_are_at_1():
    x = np.random.default_rng(0).normal(size=(500, 1))
    found = nysketch.independence(sketch(np.hstack([x, x]), landmarks=60))
    assert found.normalised == pytest.approx(1, abs=0.01)
    constant = nysketch.independence(sketch(np.hstack([x, np.ones_like(x)])))
    assert constant.normalised is None or constant.normalised < 1e-6
    assert constant.hsic < 1e-6 and not constant.rejected


def test_weights_leave_the_estimate_and_no_test():
    rng = np.random.default_rng(0)
    rows = dependent(rng, 400, 2)
    data = table(rows).append_column("weight", pa.array(np.full(400, 3.0)))
    weighted = nysketch.sketch(data, groups=TWO, landmarks=30, weights="weight", threads=1)
    plain = nysketch.sketch(table(rows), basis=weighted.basis, threads=1)
    found = nysketch.independence(weighted)
    assert found.hsic == found.hsic_at_landmarks
    assert found.hsic == pytest.approx(nysketch.independence(plain).hsic_at_landmarks, rel=1e-6)
    assert (found.p_value, found.rejected, found.standard_error) == (None, None, None)
    assert found.notes == ["Rows have weights, and weighted rows cannot be permuted: no test."]
    assert nysketch.independence(weighted, permutations=0).notes == []


def test_without_sampled_rows_there_is_the_estimate_and_no_test():
    rows = dependent(np.random.default_rng(0), 400, 2)
    made = sketch(rows, permutation_rows=0, sample_rows=0)
    assert len(made.tally.sample) == 0
    found = nysketch.independence(made)
    assert found.hsic == nysketch.independence(sketch(rows)).hsic_at_landmarks
    assert (found.verdict, found.standard_error, found.normalised) == (None, None, None)
    (note,) = found.notes
    assert "no sampled rows to permute: no test. Sketch with more `permutation_rows`" in note


def test_the_sample_is_as_large_as_the_larger_of_two_wishes():
    rows = dependent(np.random.default_rng(0), 400, 2)
    assert len(sketch(rows).tally.sample) == 400
    assert len(sketch(rows, permutation_rows=50, sample_rows=90).tally.sample) == 90
    assert len(sketch(rows, permutation_rows=90, sample_rows=50).tally.sample) == 90
    assert sketch(rows).tally.sample.capacity == 50_000
    assert sketch(rows, permutations=0).tally.sample.capacity == 2000
    plain = nysketch.sketch(table(rows), landmarks=10, permutation_rows=90, threads=1)
    assert plain.tally.sample.capacity == 2000 and plain.groups is None


# ---- what is refused --------------------------------------------------------------------------------------


def test_sketches_that_know_nothing_of_groups_are_refused():
    rows = dependent(np.random.default_rng(0), 100, 2)
    for made in (
        nysketch.sketch(table(rows), landmarks=10, threads=1),
        nysketch.sketch(table(rows), groups={"all": ["x", "y"]}, landmarks=10, threads=1),
        nysketch.sketch(table(rows), features="fourier", landmarks=10, threads=1),
        nysketch.sketch(
            pa.table({"s": ["abc", "bcd", "abcd"] * 20}), kernel="spectrum", landmarks=3, threads=1
        ),
    ):
        assert made.groups is None
        with pytest.raises(IncompatibleError, match="has no groups of columns"):
            nysketch.independence(made)
    with pytest.raises(IncompatibleError, match="made with `permutations=0`"):
        nysketch.independence(sketch(rows, permutations=0))


def test_neither_fourier_features_nor_text_have_groups():
    rows = dependent(np.random.default_rng(0), 100, 2)
    with pytest.raises(UsageError):
        sketch(rows, features="fourier")
    texts = pa.table({"s": ["a", "b"] * 50, "t": ["c", "d"] * 50})
    with pytest.raises(UsageError):
        nysketch.sketch(texts, groups={"p": ["s"], "q": ["t"]}, kernel="spectrum", landmarks=2, threads=1)


def test_pairs_need_sums_of_pairs():
    rows = dependent(np.random.default_rng(0), 100, 3)
    with pytest.raises(
        IncompatibleError, match=r"no sums of pairs of groups\. Sketch the data with `pairs=True`"
    ):
        nysketch.independence(sketch(rows, THREE), pairs=True)
    with pytest.raises(UsageError, match="`pairs` needs groups of columns"):
        nysketch.sketch(table(rows), landmarks=10, pairs=True, threads=1)
    with pytest.raises(UsageError, match="pairs of groups need permutations"):
        sketch(rows, THREE, pairs=True, permutations=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "`alpha` must be between 0 and 1, not 0"),
        ({"alpha": 1.0}, "`alpha` must be between 0 and 1, not 1"),
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"permutations": -1}, "`permutations` must be between 0 and 1000000, not -1"),
        ({"permutations": 10**6 + 1}, "`permutations` must be between 0 and 1000000, not 1000001"),
        (
            {"permutations": 18},
            "with 18 permutations no p-value is below 0.053: nothing can be rejected at `alpha=0.05`",
        ),
        ({"permutations": 50, "pairs": True}, "with 50 permutations no p-value is below 0.059"),
        ({"permutations": 99, "alpha": 0.001}, "Use more `permutations`"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_requests_are_refused(options, message):
    made = sketch(dependent(np.random.default_rng(0), 100, 3), THREE, pairs=True)
    with pytest.raises(UsageError, match=message):
        nysketch.independence(made, **options)


@pytest.mark.parametrize(
    "options",
    [{"permutations": 19}, {"permutations": 59, "pairs": True}, {"permutations": 999, "alpha": 0.001}],
)
def test_just_enough_shuffles_can_reject(options):
    made = sketch(dependent(np.random.default_rng(0), 100, 3, 3.0), THREE, pairs=True)
    assert nysketch.independence(made, **options).rejected


def test_a_few_rows_say_nothing():
    rows = dependent(np.random.default_rng(0), 20, 2)
    with pytest.raises(InputError, match="has 19 rows; the test needs at least 20"):
        nysketch.independence(sketch(rows[:19], landmarks=5))
    assert nysketch.independence(sketch(rows, landmarks=5)).verdict.exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": -1}, "`permutations` must be between 0 and 1000000, not -1"),
        ({"permutations": 10**6 + 1}, "`permutations` must be between"),
        ({"permutation_rows": -1}, "`permutation_rows` must be at least 0, not -1"),
    ],
)
def test_impossible_sketches_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        sketch(np.zeros((30, 2)), **options)


def test_trimmed_sketches_have_no_sums_of_groups():
    from nysketch.twosample.trimming import without

    made = sketch(dependent(np.random.default_rng(0), 200, 2))
    assert without(made, [0], consecutive=False).groups is None


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.001, 0.001), (0.01, 0.01), (0.001, 0.3)])
def test_level_of_flags_that_are_rarely_set(rates):
    # Set together in a handful of rows at most: shuffling a sample does not tell how many by chance.
    rejections = 0
    for seed in range(60):
        rows = (np.random.default_rng(seed).random((10_000, 2)) < rates).astype(float)
        made = sketch(rows, landmarks=4, permutation_rows=2500, sample_rows=0, seed=seed)
        found = nysketch.independence(made, permutations=99, seed=seed)
        assert found.verdict.exact and found.verdict.permuted_rows == 2500
        assert any("too few rows vary" in note for note in found.notes)
        rejections += found.rejected
    assert rejections <= binom.ppf(0.999, 60, 0.05)


@pytest.mark.slow
def test_level_of_flags_that_are_often_set():
    rejections = 0
    for seed in range(60):
        rows = (np.random.default_rng(seed).random((10_000, 2)) < (0.2, 0.4)).astype(float)
        made = sketch(rows, landmarks=4, permutation_rows=1000, sample_rows=0, seed=seed)
        found = nysketch.independence(made, permutations=99, seed=seed)
        assert not found.verdict.exact
        rejections += found.rejected
    assert rejections <= binom.ppf(0.999, 60, 0.05)


def test_constants_are_independent_of_everything():
    x = np.random.default_rng(0).normal(size=(3000, 1))
    for rows in (np.hstack([x, np.ones_like(x)]), np.ones((3000, 2))):
        made = sketch(rows, landmarks=40, permutation_rows=500, sample_rows=0)
        found = nysketch.independence(made, permutations=99)
        assert not found.rejected and found.normalised is None and found.hsic < 1e-4


def test_rows_that_are_counted_twice_are_told():
    made = sketch(dependent(np.random.default_rng(0), 200, 2))
    assert nysketch.independence(made, permutations=39).notes == []
    assert "counted twice" in nysketch.independence(made + made, permutations=39).notes[0]


# ---- rows that are no evidence ----------------------------------------------------------------------------


@pytest.mark.parametrize("scattered", [True, False])
@pytest.mark.parametrize("sampled", [None, 300])
def test_copies_of_rows_are_tested_once(scattered, sampled):
    rejections = 0
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(300, 2))
        rows = np.tile(rows, (4, 1)) if scattered else np.repeat(rows, 4, axis=0)
        made = sketch(rows, permutation_rows=sampled, sample_rows=0, seed=seed)
        found = nysketch.independence(made, permutations=99, seed=seed)
        rejections += found.rejected
        assert found.verdict.exact and found.verdict.permuted_rows <= 300
        assert any("are copies of others: the test takes one of each" in note for note in found.notes)
        assert found.hsic <= 2.5 * found.standard_error
    assert rejections <= binom.ppf(0.999, 12, 0.05)


def test_copies_do_not_hide_a_dependence():
    rows = np.tile(dependent(np.random.default_rng(0), 300, 2), (3, 1))
    assert nysketch.independence(sketch(rows)).rejected


def test_rows_that_determine_each_other_by_few_values_are_dependent():
    x = np.random.default_rng(0).integers(4, size=(400, 1)).astype(float)
    found = nysketch.independence(sketch(np.hstack([x, x]), landmarks=4))
    assert found.rejected and found.notes == [] and found.verdict.permuted_rows == 400


def test_all_pairs_of_few_rows_are_tested():
    rows = dependent(np.random.default_rng(0), 2100, 2)
    assert nysketch.independence(sketch(rows[:2000]), permutations=39).verdict.kind == "v-hsic"
    many = nysketch.independence(sketch(rows), permutations=39)
    assert many.verdict.kind == many.describe()["statistic_of"] == "landmarks" and many.verdict.exact


@pytest.mark.parametrize("n", [500, 2500])
def test_a_constant_column_is_never_dependent(n):
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(n, 1))
        found = nysketch.independence(sketch(np.hstack([np.ones_like(x), x])), permutations=39, seed=seed)
        assert found.p_value == 1 and not found.rejected
        assert found.notes == ["p: constant, and independent of everything."]
    three = np.hstack([x, np.ones_like(x), x + np.random.default_rng(9).normal(size=(n, 1))])
    found = nysketch.independence(sketch(three, THREE), permutations=39)
    assert found.rejected and found.notes == ["q: constant, and independent of everything."]
