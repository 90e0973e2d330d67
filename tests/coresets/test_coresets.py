"""Coresets: means that are exactly those of all rows, from data in any shape and from sketches alone."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch.basis.options import BasisOptions
from nysketch.coresets.coreset import RowDistribution
from nysketch.coresets.files import Naming, as_table, coreset_of_sketches_to_file, coreset_to_file
from nysketch.coresets.from_data import CoresetOptions, basis_of
from nysketch.coresets.from_sketch import coreset_of_sketch
from nysketch.errors import InputError, UsageError
from nysketch.models.mixture import MixtureModel
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from tests import naive


def clusters(rows, d=3, seed=0):
    random = np.random.default_rng(seed)
    centres = 3 * random.normal(size=(5, d))
    return centres[random.integers(5, size=rows)] + 0.7 * random.normal(size=(rows, d))


def require_exact(found, rows, weights=None, most=None):
    """The promise, computed afresh in float64 by the definitions: means, weights, and rows that are real."""
    weights = np.ones(len(rows)) if weights is None else weights
    values = found.basis.values(rows)
    means = found.functions.of(weights @ values / weights.sum())
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - means).max() < 1e-10 and found.mismatch < 1e-10
    assert (found.weights > 0).all() and abs(found.weights.sum() - 1) < 1e-12
    assert len(found) <= (len(found.functions) + 1 if most is None else most)
    assert len(set(found.numbers.tolist())) == len(found)
    if not found.of_landmarks:
        assert np.array_equal(np.asarray(rows)[found.numbers], found.points)
        assert (np.diff(found.numbers) > 0).all()


@pytest.mark.parametrize("method", ["mercer", "nystrom"])
@pytest.mark.parametrize("rows", [1, 5, 21, 22, 500, 30_000])
def test_means_are_those_of_all_rows(rows, method):
    X = clusters(rows)
    found = nysketch.coreset(X, 20, landmarks=min(100, rows), method=method)
    require_exact(found, X)
    assert found.of_rows == rows and found.functions.method == method
    assert len(found) == min(rows, len(found.functions) + 1)


def test_few_rows_stand_for_themselves():
    X = clusters(15)
    found = nysketch.coreset(X, 20, landmarks=15)
    assert np.array_equal(found.numbers, np.arange(15)) and np.allclose(found.weights, 1 / 15)
    assert found.distance.mmd < 1e-6


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file with small row groups, and its rows."""
    X = clusters(20_000, seed=3)
    path = tmp_path_factory.mktemp("coreset") / "x.parquet"
    random = np.random.default_rng(4)
    table = pa.table(
        {f"x{i}": column for i, column in enumerate(X.T)}
        | {"name": [f"row {i}" for i in range(len(X))], "w": random.exponential(size=len(X))}
    )
    pq.write_table(table, path, row_group_size=1500)
    return path, table, X


COLUMNS = ["x0", "x1", "x2"]


def test_neither_threads_nor_batches_show(written):
    path, _, X = written
    basis = nysketch.Basis.fit(path, columns=COLUMNS, landmarks=80)
    found = [nysketch.coreset(path, 30, basis=basis, threads=threads) for threads in (1, 2, 5)]
    for other in found:
        require_exact(other, X)
        assert np.array_equal(other.numbers, found[0].numbers)
        assert np.array_equal(other.weights, found[0].weights)
        assert other.describe() == found[0].describe()


@pytest.mark.parametrize("row_group", [7, 300, 20_000])
def test_fragments_of_any_size_give_the_same_guarantees(written, tmp_path, row_group):
    _, table, X = written
    pq.write_table(table.slice(0, 3000), tmp_path / "y.parquet", row_group_size=row_group)
    found = nysketch.coreset(tmp_path / "y.parquet", 30, columns=COLUMNS, landmarks=80)
    require_exact(found, X[:3000])


