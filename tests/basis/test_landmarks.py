"""Landmarks: every scheme on every awkward table, and each scheme against a slow twin."""

import json
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from nysketch.basis.landmarks import SAMPLINGS, choose, uniform
from nysketch.errors import UsageError


class Gauss:
    def __init__(self, bandwidth=1.0):
        self.bandwidth = bandwidth

    def __call__(self, X, Y):
        return np.exp(-cdist(X, Y, "sqeuclidean") / (2 * self.bandwidth**2))

    def diagonal(self, X):
        return np.ones(len(X))


class Dot:
    """(x·y + shift)^degree: unnormalised, of low rank, zero for a zero row."""

    def __init__(self, degree=1, shift=0.0):
        self.degree, self.shift = degree, shift

    def __call__(self, X, Y):
        return (X @ Y.T + self.shift) ** self.degree

    def diagonal(self, X):
        return (np.einsum("ij,ij->i", X, X) + self.shift) ** self.degree


class Letters:
    """The cosine of letter counts of strings."""

    def __call__(self, X, Y):
        return self.features(X) @ self.features(Y).T

    def diagonal(self, X):
        return np.ones(len(X))

    def features(self, X):
        counts = np.array([[text.count(letter) for letter in "abcdefgh"] for text in X], dtype=float)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def strings(rows=300, seed=0):
    random = np.random.default_rng(seed)
    made = np.empty(rows, dtype=object)
    made[:] = ["".join(random.choice(list("abcdefgh"), 6)) for _ in range(rows)]
    return made


def normal(rows, d, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, d))


def uneven(rows=1200, seed=0):
    """Two clusters, one of them with 1 % of the rows, and a few outliers."""
    made = normal(rows, 3, seed)
    made[: rows // 100] += 8
    made[:3] *= 30
    return made


TABLES = {
    "plain": (normal(400, 3), Gauss(), 40),
    "uneven": (uneven(), Gauss(2.0), 40),
    "low rank": (normal(400, 3), Dot(), 40),
    "polynomial": (uneven(), Dot(3, 1.0), 40),
    "zero rows": (np.vstack([np.zeros((50, 3)), normal(50, 3)]), Dot(), 40),
    "nothing but zeros": (np.zeros((30, 2)), Dot(), 10),
    "duplicates": (np.repeat(normal(7, 2), 30, axis=0), Gauss(), 20),
    "constant": (np.full((50, 2), 3.25), Gauss(), 10),
    "one row": (normal(1, 4), Gauss(), 5),
    "one landmark": (normal(100, 2), Gauss(), 1),
    "all of them": (normal(60, 2), Gauss(0.1), 60),
    "more than there are": (normal(60, 2), Gauss(0.1), 100),
    "wide kernel": (normal(400, 2), Gauss(100.0), 100),
    "narrow kernel": (normal(400, 2), Gauss(1e-6), 100),
    "huge outliers": (np.vstack([normal(300, 2), [[1e100, 0], [-1e100, 1e100], [1e100, 0]]]), Gauss(), 50),
    "strings": (strings(), Letters(), 40),
    "equal strings": (np.array(["ab"] * 20 + ["ba"] * 20, dtype=object), Letters(), 10),
}


@pytest.fixture
def unlimited(monkeypatch):
    """Leave threads alone: for thousands of tiny choices, limiting them takes nearly all the time."""
    monkeypatch.setattr("threadpoolctl.threadpool_limits", lambda _: nullcontext())


def cases():
    for name in TABLES:
        for sampling in SAMPLINGS:
            if not (sampling == "kmeans" and "strings" in name):
                yield pytest.param(name, sampling, id=f"{sampling}-{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sampling"), list(cases()))
