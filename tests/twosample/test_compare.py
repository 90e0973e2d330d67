"""Comparing sketches: the MMD against the definition, the choice of test, what moved, and bad rows."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import false_discovery_control

import nysketch
from nysketch.basis.base import Basis
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.twosample.compare import compare_all
from nysketch.twosample.multiple_testing import benjamini_hochberg, holm

RNG = np.random.default_rng(0)
PILOT = RNG.normal(size=(1500, 3)) * [1, 10, 0.1]
BASIS = Basis.fit(PILOT, landmarks=60)


def rows(n, seed, shift=0.0, column=0):
    made = np.random.default_rng(seed).normal(size=(n, 3)) * [1, 10, 0.1]
    made[:, column] += shift * [1, 10, 0.1][column]
    return made


def sketch(data, basis=BASIS, **options):
    return nysketch.sketch(data, basis=basis, threads=1, **options)


def features(data, basis=BASIS):
    return basis.values(data) @ basis.nystrom.matrix.T


def compare(first, second, **options):
    return nysketch.compare(first, second, **{"explain": False, "permutations": 199, **options})


# ---- the distance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_mmd_is_the_distance_of_mean_features(precision):
    x, y = rows(900, 1), rows(1300, 2, 0.2)
    expected = np.linalg.norm(features(x).mean(axis=0) - features(y).mean(axis=0))
    found = compare(sketch(x, precision=precision), sketch(y, precision=precision))
    projected = found.distance.projected
    assert projected == pytest.approx(expected, rel=1e-4 if precision == "float32" else 1e-9)
    assert found.distance.squared == pytest.approx(found.mmd**2)


def test_with_enough_landmarks_it_is_the_mmd_of_the_kernel():
    x, y = rows(500, 1), rows(700, 2, 0.4)
    basis = Basis.fit(np.vstack([x, y]), landmarks=1200, sampling="uniform", pilot_rows=1200)
    k = basis.kernel
    a, b = basis.transform(x), basis.transform(y)
    exact = math.sqrt(k(a, a).mean() + k(b, b).mean() - 2 * k(a, b).mean())
    found = compare(sketch(x, basis, precision="float64"), sketch(y, basis, precision="float64"))
    assert found.mmd == pytest.approx(exact, rel=1e-4)


def test_it_is_symmetric_and_zero_for_the_same_rows():
    x, y = sketch(rows(500, 1)), sketch(rows(900, 2, 0.3))
    assert compare(x, y).mmd == pytest.approx(compare(y, x).mmd, rel=1e-12)
    same = compare(x, x)
    assert same.mmd == 0 and same.p_value == 1 and not same.rejected


def test_different_landmarks_give_nearly_the_same_distance():
    x, y = rows(3000, 1), rows(4000, 2, 0.3)
    bases = [
        Basis.fit(
            rows(2000, 10 + i), landmarks=150, scale="none", columns=None, kernel="gaussian", bandwidth=12.0
        )
        for i in range(2)
    ]
    same = compare(sketch(x, bases[0]), sketch(y, bases[0]))
    other = compare(sketch(x, bases[0]), sketch(y, bases[1]))
    assert other.mmd == pytest.approx(same.mmd, rel=0.05)
    assert (same.verdict.test, other.verdict.test) == ("permutation", "bootstrap")
    assert other.allowance > 0 and "The landmarks differ" in other.notes[0]
    alpha = [s.embedding_weights() for s in (sketch(x, bases[0]), sketch(y, bases[1]))]
    z = [basis.scaled_landmarks for basis in bases]
    k = bases[0].kernel
    squared = (
        alpha[0] @ k(z[0], z[0]) @ alpha[0]
        + alpha[1] @ k(z[1], z[1]) @ alpha[1]
        - 2 * alpha[0] @ k(z[0], z[1]) @ alpha[1]
    )
    assert other.distance.projected**2 == pytest.approx(squared, rel=1e-3)


@pytest.mark.slow
def test_different_landmarks_alone_are_no_difference():
    """Few landmarks express the mean embedding badly, and differently: the test must allow for it."""
    options = {"scale": "none", "kernel": "gaussian", "bandwidth": 5.0}
    rejected = 0
    for seed in range(10):
        bases = [Basis.fit(rows(300, 50 + 2 * seed + i), landmarks=8, **options) for i in range(2)]
        pair = [sketch(rows(4000, 100 + 2 * seed + i), bases[i]) for i in range(2)]
        found = compare(*pair)
        rejected += found.rejected
        distance = found.distance  # the landmarks do make a difference, but not to the MMD of the rows
        assert distance.projected > 3 * distance.standard_error and distance.mmd < distance.projected / 2
    assert rejected == 0


def test_a_shifted_centre_matters_to_kernels_of_products_only():
    x, y = rows(600, 1), rows(600, 2)
    options = {"landmarks": 30, "kernel": "gaussian", "bandwidth": 1.0, "scale": "standard"}
    first = Basis.fit(PILOT, **options)
    from dataclasses import replace

    moved = replace(first, center=first.center + 1.0)
    assert compare(sketch(x, first), sketch(y, moved)).mmd >= 0
    linear = Basis.fit(PILOT, landmarks=30, kernel="linear", scale="standard")
    with pytest.raises(IncompatibleError, match="centres of 'x0' are"):
        compare(sketch(x, linear), sketch(y, replace(linear, center=linear.center + 1.0)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "laplacian-l2"}, "kernel gaussian, bandwidth"),
        ({"bandwidth": 3.0}, "kernel gaussian, bandwidth"),
        ({"features": "fourier"}, "features nystrom and fourier"),
        ({"scale": "none", "bandwidth": 1.5}, "scaling standard and none"),
        ({"columns": ["x0", "x1"]}, "columns x0, x1, x2 and x0, x1"),
    ],
)
def test_sketches_with_other_kernels_or_columns_are_refused_by_both_values(options, words):
    table = pa.table({f"x{i}": column for i, column in enumerate(PILOT.T)})
    basis = Basis.fit(table, landmarks=20, bandwidth=1.5)
    other = Basis.fit(table, **{"landmarks": 20, "bandwidth": 1.5, **options})
    with pytest.raises(IncompatibleError, match=words):
        compare(sketch(table, basis), sketch(table, other))


def test_scales_that_differ_are_named():
    bases = [Basis.fit(rows(500, i), landmarks=20, bandwidth=1.0) for i in range(2)]
    with pytest.raises(IncompatibleError, match=r"the scales of 'x0' are .* and .*`scale=.none.`"):
        compare(sketch(rows(300, 1), bases[0]), sketch(rows(300, 2), bases[1]))


def test_fourier_features_and_text_can_be_compared():
    fourier = Basis.fit(PILOT, landmarks=100, features="fourier")
    found = nysketch.compare(sketch(rows(800, 1), fourier), sketch(rows(800, 2, 0.5), fourier))
    assert found.rejected and found.explanation.more_in_first == []
    words = np.random.default_rng(0).choice(["alpha", "beta", "gamma", "delta"], (2, 400))
    basis = Basis.fit(pa.table({"s": words[0]}), landmarks=4, kernel="spectrum", columns=["s"])
    made = [
        sketch(pa.table({"s": part}), basis)
        for part in (words[0], np.where(words[1] == "beta", "alpha", words[1]))
    ]
    found = nysketch.compare(*made)
    assert found.rejected and found.explanation.shifts == []
    assert found.explanation.more_in_first[0].landmark == {"s": "beta"}


def test_a_sketch_without_rows_cannot_be_compared():
    x = sketch(rows(300, 1))
    with pytest.raises(InputError, match="no rows"):
        compare(x, x - x)


# ---- tests ---------------------------------------------------------------------------------------------


def test_a_difference_is_found_and_chance_is_not():
    assert compare(sketch(rows(3000, 1)), sketch(rows(3000, 2, 0.3))).rejected
    assert not compare(sketch(rows(3000, 1)), sketch(rows(3000, 2))).rejected


@pytest.mark.parametrize(
    ("n", "options", "test", "blocks"),
    [
        ((2000, 2000), {}, "permutation", (64, 64)),
        ((1000, 4000), {}, "permutation", (16, 64)),
        ((200, 10_000), {}, "permutation", None),
        ((400, 12_000), {}, "permutation", (2, 64)),
        ((1000, 30_000), {"test": "bootstrap"}, "bootstrap", (64, 64)),
        ((2000, 2000), {"test": "bootstrap"}, "bootstrap", (64, 64)),
        ((2000, 2000), {"test": "permutation", "blocks": "consecutive"}, "permutation", (63, 63)),
        ((2000, 2000), {"blocks": "consecutive"}, "bootstrap", (63, 63)),
    ],
)
def test_the_test_that_suits_the_sizes_is_chosen(n, options, test, blocks):
    found = compare(sketch(rows(n[0], 1)), sketch(rows(n[1], 2)), **options)
    assert found.verdict.test == test
    assert blocks is None or found.verdict.blocks == blocks
    assert not [note for note in found.notes if "approximate" in note]


def test_weighted_rows_get_a_bootstrap():
    def table(seed):
        return pa.table({f"x{i}": c for i, c in enumerate(rows(800, seed).T)} | {"w": np.ones(800)})

    found = compare(*(sketch(table(seed), weights="w") for seed in (1, 2)))
    assert found.verdict.test == "bootstrap"


def test_no_test_no_verdict():
    found = compare(sketch(rows(300, 1)), sketch(rows(300, 2)), test="none")
    assert (found.verdict, found.p_value, found.rejected) == (None, None, None)
    assert json.loads(json.dumps(found.describe(), allow_nan=False))["test"] == "none"


def test_one_block_is_too_few_for_a_test():
    pair = [sketch(rows(300, i), blocks=1) for i in range(2)]
    found = compare(*pair)
    assert found.verdict is None and "sketch with more `blocks`" in found.notes[0]
    assert found.describe()["standard_error"] is None
    with pytest.raises(UsageError, match="at least 2 blocks"):
        compare(*pair, test="bootstrap")
    few = compare(*(sketch(rows(300, i), blocks=4) for i in range(2)))
    assert few.verdict is not None and "Only 4 blocks" in few.notes[0]


def test_the_seed_decides_and_nothing_else():
    pair = sketch(rows(500, 1)), sketch(rows(500, 2, 0.1))
    assert compare(*pair, seed=3).describe() == compare(*pair, seed=3).describe()
    assert compare(*pair, seed=3).p_value != compare(*pair, seed=4).p_value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"test": "ks"}, "`test` must be one of auto"),
        ({"blocks": "odd"}, "`blocks` must be one of"),
        ({"alpha": 0.0}, "between 0 and 1"),
        ({"permutations": 0}, "between 1 and"),
        ({"permutations": 5}, "with 5 permutations no p-value is below 0.17"),
        ({"robust": 2}, "`robust` must be at least 3"),
        ({"robust": "all"}, '`robust` must be "auto" or a number'),
        ({"robust_method": "median"}, "`robust_method` must be one of trim"),
        ({"robust_method": "bcd"}, "needs `robust`"),
        ({"seed": -1}, "seed"),
    ],
)
def test_requests_that_make_no_sense_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        compare(sketch(rows(300, 1)), sketch(rows(300, 2)), **options)


def test_a_permutation_test_needs_the_same_landmarks():
    bases = [Basis.fit(rows(500, i), landmarks=20, scale="none", bandwidth=10.0) for i in range(2)]
    with pytest.raises(UsageError, match="needs sketches at the same landmarks"):
        compare(sketch(rows(300, 1), bases[0]), sketch(rows(300, 2), bases[1]), test="permutation")


def test_without_a_sample_different_landmarks_get_no_test():
    bases = [Basis.fit(rows(500, i), landmarks=20, scale="none", bandwidth=10.0) for i in range(2)]
    found = compare(*(sketch(rows(300, i), bases[i], sample_rows=0) for i in range(2)))
    assert found.verdict is None and "no test" in found.notes[0]


# ---- order of rows -----------------------------------------------------------------------------------------


def series(n, seed, correlation):
    noise = np.random.default_rng(seed).normal(size=(n, 3))
    made = np.empty_like(noise)
    made[0] = noise[0]
    for i in range(1, n):
        made[i] = correlation * made[i - 1] + math.sqrt(1 - correlation**2) * noise[i]
    return made * [1, 10, 0.1]


def test_rows_that_depend_on_their_neighbours_are_noticed_and_allowed_for():
    pair = [sketch(series(4096, seed, 0.5)) for seed in (1, 2)]
    found = compare(*pair)
    assert all(d.found and d.ratio > 1.5 for d in found.dependences)
    assert found.blocks == "consecutive" and found.verdict.test == "bootstrap"
    assert "rows depend on their neighbours or are sorted" in found.notes[0]
    assert compare(*pair, blocks="random").blocks == "random"
    assert compare(*pair).p_value >= compare(*pair, blocks="random").p_value


def test_sorted_rows_are_noticed_and_random_blocks_still_see_a_difference():
    x, y = rows(3000, 1), rows(3000, 2, 0.3)
    pair = [sketch(data[np.argsort(data[:, 0])]) for data in (x, y)]
    found = compare(*pair)
    assert found.blocks == "consecutive" and not found.rejected
    assert compare(*pair, blocks="random").rejected
    assert not any(d.found for d in compare(sketch(x), sketch(y)).dependences)


def test_without_runs_dependence_is_unknown_and_consecutive_blocks_are_refused():
    pair = [sketch(series(2000, seed, 0.5), spans=0) for seed in (1, 2)]
    assert compare(*pair).dependences == (None, None)
    with pytest.raises(UsageError, match="Sketch it with `spans=64`"):
        compare(*pair, blocks="consecutive")
    mixed = compare(sketch(series(2000, 1, 0.5)), pair[1])
    assert mixed.blocks == "random" and "too few spans" in mixed.notes[0]


# ---- landmarks from one of the samples -----------------------------------------------------------------


def test_landmarks_from_one_side_are_pointed_out_where_the_kernel_is_narrow():
    x, y = rows(2000, 1), rows(2000, 2)
    narrow = nysketch.sketch(x, landmarks=100, bandwidth=0.05, threads=1)
    found = compare(narrow, sketch(y, narrow.basis))
    assert any("The landmarks are rows of first" in note for note in found.notes)
    usual = nysketch.sketch(x, landmarks=100, threads=1)
    assert compare(usual, sketch(y, usual.basis)).notes == []


# ---- what moved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [True, False])
def test_the_column_that_moved_comes_first(cells):
    x, y = rows(5000, 1), rows(5000, 2, 0.5, column=1)
    found = nysketch.compare(sketch(x, cells=cells), sketch(y, cells=cells)).explanation
    assert found.shifts_from == ("cells" if cells else "sample")
    first = found.shifts[0]
    assert first.feature == "x1" and abs(first.shift - 0.5) < 4 * first.standard_error
    tolerance = 1e-9 if cells else 0.1
    for shift in found.shifts:
        i = int(shift.feature[1])
        assert shift.means == pytest.approx((x[:, i].mean(), y[:, i].mean()), abs=tolerance * x[:, i].std())
        assert shift.deviations == pytest.approx((x[:, i].std(), y[:, i].std()), rel=tolerance)
        assert shift.spread == pytest.approx(y[:, i].std() / x[:, i].std(), rel=tolerance)
    # The second has more rows where x1 is large, the first where it is small.
    assert all(region.landmark["x1"] < 0 for region in found.more_in_first[:1])
    assert all(region.landmark["x1"] > 0 for region in found.more_in_second[:1])
    assert found.more_in_first[0].z > 4 and found.more_in_second[0].z < -4


def test_the_witness_is_the_difference_of_mean_kernel_values_at_real_landmarks():
    x, y = rows(1000, 1), rows(1000, 2, 0.5)
    found = nysketch.compare(sketch(x, precision="float64"), sketch(y, precision="float64"), regions=5)
    regions = found.explanation.more_in_first + found.explanation.more_in_second
    assert len(regions) > 4
    for region in regions:
        z = np.array([list(region.landmark.values())])
        assert (np.abs(BASIS.landmarks - z) < 1e-12).all(axis=1).any()
        expected = [BASIS.kernel(BASIS.transform(data), BASIS.transform(z)).mean() for data in (x, y)]
        assert region.values == pytest.approx(expected, rel=1e-9)
        assert region.difference == pytest.approx(expected[0] - expected[1], rel=1e-6)


def test_a_constant_column_that_is_none_any_more():
    table = [pa.table({"a": rows(500, i)[:, 0], "b": np.full(500, 3.0)}) for i in (1, 2)]
    changed = pa.table({"a": table[1]["a"], "b": np.linspace(3, 4, 500)})
    basis = Basis.fit(table[0], landmarks=20, columns=["a", "b"])
    found = nysketch.compare(sketch(table[0], basis), sketch(changed, basis)).explanation
    assert (found.shifts[0].feature, found.shifts[0].shift) == ("b", None)
    unchanged = nysketch.compare(sketch(table[0], basis), sketch(table[1], basis)).explanation
    assert {s.feature: s.shift for s in unchanged.shifts}["b"] == 0.0


def test_list_columns_are_named_by_their_places():
    values = RNG.normal(size=(400, 2))
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(values.ravel(), 2), "a": values[:, 0]})
    basis = Basis.fit(table, landmarks=10)
    found = nysketch.compare(sketch(table, basis), sketch(table.slice(100), basis)).explanation
    assert {shift.feature for shift in found.shifts} == {"v[0]", "v[1]", "a"}
    assert all(len(region.landmark["v"]) == 2 for region in found.more_in_first)


# ---- bad rows ---------------------------------------------------------------------------------------

UNBOUNDED = {
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "polynomial", "degree": 2},
    "cubic": {"kernel": "polynomial", "degree": 3},
}


def spoiled(data, count, seed=5, size=1e6):
    random = np.random.default_rng(seed)
    data = data.copy()
    data[random.choice(len(data), count, replace=False)] = (
        size * random.normal(1, 0.3, (count, 3)) * [1, 10, 0.1]
    )
    return data


@pytest.mark.parametrize("kernel", UNBOUNDED)
@pytest.mark.parametrize("bad", [1, 8])
def test_a_few_huge_rows_do_not_change_the_robust_mmd(kernel, bad):
    basis = Basis.fit(PILOT, landmarks=60, **UNBOUNDED[kernel])
    x, y = rows(10_000, 1), rows(10_000, 2, 0.3)
    clean = compare(sketch(x, basis), sketch(y, basis)).mmd
    pair = [sketch(spoiled(data, bad, seed), basis) for seed, data in enumerate((x, y))]
    assert compare(*pair).mmd > 10 * clean
    found = compare(*pair, robust=64)
    assert found.mmd == pytest.approx(clean, rel=0.1)
    assert found.robustness.median.value == pytest.approx(clean, rel=0.1)
    left_out = found.robustness.left_out
    assert all(1 <= len(side) <= bad for side in left_out) and not found.robustness.overwhelmed
    assert found.rejected and not found.notes


def test_beyond_the_limit_it_says_so():
    basis = Basis.fit(PILOT, landmarks=60, kernel="linear")
    x, y = rows(10_000, 1), rows(10_000, 2, 0.3)
    for bad in (24, 40, 100, 1000):
        pair = [sketch(spoiled(data, bad, seed), basis) for seed, data in enumerate((x, y))]
        found = compare(*pair, robust=64)
        assert found.robustness.overwhelmed, bad
        assert any("Outlying blocks" in note or "as much as typical rows" in note for note in found.notes)
    few = [sketch(spoiled(data, 8, seed), basis) for seed, data in enumerate((x, y))]
    smaller = compare(*few, robust=9)
    assert smaller.robustness.overwhelmed and "Use `robust=64`" in smaller.notes[0]


def test_a_burst_of_bad_rows_is_in_few_runs():
    basis = Basis.fit(PILOT, landmarks=60, kernel="linear")
    x, y = rows(10_000, 1), rows(10_000, 2, 0.3)
    clean = compare(sketch(x, basis), sketch(y, basis)).mmd
    burst = x.copy()
    burst[4000:4400] = 1e6
    pair = sketch(burst, basis), sketch(y, basis)
    found = compare(*pair, robust=64)  # of 40 runs, as many groups as there are
    assert found.robustness.median.groups == 40
    assert found.blocks == "consecutive" and found.mmd == pytest.approx(clean, rel=0.1)
    assert 2 <= len(found.robustness.left_out[0]) <= 3 and found.robustness.left_out[1] == []
    assert compare(*pair, robust=64, blocks="random").robustness.overwhelmed
    fewer = compare(*pair, robust=64, blocks="consecutive")
    assert "There are 40 spans of rows to compare: 40 groups are used, not 64." in fewer.notes
    assert compare(*pair, robust=40, blocks="consecutive").mmd == pytest.approx(clean, rel=0.1)


def test_clean_rows_lose_no_block():
    for seed in range(5):
        found = compare(sketch(rows(3000, 2 * seed)), sketch(rows(3000, 2 * seed + 1)), robust=33)
        assert found.robustness.left_out == ([], []) and not found.robustness.overwhelmed
        plain = compare(sketch(rows(3000, 2 * seed)), sketch(rows(3000, 2 * seed + 1)))
        assert found.mmd == plain.mmd and found.robustness.median.value == pytest.approx(plain.mmd, rel=0.3)


# ---- many comparisons ------------------------------------------------------------------------------------


def test_many_comparisons_are_adjusted():
    made = [sketch(rows(1500, seed, 0.4 * (seed == 3))) for seed in range(4)]
    names = list("abcd")
    pairs = [(i, j) for i in range(4) for j in range(i)]
    found = compare_all(made, names, pairs, explain=False, permutations=999)
    assert found.adjustment == "holm"
    assert {frozenset(c.names) for c in found.rejected} == {frozenset("ad"), frozenset("bd"), frozenset("cd")}
    p = np.array([c.p_value for c in found.found])
    assert np.allclose([c.p_value_adjusted for c in found.found], holm(p))
    alone = nysketch.compare(made[1], made[0], explain=False, permutations=999)
    assert found.found[0].p_value == alone.p_value and found.found[0].mmd == alone.mmd
    plain = compare_all(made, names, pairs, adjustment="none", explain=False, permutations=999)
    assert all(c.p_value_adjusted is None for c in plain.found)


def test_there_are_enough_draws_for_the_number_of_comparisons():
    made = [sketch(rows(300, seed), blocks=16) for seed in range(2)] * 40
    pairs = [(0, i) for i in range(1, 80)]
    found = compare_all(made, [str(i) for i in range(80)], pairs, explain=False)
    assert found.found[0].verdict.permutations >= 79 / 0.05


def test_one_comparison_is_not_adjusted_and_incompatible_ones_are_named():
    made = [sketch(rows(300, 1)), sketch(rows(300, 2))]
    assert compare_all(made, ["a", "b"], [(0, 1)]).found[0].p_value_adjusted is None
    alien = sketch(rows(300, 3), Basis.fit(PILOT, landmarks=10, kernel="linear"))
    with pytest.raises(
        IncompatibleError, match=r"b\.nysk and c\.nysk: the sketches have different bases: kernel"
    ):
        compare_all([*made, alien], ["a.nysk", "b.nysk", "c.nysk"], [(0, 1), (1, 2)])
    with pytest.raises(UsageError, match="`adjust` must be one of"):
        compare_all(made, ["a", "b"], [(0, 1)], adjustment="sidak")


def test_adjustments_against_their_definitions():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.5])
    ordered = sorted(p)
    expected = {
        value: min(1.0, max((5 - j) * ordered[j] for j in range(i + 1))) for i, value in enumerate(ordered)
    }
    assert np.allclose(holm(p), [expected[value] for value in p])
    assert np.allclose(benjamini_hochberg(p), false_discovery_control(p))
    stepped = [min(1.0, min(5 / (j + 1) * ordered[j] for j in range(i, 5))) for i in range(5)]
    assert np.allclose(sorted(benjamini_hochberg(p)), stepped)


# ---- what must not be answered wrongly ---------------------------------------------------------------


def test_tables_of_one_row_are_not_different_for_their_rounding():
    made = [sketch(np.tile([[0.3, 7.0, 0.01]], (n, 1))) for n in (5000, 20_001)]
    found = compare(*made, explain=True)
    assert found.mmd < 1e-6 and found.p_value == 1 and found.dependences == (None, None)
    assert [shift.shift for shift in found.explanation.shifts] == [0, 0, 0]
    assert found.explanation.more_in_first == found.explanation.more_in_second == []
    moved = compare(made[0], sketch(rows(500, 1)), explain=True).explanation.shifts
    assert all(shift.shift is None for shift in moved)  # they were constant, and are no more


def test_precisions_that_differ_are_no_difference_of_the_rows():
    data = np.tile([[0.3, 7.0, 0.01]], (3000, 1))
    found = compare(sketch(data), sketch(data, precision="float64"))
    assert found.p_value == 1
    assert any("float32 and float64" in note for note in found.notes)


@pytest.mark.slow
def test_a_heavy_row_is_seen_in_the_error_and_keeps_the_level():
    rejected = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        made = [
            sketch(
                pa.table(
                    {
                        **dict(zip("012", rows(500, 2 * seed + side).T, strict=True)),
                        "w": np.clip(1 + random.pareto(0.7, 500), 0, 1e9),
                    }
                ),
                WEIGHTED,
                weights="w",
                cells=False,
                sample_rows=0,
            )
            for side in range(2)
        ]
        rejected += compare(*made).rejected
    assert rejected <= 8  # 99.9 % of such counts are, at 5 %; it had been every other pair


WEIGHTED = Basis.fit(pa.table(dict(zip("012", PILOT.T, strict=True))), landmarks=30)


def test_too_many_wild_blocks_are_not_tested():
    basis = Basis.fit(PILOT, landmarks=60, kernel="linear")
    pair = [sketch(spoiled(rows(5000, seed), 200, seed), basis) for seed in range(2)]
    found = compare(*pair, robust=64)
    assert found.robustness.overwhelmed and found.verdict is None and found.rejected is None


def test_rows_with_few_values_have_no_wild_blocks_for_being_the_same():
    coins = [np.random.default_rng(seed).integers(0, 2, (60, 1)).astype(float) for seed in range(2)]
    basis = Basis.fit(np.vstack(coins), landmarks=2)
    found = compare(*(sketch(coin, basis) for coin in coins), robust=9)
    assert not found.robustness.overwhelmed


def test_a_burst_of_bad_rows_under_a_bounded_kernel():
    # It changes all random blocks a little, none of them wildly; but two runs.
    x, y = rows(6000, 1), rows(6000, 2)
    y[3000:3300] = 1e4
    pair = sketch(x), sketch(y)
    assert compare(*pair, blocks="random").rejected
    found = compare(*pair, robust=21, explain=True)
    assert found.blocks == "consecutive" and not found.rejected
    assert found.robustness.left_out[0] == [] and 2 <= len(found.robustness.left_out[1]) <= 6
    # What is explained is what was compared.
    assert all(abs(shift.means[1]) < 5 for shift in found.explanation.shifts)


def test_errors_of_what_moved_allow_for_the_order_of_rows():
    noise = np.random.default_rng(0).normal(size=(4000, 3))
    noise = np.cumsum(noise * 0.1, axis=0) * [1, 10, 0.1]
    found = compare(sketch(noise), sketch(rows(4000, 1)), explain=True)
    careless = compare(sketch(noise), sketch(rows(4000, 1)), explain=True, blocks="random")
    for one, other in zip(found.explanation.shifts, careless.explanation.shifts, strict=True):
        assert one.standard_error > 3 * other.standard_error
    assert abs(found.explanation.more_in_second[0].z) < abs(careless.explanation.more_in_second[0].z) / 2
    single = compare(sketch(noise, blocks=1, spans=0), sketch(rows(400, 1)), explain=True)
    assert single.explanation.more_in_second[0].z is None


def test_too_few_draws_for_several_comparisons_are_refused():
    made = [sketch(rows(300, seed)) for seed in range(3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    with pytest.raises(UsageError, match="with 40 permutations no p-value adjusted for 3 comparisons"):
        compare_all(made, list("abc"), pairs, permutations=40)
    assert compare_all(made, list("abc"), pairs, permutations=40, adjustment="none", explain=False).found