def test_blocks_of_any_size_give_the_same_guarantees(written, monkeypatch):
    path, _, X = written
    basis = nysketch.Basis.fit(path, columns=COLUMNS, landmarks=80)
    for rows in (100, 1000, 10**6):
        monkeypatch.setattr("nysketch.coresets.fragments.block_rows_of", lambda functions, d, rows=rows: rows)
        require_exact(nysketch.coreset(path, 30, basis=basis), X)


def test_rows_with_weights(written):
    path, table, X = written
    w = table["w"].to_numpy()
    found = nysketch.coreset(path, 30, columns=COLUMNS, weights="w", landmarks=80)
    require_exact(found, X, w)
    heavy = nysketch.coreset(table.append_column("v", pa.array((w > 1).astype(float))), 30, columns=COLUMNS,
                             weights="v", landmarks=80)  # fmt: skip
    require_exact(heavy, X, (w > 1).astype(float))
    assert (w[heavy.numbers] > 1).all()


def test_weights_that_are_all_0(written):
    _, table, _ = written
    nothing = table.append_column("v", pa.array(np.zeros(len(table))))
    with pytest.raises(InputError, match="all weights in column 'v' are 0"):
        nysketch.coreset(nothing, 5, columns=COLUMNS, weights="v", landmarks=20)


def test_columns_that_pass_through_belong_to_their_rows(written):
    path, table, X = written
    found = nysketch.coreset(path, 30, columns=COLUMNS, keep=["name", "w"], landmarks=80)
    require_exact(found, X)
    assert found.kept["name"].to_pylist() == [f"row {i}" for i in found.numbers]
    made = as_table(found)
    assert made.column_names == ["row", "weight", "x0", "x1", "x2", "name", "w"]
    assert made["w"].to_pylist() == table["w"].take(found.numbers).to_pylist()
    assert made["x1"].to_pylist() == X[found.numbers, 1].tolist()
    assert json.loads(made.schema.metadata[b"nysketch"])["mmd"] == found.distance.mmd


def test_a_stream_is_read_once(written):
    path, table, X = written
    basis = nysketch.Basis.fit(path, columns=COLUMNS, landmarks=80)
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=999))
    found = nysketch.coreset(stream, 30, basis=basis, keep=["name"])
    require_exact(found, X)
    assert found.functions.method == "nystrom"  # nothing else is known
    assert found.kept["name"].to_pylist() == [f"row {i}" for i in found.numbers]
    again = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=123))
    other = nysketch.coreset(again, 30, basis=basis)
    assert np.array_equal(found.numbers, other.numbers) and np.array_equal(found.weights, other.weights)


def test_rows_with_nulls_are_dropped_and_counted():
    X = clusters(2000)
    holes = X.copy()
    holes[::7, 1] = np.nan
    table = pa.table({f"x{i}": pa.array(column, from_pandas=True) for i, column in enumerate(holes.T)})
    with pytest.raises(InputError, match="286 nulls"):
        nysketch.coreset(table, 10, landmarks=30, nulls="error")
    found = nysketch.coreset(table, 10, landmarks=30, nulls="drop")
    valid = np.isfinite(holes).all(axis=1)
    assert found.dropped_rows == 286 and found.of_rows == valid.sum() and valid[found.numbers].all()
    values = found.basis.values(X[valid])
    means = found.functions.of(values.mean(axis=0))
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - means).max() < 1e-10


@pytest.mark.slow
@given(
    rows=st.integers(1, 80),
    kinds=st.integers(1, 80),
    d=st.integers(1, 3),
    s=st.integers(1, 30),
    size=st.floats(-5, 5),
    seed=st.integers(0, 100),
)
def test_any_table(rows, kinds, d, s, size, seed):
    """Duplicates, constants, more functions than rows, numbers large and small."""
    random = np.random.default_rng(seed)
    X = (10**size * random.normal(size=(kinds, d)))[random.integers(kinds, size=rows)]
    found = nysketch.coreset(X, s, landmarks=10, threads=1)
    require_exact(found, X)


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "laplacian-l1", "matern32", "cosine"])
def test_other_kernels(kernel):
    X = clusters(3000)
    found = nysketch.coreset(X, 8, landmarks=40, kernel=kernel)
    values = found.basis.values(X)
    size = np.abs(found.functions.of(values)).max()
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - found.functions.of(values.mean(axis=0))).max() < 1e-11 * size
    assert len(found) <= len(found.functions) + 1
    if kernel == "linear":  # three directions, and the means of all columns are exact
        assert len(found) == 4 and found.notes
        assert np.allclose(found.weights @ found.points, X.mean(axis=0), atol=1e-10)


