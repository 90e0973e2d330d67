"""The MMD of rows that leave the span of the landmarks, and tests that could not have found anything."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.basis.base import Basis
from nysketch.basis.quality import features_of
from nysketch.basis.residual_kernel import SampledRows, outside_part
from nysketch.twosample.compare import compare_all
from nysketch.twosample.outside import rows_to_use
from tests.naive import exact_mmd


def rows(n, d, seed, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def sketch(data, basis, **options):
    return nysketch.sketch(data, basis=basis, threads=1, **{"cells": False, **options})


def compare(first, second, **options):
    return nysketch.compare(first, second, **{"explain": False, "permutations": 199, **options})


def basis_of(data, m=100, **options):
    return Basis.fit(data, **{"landmarks": m, "scale": "none", **options})


def agrees(found, exact, errors=3):
    return abs(found.mmd - exact) <= errors * found.standard_error


# ---- the distance ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "shift", "saturates"),
    [(2, 6, True), (10, 3, True), (10, 1, False), (300, 0.1, True), (10, 0, False)],
)
def test_the_mmd_is_that_of_the_rows_however_far_they_are_from_the_landmarks(d, shift, saturates):
    x, y = rows(2500, d, 1), rows(2500, d, 2, shift)
    basis = basis_of(x)
    found = compare(sketch(x, basis), sketch(y, basis))
    exact, distance = exact_mmd(basis, x, y), found.distance
    assert agrees(found, exact)
    assert (exact - distance.projected > 10 * found.standard_error) == saturates
    assert any("outside the span of the landmarks" in note for note in found.notes) == saturates
    assert (found.describe()["outside_share"] > 0.1) == saturates
    assert found.describe()["mmd_projected"] == distance.projected <= found.mmd


def test_of_tables_that_are_sampled_as_a_whole_it_is_exact():
    x, y = rows(400, 5, 1), rows(300, 5, 2, 1.5)
    basis = basis_of(x, 20)
    found = compare(sketch(x, basis, precision="float64"), sketch(y, basis, precision="float64"))
    assert found.sampled_rows == (400, 300)
    assert found.mmd == pytest.approx(exact_mmd(basis, x, y), rel=1e-6)


def test_weights_count():
    x, y = rows(900, 3, 1), rows(900, 3, 2, 2.5)
    w, v = np.exp(rows(900, 1, 3)[:, 0] / 2), np.exp(x[:, 0] / 2)
    basis = basis_of(x, 30)
    made = [
        sketch(pa.table({**dict(zip("abc", part.T, strict=True)), "w": of}), basis_named(basis), weights="w")
        for part, of in ((x, w), (y, v))
    ]
    found = compare(*made)
    assert found.mmd == pytest.approx(exact_mmd(basis, x, y, w, v), rel=1e-4)


def basis_named(basis):
    table = pa.table(dict(zip("abc", basis.landmarks.T, strict=True)))
    return Basis.fit(
        table, landmarks=basis.m, scale="none", bandwidth=basis.kernel.bandwidth, sampling="uniform"
    )


def test_merged_and_subtracted_sketches_tell_it_too():
    x, y, z = rows(3000, 10, 1), rows(3000, 10, 2, 3), rows(2000, 10, 3, -1)
    basis = basis_of(x)
    merged = sketch(y[:1000], basis) + sketch(y[1000:], basis)
    more = sketch(z, basis)
    subtracted = (sketch(x, basis) + more) - more
    assert len(subtracted.tally.sample) < 2000
    assert agrees(compare(subtracted, merged), exact_mmd(basis, x, y))


def test_the_same_rows_are_at_no_distance_and_shared_ones_are_allowed_for():
    x = rows(3000, 10, 1, 3)
    basis = basis_of(rows(500, 10, 0), 40)
    same = compare(sketch(x, basis), sketch(x, basis))
    assert same.mmd == 0 and same.distance.squared_outside == 0
    # A table and the same with a third more: most pairs of equal keys are the same row.
    more = rows(1500, 10, 2, 4)
    a, b = sketch(x, basis), sketch(x, basis) + sketch(more, basis)
    assert agrees(compare(a, b), exact_mmd(basis, x, np.vstack([x, more])))


def test_different_landmarks_no_longer_count_as_a_difference():
    """Each side has landmarks of its own: both projections are short, and far from each other."""
    x, y = rows(3000, 10, 1), rows(3000, 10, 2, 0.3)
    bases = [basis_of(part, 12, bandwidth=4.0) for part in (x, y)]
    found = compare(sketch(x, bases[0]), sketch(y, bases[1]))
    exact = exact_mmd(bases[0], x, y)
    assert agrees(found, exact)
    assert abs(found.distance.projected - exact) > 3 * found.standard_error
    moved = compare(sketch(x - 50, basis_of(x - 50, 12, bandwidth=4.0)), sketch(y, bases[1]))
    assert agrees(moved, exact_mmd(bases[0], x - 50, y))


@pytest.mark.parametrize("kernel", ["laplacian-l2", "cosine", "linear"])
def test_other_kernels(kernel):
    x, y = rows(1500, 4, 1), rows(1500, 4, 2, 1.0) * [1, 3, 1, 1]
    basis = basis_of(x, 15, kernel=kernel)
    assert agrees(compare(sketch(x, basis), sketch(y, basis)), exact_mmd(basis, x, y))


def test_text_groups_and_fourier_features():
    words = [
        np.random.default_rng(i).choice(["alpha", "beta", "gamma", "delta"][: 2 + i], 300) for i in (0, 2)
    ]
    basis = Basis.fit(pa.table({"s": words[0]}), landmarks=2, kernel="spectrum", columns=["s"])
    found = compare(*(nysketch.sketch(pa.table({"s": part}), basis=basis) for part in words))
    counts = [np.array([np.mean(part == w) for w in ("alpha", "beta", "gamma", "delta")]) for part in words]
    k = basis.kernel(*[np.array(["alpha", "beta", "gamma", "delta"], object)] * 2)
    difference = counts[0] - counts[1]
    assert found.mmd**2 == pytest.approx(difference @ k @ difference, rel=1e-4)
    tables = [pa.table(dict(zip("abcd", rows(1200, 4, i, i).T, strict=True))) for i in (1, 3)]
    grouped = Basis.fit(tables[0], landmarks=20, groups={"one": ["a", "b"], "two": ["c", "d"]}, scale="none")
    pair = [sketch(table, grouped) for table in tables]
    numbers = [np.column_stack([table[c] for c in "abcd"]) for table in tables]
    assert agrees(compare(*pair), exact_mmd(grouped, *numbers))
    fourier = Basis.fit(rows(500, 4, 0), landmarks=50, features="fourier")
    found = compare(*(sketch(rows(600, 4, i), fourier) for i in (1, 2)))
    assert found.mmd == found.distance.projected and found.distance.outside_share is None and not found.notes


def test_without_sampled_rows_it_says_that_it_is_the_distance_of_projections():
    x, y = rows(1000, 10, 1), rows(1000, 10, 2, 3)
    basis = basis_of(x, 20)
    found = compare(sketch(x, basis), sketch(y, basis, sample_rows=0))
    assert found.mmd == found.distance.projected and found.sampled_rows is None
    assert "second: too few sampled rows" in found.notes[0] and found.describe()["outside_share"] is None


def test_corrupted_rows_do_not_come_back_with_the_sample():
    x, y = rows(3000, 4, 1), rows(3000, 4, 2, 0.5)
    basis = basis_of(rows(500, 4, 0), 30, kernel="polynomial", degree=2)
    clean = compare(sketch(x, basis), sketch(y, basis)).mmd
    y[:3] = 1e6
    found = compare(sketch(x, basis), sketch(y, basis), robust=64)
    assert found.mmd == pytest.approx(clean, rel=0.1)


@pytest.mark.parametrize("method", ["geometric-median", "bcd", "bcd-fast"])
def test_a_median_of_means_says_that_it_is_of_projections(method):
    near, far = rows(3000, 10, 1), rows(3000, 10, 2, shift=4.0)
    basis = basis_of(near)
    found = compare(sketch(near, basis), sketch(far, basis), robust="auto", robust_method=method)
    assert found.mmd < 0.8 * exact_mmd(basis, near, far)
    assert any("of the projections on the span of the landmarks only" in note for note in found.notes)
    close = compare(
        sketch(near, basis), sketch(rows(3000, 10, 3), basis), robust="auto", robust_method=method
    )
    assert not any("span of the landmarks" in note for note in close.notes)


def test_the_same_rows_have_no_share_outside_the_span():
    data = rows(3000, 10, 1)
    made = sketch(data, basis_of(data, m=20))
    assert not any("outside the span" in note for note in compare(made, made).notes)


def test_one_wild_value_changes_nothing():
    x, y = rows(1500, 3, 1), rows(1500, 3, 2, 0.2)
    basis = basis_of(x, 60)
    before = compare(sketch(x, basis), sketch(y, basis)).mmd
    y[7] = 1e300
    found = compare(sketch(x, basis), sketch(y, basis))
    assert np.isfinite(found.standard_error) and found.mmd == pytest.approx(before, abs=2e-3)


def test_many_sketches_use_fewer_sampled_rows_and_say_so():
    assert rows_to_use(2, 10, text=False) == 1000 > rows_to_use(17, 10, text=False)
    assert rows_to_use(2, 768, text=False) < 600 and rows_to_use(2, 10**6, text=False) == 200
    basis = basis_of(rows(300, 2, 0), 10)
    made = [sketch(rows(400, 2, i), basis) for i in range(17)]
    found = compare_all(made, list(map(str, range(17))), [(0, 1), (0, 2)], test="none", explain=False)
    assert found.describe()["comparisons"][1]["sampled_rows"] == [250, 250]


@pytest.mark.slow
def test_its_error_covers_what_sampling_does():
    """Half covered, with more rows than are sampled: off by as much as the standard error says."""
    scores, of_population = [], []
    basis = basis_of(rows(500, 10, 0), 50)
    width = basis.kernel.bandwidth
    population = 2 * (1 + 2 / width**2) ** -5 * (1 - np.exp(-40 / (2 * (width**2 + 2))))
    for seed in range(25):
        x, y = rows(2500, 10, 2 * seed + 1), rows(2500, 10, 2 * seed + 2, 2.0)
        found = compare(sketch(x, basis), sketch(y, basis), test="none")
        scores.append((found.mmd - exact_mmd(basis, x, y)) / found.standard_error)
        distance = found.distance
        of_population.append((distance.squared_unbiased - population) / distance.squared_se)
    assert np.mean(np.abs(scores) < 2) >= 0.92
    assert 0.6 < np.std(of_population) < 1.4 and abs(np.mean(of_population)) < 0.6


# ---- means over pairs --------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**31), st.booleans())
def test_means_over_pairs_are_those_of_the_definition(s, t, seed, weighted):
    rng = np.random.default_rng(seed)
    basis = basis_of(rng.normal(size=(40, 2)), 4, bandwidth=1.0)
    sides, n = [], (50, 30)
    for count, many in zip((s, t), n, strict=True):
        X = rng.normal(size=(count, 2)) + 1
        w = rng.uniform(0.5, 2, count) if weighted else np.ones(count)
        keys = np.sort(rng.integers(10 * len(sides), 10 * len(sides) + 10**6, count))
        sides.append(SampledRows(basis.kernel, X, features_of(basis, X), w / w.mean(), many, keys, 10**9))
    found = outside_part(*sides)

    def h(a, b, i, j):
        k = basis.kernel(a.rows[[i]], b.rows[[j]])[0, 0]
        return k - a.features[i] @ b.features[j]

    def mean(a, b, skip):
        pairs = [(i, j) for i in range(len(a)) for j in range(len(b)) if not (skip and i == j)]
        weights = np.array([a.shares[i] * b.shares[j] for i, j in pairs])
        return weights @ [h(a, b, i, j) for i, j in pairs] / weights.sum()

    a, b = sides
    unbiased = mean(a, a, True) + mean(b, b, True) - 2 * mean(a, b, False)
    assert found.unbiased == pytest.approx(unbiased, abs=1e-10)
    squared = -2 * mean(a, b, False)
    for side, many in zip(sides, n, strict=True):
        alone = np.mean(side.shares**2) / many
        own = np.mean([side.shares[i] ** 2 * h(side, side, i, i) for i in range(len(side))]) / many
        squared += (1 - alone) * mean(side, side, True) + own
    assert found.squared == pytest.approx(squared, abs=1e-10)
    assert min(*found.linear, *found.degenerate, found.variance_of_sampling) >= 0


# ---- what a test could have found --------------------------------------------------------------------------


def test_few_rows_are_undecided_and_many_are_not():
    basis = basis_of(rows(1000, 5, 0))
    few, many = sketch(rows(295, 5, 1), basis), [sketch(rows(20_000, 5, i), basis) for i in (2, 3)]
    found = compare(few, many[0])
    assert not found.rejected and found.undecided() and found.detectable > found.verdict.threshold * 0.8
    assert not found.undecided(at_least=0.1) and found.undecided(at_least=0.01)
    enough = compare(*many)
    assert not enough.rejected and not enough.undecided() and enough.detectable < 0.02 < found.detectable
    assert found.describe()["undecided"] is True and found.describe()["detectable"] == found.detectable
    untested = compare(few, many[0], test="none")
    assert not untested.undecided() and untested.describe()["undecided"] is None
    different = compare(few, sketch(rows(20_000, 5, 4, 1.0), basis))
    assert different.rejected and not different.undecided()


def test_rows_that_the_landmarks_do_not_express_are_undecided():
    basis = basis_of(rows(1000, 5, 0))
    found = compare(sketch(rows(2000, 5, 1, 40), basis), sketch(rows(2000, 5, 2, -40), basis))
    assert found.mmd > 1 and not found.rejected and found.undecided() and found.undecided(0.5)
    assert found.threshold > found.mmd - 1e-3  # MMD and threshold have the same part outside
    assert any("express next to nothing" in note for note in found.notes)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_a_difference_that_is_only_outside_the_span_is_undecided(kernel):
    """The test does not look there: it must not say that there is none, nor that it would have found it."""
    basis = basis_of(rows(500, 50, 0), 10, kernel=kernel)
    away = np.linalg.qr(np.column_stack([basis.scaled_landmarks.T, np.ones(50)]))[0][:, -1]
    x, y = rows(5000, 50, 1), rows(5000, 50, 2)
    found = compare(sketch(x, basis), sketch(y + away, basis))
    assert found.mmd > 10 * found.standard_error and not found.rejected
    assert found.untested and found.undecided() and not found.blind
    assert found.detectable is None and found.describe()["undecided"] is True
    assert found.undecided(at_least=found.mmd / 2) and not found.undecided(at_least=2 * found.mmd)
    same = compare(sketch(x, basis), sketch(y, basis))
    assert not same.untested and same.detectable is not None
    seen = compare(sketch(x, basis), sketch(y + away + basis.scaled_landmarks[0] / 2, basis))
    assert seen.rejected and not seen.undecided() and seen.detectable is not None


def test_the_command_says_that_the_test_does_not_look_there(tmp_path, run_cli):
    basis = basis_of(rows(500, 50, 0), 10)
    away = np.linalg.qr(np.column_stack([basis.scaled_landmarks.T, np.ones(50)]))[0][:, -1]
    paths = [str(tmp_path / f"{i}.nysk") for i in range(2)]
    for i, path in enumerate(paths):
        nysketch.save(sketch(rows(5000, 50, i + 1) + i * away, basis), path)
    told = run_cli("compare", *paths).stdout
    assert "undecided: the difference is outside the span of the landmarks" in told
    assert "may go unseen" not in told


@pytest.mark.slow
def test_what_is_called_detectable_is_found_in_four_of_five_cases():
    basis = basis_of(rows(1000, 3, 0), 60)
    width = basis.kernel.bandwidth
    detectable = compare(sketch(rows(500, 3, 1), basis), sketch(rows(2000, 3, 2), basis)).detectable
    share = 1 - detectable**2 / (2 * (1 + 2 / width**2) ** -1.5)
    shift = np.sqrt(-np.log(share) * 2 * (width**2 + 2) / 3)
    found = [
        compare(sketch(rows(500, 3, 2 * s), basis), sketch(rows(2000, 3, 2 * s + 1, shift), basis)).rejected
        for s in range(40)
    ]
    assert np.mean(found) >= 0.75


def test_the_command_says_what_may_go_unseen(tmp_path, run_cli):
    basis = basis_of(rows(1000, 5, 0))
    paths = []
    for i, (n, shift) in enumerate([(295, 0), (5000, 0), (5000, 4)]):
        paths.append(str(tmp_path / f"{i}.nysk"))
        nysketch.save(sketch(rows(n, 5, i + 1, shift), basis), paths[-1])
    told = run_cli("compare", paths[0], paths[1])
    assert "may go unseen" in told.stdout and "undecided: too few rows to tell" in told.stdout
    far = run_cli("compare", paths[1], paths[2])
    assert "outside the span of the landmarks" in far.stdout and "may go unseen" not in far.stdout
    assert json.loads(run_cli("compare", paths[0], paths[1], "--json").stdout)["undecided"] is True
    several = run_cli("compare", *paths).stdout
    assert "2 of 3 are undecided: too few rows to tell" in several or "1 of 3 are undecided" in several
    assert "? where undecided" in several and "sampled rows of each sketch" in several
    listed = run_cli("compare", *paths[1:], "--reference", paths[0]).stdout
    assert "undecided" in listed.splitlines()[1] and "different" in listed.splitlines()[2]