def test_every_scheme_on_every_table(name, sampling):
    rows, kernel, m = TABLES[name]
    calls = []
    choice = choose(sampling, rows, kernel, m, seed=5, progress=lambda *call: calls.append(call))
    assert 1 <= len(choice.rows) <= min(m, len(rows))
    assert choice.rows.dtype == rows.dtype
    assert choice.rows.shape[1:] == rows.shape[1:]
    assert "NaN" not in json.dumps(choice.report)
    assert "Infinity" not in json.dumps(choice.report)
    assert all(0 <= done <= total for done, total in calls)
    assert calls == sorted(calls)
    if sampling == "kmeans":
        assert choice.indices is None
        assert np.isfinite(choice.rows).all()
        assert len(np.unique(choice.rows, axis=0)) == len(choice.rows)
    else:
        assert choice.indices.dtype == np.int64
        assert len(set(choice.indices.tolist())) == len(choice.indices)
        assert np.array_equal(choice.rows, rows[choice.indices])
    again = choose(sampling, rows, kernel, m, seed=5)
    assert np.array_equal(again.rows, choice.rows)
    assert again.report == choice.report


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_threads_do_not_show_and_seeds_do(sampling):
    rows = normal(3000, 8)
    with threadpool_limits(1):
        one = choose(sampling, rows, Gauss(3.0), 150, seed=1)
    with threadpool_limits(2):
        two = choose(sampling, rows, Gauss(3.0), 150, seed=1)
    assert np.array_equal(one.rows, two.rows)
    assert one.report == two.report
    other = choose(sampling, rows, Gauss(3.0), 150, seed=2)
    assert np.array_equal(other.rows, one.rows) == (sampling == "greedy")


@pytest.mark.parametrize(
    ("sampling", "distinct"),
    [("kmeans++", True), ("kmeans", True), ("greedy", True), ("rpcholesky", True), ("leverage", False)],
)
def test_duplicates_are_chosen_once_if_the_scheme_can_see_them(sampling, distinct):
    rows = np.repeat(normal(7, 2), 30, axis=0)
    chosen = choose(sampling, rows, Gauss(), 20, seed=0).rows
    assert len(np.unique(chosen, axis=0)) == 7
    assert len(chosen) == (7 if distinct else 20)


@pytest.mark.parametrize("sampling", ["greedy", "rpcholesky"])
def test_pivots_end_with_the_rank_of_the_kernel(sampling):
    rows = normal(500, 6)
    choice = choose(sampling, rows, Dot(), 50, seed=0)
    assert len(choice.rows) == 6
    assert choice.report["residual_trace"] < 1e-12
    assert len(choose(sampling, rows, Dot(2, 1.0), 50, seed=0).rows) == 28  # 1 + 6 + 21 monomials


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(UsageError, match=r"uniform, kmeans\+\+, leverage, greedy.*'best'"):
        choose("best", normal(5, 2), Gauss(), 2, seed=0)
    with pytest.raises(UsageError, match=r'no mean; use `sampling="kmeans\+\+"`'):
        choose("kmeans", strings(), Letters(), 2, seed=0)


def test_uniform_draws_in_random_order():
    drawn = uniform(1000, 30, 7)
    assert sorted(drawn) == sorted(np.random.default_rng([7, 1]).choice(1000, 30, replace=False))
    assert list(drawn) != sorted(drawn)
    assert np.array_equal(choose("uniform", normal(1000, 2), Gauss(), 30, seed=7).indices, drawn)


# kmeans++ and kmeans


def test_d2_seeding_reaches_all_clusters_and_outliers():
    centres = 100 * normal(30, 4)
    rows = centres[np.random.default_rng(1).integers(30, size=3000)] + normal(3000, 4, 2)
    rows[0] = 1e100  # the distance of this row to itself must be 0, however large its square
    choice = choose("kmeans++", rows, Gauss(), 31, seed=0)
    assert len(choice.rows) == 31
    assert 0 in choice.indices
    assert len(set(cdist(choice.rows[choice.indices != 0], centres).argmin(axis=1))) == 30


def test_d2_seeding_is_as_good_as_that_of_scikit_learn():
    from sklearn.cluster import kmeans_plusplus

    rows = uneven(2000)
    ours, theirs = [], []
    for seed in range(10):
        choice = choose("kmeans++", rows, Gauss(), 30, seed=seed)
        ours.append(cdist(rows, choice.rows, "sqeuclidean").min(axis=1).mean())
        assert choice.report["mean_squared_distance"] == pytest.approx(ours[-1])
        centres, _ = kmeans_plusplus(rows, 30, random_state=seed)
        theirs.append(cdist(rows, centres, "sqeuclidean").min(axis=1).mean())
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.05)