def test_a_product_over_groups_and_a_column_of_lists():
    X = clusters(2000, d=4)
    table = pa.table({"a": X[:, 0], "b": pa.FixedSizeListArray.from_arrays(X[:, 1:].ravel(), 3)})
    found = nysketch.coreset(table, 15, landmarks=60, groups={"p": ["a"], "q": ["b"]})
    require_exact(found, X)
    made = as_table(found)
    assert made["b"].to_pylist() == X[found.numbers, 1:].tolist()


def test_strings():
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcd"), 8)) for _ in range(400)]
    found = nysketch.coreset(pa.table({"t": words}), 10, columns=["t"], kernel="spectrum", landmarks=40)
    assert len(found) == 11 and [words[i] for i in found.numbers] == found.points.tolist()
    values = found.basis.values(np.array(words, object))
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - found.functions.of(values.mean(axis=0))).max() < 1e-10
    assert as_table(found)["t"].to_pylist() == found.points.tolist()


def test_fragments_without_rows(tmp_path):
    X = clusters(300)
    table = pa.table({f"x{i}": column for i, column in enumerate(X.T)})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for part in (table[:0], table[:100], table[:0], table[100:]):
            writer.write_table(part)
    pq.write_table(table[:0], tmp_path / "b.parquet")
    found = nysketch.coreset([tmp_path / "a.parquet", tmp_path / "b.parquet"], 10, landmarks=40)
    require_exact(found, X)
    with pytest.raises(InputError, match="no rows"):
        nysketch.coreset(tmp_path / "b.parquet", 10, landmarks=40)


def test_outliers_that_no_digits_are_left_for_are_told():
    X = clusters(2000)
    X[7], X[8] = 1e12, -1e12
    found = nysketch.coreset(X, 10, landmarks=50, kernel="polynomial", degree=3, scale="none")
    assert found.mismatch < 1e-10 or "agree only to" in " ".join(found.notes)
    require_exact(nysketch.coreset(X[9:], 10, landmarks=50), X[9:])


# ---- how good it is --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
def test_the_distance_is_what_all_pairs_of_rows_say(d):
    X = clusters(3000, d=d)
    found = nysketch.coreset(X, 30, landmarks=200, bandwidth="0.5*median")
    scaled = found.basis.transform(X)
    exact = naive.mmd(found.basis.kernel, found.basis.transform(found.points), found.weights, scaled)
    assert abs(found.distance.mmd - exact) < max(4 * found.distance.standard_error, 0.02 * exact)
    random = np.random.default_rng(1)
    draws = [
        naive.mmd(found.basis.kernel, scaled[random.choice(3000, len(found))],
                  np.full(len(found), 1 / len(found)), scaled) ** 2
        for _ in range(20)
    ]  # fmt: skip
    assert abs(np.mean(draws) - found.distance.random_mmd**2) < 4 * np.std(draws) / np.sqrt(20)


def test_tables_that_are_kept_whole_are_at_no_distance():
    X, other = clusters(6), nysketch.Basis.fit(clusters(500, seed=9), landmarks=40, bandwidth="0.2*median")
    for rows in (1, 2, 6):
        found = nysketch.coreset(X[:rows], 20, basis=other)
        assert len(found) == rows and found.distance.mmd < 1e-6


def test_random_rows_are_drawn_by_their_weights():
    """No two distributions are farther apart than √2, whatever a few heavy rows weigh."""
    X = clusters(3000, d=2)
    random = np.random.default_rng(0)
    for weights in (np.where(np.arange(3000) == 5, 1e9, 1.0), random.lognormal(sigma=3, size=3000)):
        table = pa.table({"x": X[:, 0], "y": X[:, 1], "w": weights})
        found = nysketch.coreset(table, 20, landmarks=100, weights="w")
        kernel, scaled = found.basis.kernel, found.basis.transform(X)
        shares = weights / weights.sum()
        spread = 1 - shares @ kernel(scaled, scaled) @ shares
        assert found.distance.random_mmd == pytest.approx(
            np.sqrt(max(spread, 0) / len(found)), rel=0.1, abs=1e-3
        )


def test_weights_too_uneven_for_a_sample_to_tell():
    X = clusters(5000, d=2)
    weights = 10 ** np.random.default_rng(0).uniform(-12, 12, 5000)
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "w": weights})
    found = nysketch.coreset(table, 20, landmarks=100, weights="w")
    assert found.distance.standard_error is None and "without sampled rows" in found.notes[-1]
    require_exact(found, X, weights)


@pytest.mark.slow
def test_the_standard_error_is_right_for_data_from_elsewhere():
    """Landmarks that see little: what is outside of their span, and its error, against all pairs of rows."""
    basis = nysketch.Basis.fit(clusters(2000, d=4), landmarks=30, scale="none", bandwidth=2.0)
    scores = []
    for seed in range(12):
        X = clusters(6000, d=4, seed=0) + 2 + 0.1 * np.random.default_rng(seed).normal(size=(6000, 4))
        found = nysketch.coreset(X, 12, basis=basis)
        exact = naive.mmd(basis.kernel, basis.transform(found.points), found.weights, basis.transform(X))
        scores.append((found.distance.mmd**2 - exact**2) / (2 * exact * found.distance.standard_error))
    assert np.abs(np.mean(scores)) < 1.2 and 0.2 < np.std(scores) < 2.5


@pytest.mark.slow
def test_rows_that_a_coreset_is_chosen_by_do_not_judge_it():
    """With many functions of many columns, the MMD was five of its standard errors too small."""
    scores = []
    for seed in range(3):
        X = clusters(6000, d=50, seed=seed)
        found = nysketch.coreset(X, 150, landmarks=300, seed=seed)
        exact = naive.mmd(
            found.basis.kernel, found.basis.transform(found.points), found.weights, found.basis.transform(X)
        )
        scores.append((found.distance.mmd**2 - exact**2) / (2 * exact * found.distance.standard_error))
    assert np.abs(np.mean(scores)) < 2 and np.abs(scores).max() < 4


def test_few_landmarks_do_not_make_a_coreset_look_better_than_it_is():
    """What is outside the span of ten landmarks is nearly everything: the sample knows."""
    X = clusters(2000, d=10)
    found = nysketch.coreset(X, 9, landmarks=10, bandwidth="0.3*median")
    kernel = found.basis.kernel
    exact = naive.mmd(kernel, found.basis.transform(found.points), found.weights, found.basis.transform(X))
    assert abs(found.distance.mmd - exact) < 4 * found.distance.standard_error + 0.01 * exact


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("of_sketch", [False, True])
def test_64_rows_are_five_times_nearer_than_random_ones(d, of_sketch):
    X = clusters(50_000, d=d)
    made = nysketch.sketch(X, landmarks=300)
    found = coreset_of_sketch(made, 63) if of_sketch else nysketch.coreset(X, 63, basis=made)
    assert found.distance.gain > 5  # seen: 9 and more
    assert found.equivalent_random_rows > 25 * len(found)


def test_the_error_does_not_rise_with_the_functions():
    """A kernel whose eigenvalues fall fast: there are fewer functions than wanted, and it is said."""
    X = clusters(20_000, d=2)
    basis = nysketch.Basis.fit(X, landmarks=300, bandwidth="2*median")
    found = [nysketch.coreset(X, s, basis=basis) for s in (4, 8, 16, 32, 64, 128)]
    errors = [each.distance.mmd for each in found]
    assert all(after < 1.5 * before for before, after in itertools.pairwise(errors))
    assert errors[-1] < 1e-2 * errors[0]
    assert len(found[-1].functions) < 128 and "there are" in found[-1].notes[0]
    for each in found:
        require_exact(each, X)