def test_seeds_of_strings_are_drawn_by_squared_distance(unlimited):
    rows = np.array(["a", "b", "aab", "abb", "c"], dtype=object)
    distance = 2 - 2 * Letters()(rows, rows)
    expected = np.zeros((5, 5, 5))
    for i, j in product(range(5), range(5)):
        second = distance[i] / distance[i].sum()
        nearest = np.maximum(np.minimum(distance[i], distance[j]), 0)
        expected[i, j] = second[j] / 5 * nearest / nearest.sum()
    drawn = [tuple(choose("kmeans++", rows, Letters(), 3, seed=seed).indices) for seed in range(3000)]
    observed = np.zeros((5, 5, 5))
    np.add.at(observed, tuple(np.transpose(drawn)), 1 / 3000)
    assert expected.sum() == pytest.approx(1)
    assert (np.abs(observed - expected) < 4.5 * np.sqrt((expected + 1e-4) / 3000)).all()


def test_kmeans_centres_are_closer_than_rows():
    rows = normal(5000, 5)
    seeds = choose("kmeans++", rows, Gauss(), 100, seed=0).report["mean_squared_distance"]
    choice = choose("kmeans", rows, Gauss(), 100, seed=0)
    assert choice.report["mean_squared_distance"] < 0.95 * seeds
    exact = cdist(rows, choice.rows, "sqeuclidean").min(axis=1).mean()
    assert choice.report["mean_squared_distance"] == pytest.approx(exact)


# Leverage scores


def exact_scores(K, ridge):
    return np.einsum("ij,ji->i", K, np.linalg.inv(K + ridge * len(K) * np.eye(len(K))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "m"), [(Gauss(1.0), 50), (Gauss(1.0), 400), (Gauss(4.0), 60), (Dot(2, 1.0), 16)]
)
def test_leverage_scores_are_right_up_to_a_factor_of_two(kernel, m, monkeypatch):
    from nysketch.basis import landmarks

    seen = []
    about = landmarks._describe_scores
    monkeypatch.setattr(landmarks, "_describe_scores", lambda *given: seen.append(given) or about(*given))
    rows = uneven(1500)
    choice = choose("leverage", rows, kernel, m, seed=3)
    (ridge, scores), report = seen[0], choice.report
    exact = exact_scores(kernel(rows, rows), report["lambda"])
    ratio = scores / exact
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.85
    assert report["lambda"] == pytest.approx(ridge / 1500)
    assert report["effective_dimension"] == pytest.approx(exact.sum(), rel=0.25)
    assert 0.35 * m < report["effective_dimension"] < m
    assert report["scores"]["min"] <= report["scores"]["median"] <= report["scores"]["max"] <= 1
    assert len(choice.rows) == m


def test_leverage_prefers_rows_that_are_alone():
    rows = np.vstack([0.1 * normal(990, 2), 5 + normal(10, 2)])
    picked = np.mean(
        [(choose("leverage", rows, Gauss(), 20, seed=s).indices >= 990).sum() for s in range(20)]
    )
    assert picked > 5  # uniform: 0.2


def test_rows_where_the_kernel_is_zero_have_no_leverage():
    rows, kernel, _ = TABLES["zero rows"]
    choice = choose("leverage", rows, kernel, 80, seed=0)
    assert sorted(choice.indices) == list(range(50, 100))


# Pivots


def pivots_one_by_one(K, m, pick):
    """Pivoted Cholesky on the whole matrix; `pick` chooses by the residual diagonal."""
    K, pivots = K.copy(), []
    for _ in range(m):
        pivots.append(pick(np.maximum(np.diag(K), 0)))
        K -= np.outer(K[pivots[-1]], K[pivots[-1]]) / K[pivots[-1], pivots[-1]]
        K[pivots[-1]] = K[:, pivots[-1]] = 0
    return pivots, np.trace(K)


@pytest.mark.parametrize("kernel", [Gauss(0.5), Gauss(2.0), Dot(6, 1.0)])
def test_greedy_takes_the_largest_residual_every_time(kernel):
    rows = normal(700, 3)
    K = kernel(rows, rows)
    choice = choose("greedy", rows, kernel, 30, seed=0)
    expected, left = pivots_one_by_one(K, 30, lambda residuals: int(np.argmax(residuals)))
    assert choice.indices.tolist() == expected
    assert choice.report["residual_trace"] == pytest.approx(left / np.trace(K), abs=1e-12)
    assert np.array_equal(choose("greedy", rows, kernel, 11, seed=0).indices, expected[:11])