def test_landmarks_from_elsewhere_are_what_mercer_is_for():
    """Landmarks that are mostly where no rows are: functions that see these are of no use."""
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 2))
    elsewhere = np.concatenate([random.normal(size=(30, 2)), 4 + 0.7 * random.normal(size=(270, 2))])
    basis = nysketch.Basis.fit(elsewhere, landmarks=300, sampling="uniform", scale="none", bandwidth=1.0)
    mercer, nystrom = (
        nysketch.coreset(X, 25, basis=basis, method=method) for method in ("mercer", "nystrom")
    )
    assert mercer.distance.mmd < 0.5 * nystrom.distance.mmd  # seen: 0.22


@pytest.mark.slow
def test_a_known_measure():
    """Second moments in closed form are those of many rows; and what they lead to is as good."""
    random = np.random.default_rng(0)
    means, spreads = np.array([[0.0, 0.0], [3.0, 1.0]]), np.array([[1.0, 0.5], [0.3, 2.0]])
    which = random.integers(2, size=200_000)
    X = means[which] + random.normal(size=(200_000, 2)) * np.sqrt(spreads[which])
    for bandwidth in ("median", "0.5*median,median"):
        basis = nysketch.Basis.fit(X[:5000], landmarks=50, bandwidth=bandwidth)
        for kind, covariances in (("diag", spreads), ("full", np.array([np.diag(v) for v in spreads]))):
            model = MixtureModel(
                columns=basis.columns, scale=basis.scale, weights=np.full(2, 0.5), means=means,
                covariances=covariances, covariance_type=kind,
            )  # fmt: skip
            known = RowDistribution.of_measure(model, basis).second_moments
            values = basis.values(X)
            sampled = values.T @ values / len(X)
            assert np.abs(known - sampled).max() < 5 / np.sqrt(len(X))
        by_model, by_matrix = (nysketch.coreset(X, 20, basis=basis, measure=m) for m in (model, known))
        assert np.array_equal(by_model.numbers, by_matrix.numbers)
        assert by_model.learned_from == "second moments of a known distribution"
        require_exact(by_model, X)
    with pytest.raises(UsageError, match="50 × 50 matrix"):
        nysketch.coreset(X, 20, basis=basis, measure=np.ones((3, 3)))
    laplacian = nysketch.Basis.fit(X[:1000], landmarks=20, kernel="laplacian-l1")
    with pytest.raises(UsageError, match="only those of Gaussian kernels"):
        nysketch.coreset(X[:1000], 5, basis=laplacian, measure=model)


def test_second_moments_of_a_sketch_tell_the_functions():
    """k_{s,Y}^Z by its definition: the eigenfunctions of the Nyström kernel over all rows."""
    X = clusters(5000)
    made = nysketch.sketch(X, landmarks=60, second_moments=True, sampling="uniform")
    for found in (nysketch.coreset(X, 12, basis=made), nysketch.coreset(made, 12)):
        assert found.learned_from == "second moments of 5,000 rows" and found.functions.method == "mercer"
        features = made.basis.to_features(made.basis.values(X))
        strengths, directions = np.linalg.eigh(features.T @ features / len(X))
        assert np.allclose(found.functions.strengths, strengths[::-1][:12], rtol=1e-9)
        psi = found.functions.of(made.basis.values(X))
        slow = features @ directions[:, ::-1][:, :12]
        assert np.allclose(np.abs((psi * slow).sum(axis=0)), (slow**2).sum(axis=0), rtol=1e-6)
        # Orthonormal in the kernel's space, and orthogonal over the rows.
        assert np.allclose(
            found.functions.matrix.T @ made.basis.gram() @ found.functions.matrix, np.eye(12), atol=1e-7
        )
        assert np.allclose(psi.T @ psi / len(X), np.diag(strengths[::-1][:12]), atol=1e-10)


# ---- from sketches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"cells": False}, {"sample_rows": 0}, {"precision": "float64"}])
def test_landmarks_with_weights_have_the_means_of_the_data(options):
    X = clusters(20_000)
    made = nysketch.sketch(X, landmarks=150, **options)
    found = nysketch.coreset(made, 25)
    assert found.of_landmarks and len(found) <= 26
    assert np.array_equal(found.points, made.basis.landmarks[found.numbers])
    means = found.functions.of(made.mean_kernel())
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - means).max() < 1e-10
    # Kernel sums in float32 are good to 1e-7.
    exact = found.functions.of(found.basis.values(X).mean(axis=0))
    assert np.abs(mine - exact).max() < (1e-10 if options.get("precision") else 1e-6)
    assert (found.weights > 0).all() and abs(found.weights.sum() - 1) < 1e-12
    assert found.functions.method == ("nystrom" if "sample_rows" in options else "mercer")


def test_merged_sketches_make_the_coreset_of_both():
    X, Y = clusters(3000, seed=1), clusters(9000, seed=2)
    basis = nysketch.Basis.fit(np.concatenate([X, Y]), landmarks=100)
    both = nysketch.sketch(X, basis=basis) + nysketch.sketch(Y, basis=basis)
    found = nysketch.coreset(both, 20)
    everything = found.functions.of(basis.values(np.concatenate([X, Y])).mean(axis=0))
    mine = found.weights @ found.functions.of(basis.values(found.points))
    assert np.abs(mine - everything).max() < 1e-6


def test_weights_of_rows_reach_the_landmarks():
    X = clusters(4000)
    w = np.exp(X[:, 0])
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "w": w})
    made = nysketch.sketch(table, landmarks=80, weights="w")
    found = nysketch.coreset(made, 10)
    means = found.functions.of(w @ found.basis.values(X[:, :2]) / w.sum())
    mine = found.weights @ found.functions.of(found.basis.values(found.points))
    assert np.abs(mine - means).max() < 1e-5


def test_means_that_no_weights_of_landmarks_have_are_said_so():
    """Landmarks that leave out a side of the data: their convex hull does not hold the means."""
    X = clusters(3000)
    left = X[X[:, 0] < np.quantile(X[:, 0], 0.1)]
    basis = nysketch.Basis.fit(left, landmarks=40, scale="none", bandwidth=5.0)
    found = nysketch.coreset(nysketch.sketch(X, basis=basis), 10)
    assert len(found.functions) < 10 and "no positive weights" in found.notes[0]
    assert "random rows would be closer" in found.notes[-1]
    assert (found.weights > 0).all() and abs(found.weights.sum() - 1) < 1e-12
    means = found.functions.of(basis.values(X).mean(axis=0))
    mine = found.weights @ found.functions.of(basis.values(found.points))
    assert np.abs(mine - means).max() < 1e-5  # sums of float32 values


def test_more_functions_than_landmarks_can_have_the_means_of_do_no_harm():
    made = nysketch.sketch(np.random.default_rng(0).normal(size=(3000, 2)), landmarks=100, cells=False)
    found = [nysketch.coreset(made, s) for s in (10, 20, 30, 40, 50, 60)]
    errors = [each.distance.mmd for each in found]
    assert all(after < 1.5 * before for before, after in itertools.pairwise(errors))
    assert errors[-1] < 0.1 * errors[0] and len(found[-1].functions) < 50 < len(found[-1])


def test_fourier_features_have_no_landmarks():
    X = clusters(500)
    with pytest.raises(UsageError, match="a coreset needs landmarks"):
        nysketch.coreset(nysketch.sketch(X, landmarks=20, features="fourier"), 5)
    with pytest.raises(UsageError, match="a coreset needs landmarks"):
        nysketch.coreset(X, 5, landmarks=20, features="fourier")