def test_greedy_breaks_ties_by_the_lowest_index():
    rows = np.arange(300.0)[::-1, None] * 100  # so far apart that all residuals stay 1
    assert choose("greedy", rows, Gauss(), 250, seed=0).indices.tolist() == list(range(250))


def test_random_pivots_have_the_law_of_those_drawn_one_by_one(unlimited):
    rows = np.array([[0.0], [0.3], [1.0], [1.2], [3.0], [3.1], [3.2]])
    kernel, m, draws = Gauss(), 3, 3000
    K = kernel(rows, rows)

    def code(pivots):
        return int(np.dot(pivots, [49, 7, 1]))

    blocked = [code(choose("rpcholesky", rows, kernel, m, seed=s).indices) for s in range(draws)]
    random = np.random.default_rng(0)
    naive = [
        code(pivots_one_by_one(K, m, lambda r: int(random.choice(7, p=r / r.sum())))[0]) for _ in range(draws)
    ]
    a, b = np.bincount(blocked, minlength=343), np.bincount(naive, minlength=343)
    often = a + b >= 20
    a, b = np.append(a[often], a[~often].sum()), np.append(b[often], b[~often].sum())
    chi2 = ((a - b) ** 2 / np.maximum(a + b, 1)).sum()
    dof = len(a) - 1
    assert dof > 50
    assert abs(chi2 - dof) < 4 * np.sqrt(2 * dof)


@pytest.mark.parametrize("sampling", ["greedy", "rpcholesky"])
def test_the_residual_trace_is_that_of_the_projection(sampling):
    rows, kernel = uneven(), Gauss(2.0)
    choice = choose(sampling, rows, kernel, 300, seed=0)
    K, C = kernel(rows, rows), kernel(rows, choice.rows)
    values, vectors = np.linalg.eigh(kernel(choice.rows, choice.rows))
    explained = ((C @ vectors) ** 2 / values).sum()
    assert choice.report["residual_trace"] == pytest.approx(1 - explained / np.trace(K), rel=1e-3)


def test_random_pivots_do_not_depend_on_the_block(monkeypatch):
    rows, kernel = uneven(), Gauss(2.0)
    left = {}
    for block in (1, 16, 128):
        monkeypatch.setattr("nysketch.basis.landmarks._BLOCK", block)
        runs = [choose("rpcholesky", rows, kernel, 60, seed=s).report["residual_trace"] for s in range(20)]
        left[block] = (np.mean(runs), np.std(runs) / np.sqrt(20))
    for block in (16, 128):
        gap, error = left[block][0] - left[1][0], np.hypot(left[block][1], left[1][1])
        assert abs(gap) < 4 * error


def curve(rows, seed):
    """95 % of the rows on a thin closed curve, the rest around it: uniform landmarks waste most of theirs."""
    random = np.random.default_rng(seed)
    angles = np.outer(random.uniform(0, 2 * np.pi, rows), [1, 2])
    made = np.hstack([np.cos(angles), np.sin(angles)]) @ (0.5 * random.standard_normal((4, 5)))
    made += 0.01 * random.standard_normal((rows, 5))
    off = random.random(rows) < 0.05
    made[off] = 2 * random.standard_normal((int(off.sum()), 5))
    return made


def mean_residual(sampling, m, pilot, others, kernel, seed):
    Z = choose(sampling, pilot, kernel, m, seed=seed).rows
    eigenvalues, vectors = np.linalg.eigh(kernel(Z, Z))
    kept = eigenvalues > 1e-8 * eigenvalues[-1]
    features = kernel(others, Z) @ vectors[:, kept] / np.sqrt(eigenvalues[kept])
    return np.sqrt(np.maximum(1 - (features**2).sum(axis=1), 0)).mean()


@pytest.mark.parametrize("sampling", ["leverage", "rpcholesky", "kmeans++"])
@pytest.mark.parametrize("seed", range(3))
def test_half_the_landmarks_do_where_density_is_strongly_uneven(sampling, seed):
    rows = curve(8000, seed)
    kernel = Gauss(np.median(cdist(rows[:500], rows[500:1000])))
    split = rows[:6000], rows[6000:], kernel, seed
    assert mean_residual(sampling, 250, *split) < mean_residual("uniform", 500, *split)