# ---- what is refused -------------------------------------------------------------------------------


def test_what_cannot_be():
    X = clusters(100)
    made = nysketch.sketch(X, landmarks=10, sample_rows=0)
    with pytest.raises(UsageError, match="at least 1, not 0"):
        nysketch.coreset(X, 0, landmarks=10)
    with pytest.raises(UsageError, match="one of mercer, nystrom"):
        nysketch.coreset(X, 5, landmarks=10, method="best")
    with pytest.raises(UsageError, match='`method="mercer"` needs second moments or sampled rows'):
        nysketch.coreset(made, 5, method="mercer")
    with pytest.raises(UsageError, match="leave out their options"):
        nysketch.coreset(X, 5, basis=made, landmarks=10)
    with pytest.raises(UsageError, match="`threads` must be"):
        nysketch.coreset(X, 5, landmarks=10, threads=0)
    with pytest.raises(InputError, match="has no rows"):
        nysketch.coreset(made - made, 5)


def test_names_that_the_data_have_already():
    table = pa.table({"weight": np.arange(50.0) / 2, "row": np.arange(50.0) ** 2})
    found = nysketch.coreset(table, 5, landmarks=20)
    with pytest.raises(
        UsageError, match="already has a column 'row': choose another name with `row_as=NAME`"
    ):
        as_table(found)
    with pytest.raises(UsageError, match="already has a column 'weight'"):
        as_table(found, Naming(row="i"))
    with pytest.raises(UsageError, match="cannot both be called"):
        as_table(found, Naming(row="i", weight="i"))
    assert as_table(found, Naming(row="i", weight="w")).column_names == ["i", "w", "weight", "row"]


def test_the_file_is_the_coreset_that_the_library_makes(written, tmp_path):
    path, *_ = written
    options = CoresetOptions(5, "mercer", seed=3)
    output, naming = tmp_path / "c.parquet", Naming("share", "number")
    for basis, again in (
        (BasisOptions(m=20), {"landmarks": 20}),
        (nysketch.sketch(path, landmarks=20), None),
    ):
        source = open_source(path, ReadOptions().for_basis(basis_of(basis)))
        saved = coreset_to_file(source, output, basis, options, naming=naming, overwrite=True)
        found = nysketch.coreset(path, 5, method="mercer", seed=3, **(again or {"basis": basis}))
        assert pq.read_table(output).equals(as_table(found, naming), check_metadata=True)
        assert saved.describe() == found.describe()
    with pytest.raises(UsageError, match="is an input"):
        coreset_to_file(source, path, basis, options, naming=naming, overwrite=True)
    with pytest.raises(UsageError, match="is an input"):
        coreset_to_file(source, output, basis, options, naming=naming, inputs=[output], overwrite=True)


def test_the_file_of_sketches_is_the_coreset_of_their_sum(tmp_path):
    basis = nysketch.Basis.fit(clusters(500), landmarks=20)
    parts = [nysketch.sketch(clusters(500, seed=seed), basis=basis) for seed in (1, 2)]
    paths = [tmp_path / f"{i}.nysk" for i in range(2)]
    for part, path in zip(parts, paths, strict=True):
        nysketch.save(part, path)
    output = tmp_path / "c.parquet"
    coreset_of_sketches_to_file(paths, output, CoresetOptions(5), naming=Naming())
    found = coreset_of_sketch(nysketch.load(paths[0]) + nysketch.load(paths[1]), 5)
    assert pq.read_table(output).equals(as_table(found, Naming()), check_metadata=True)


def test_rows_without_weight_are_counted_however_many_come_first(tmp_path):
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    weights = np.where(np.arange(3000) < 2900, 0.0, 1.0)
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1], "w": weights})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10)  # more than are held one by one
    made = nysketch.coreset(str(tmp_path / "t.parquet"), 5, weights="w", landmarks=20)
    assert made.of_rows == 3000
    assert set(made.numbers.tolist()) <= set(range(2900, 3000))
