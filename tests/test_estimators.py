"""Estimators: scikit-learn's own checks, and agreement with its k-means and mixtures."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nysketch
from nysketch import SketchedGaussianMixture, SketchedKMeans
from nysketch.errors import SchemaError, UsageError
from nysketch.estimators import _WeightedRows
from nysketch.models.apply import assign
from nysketch.sources.open import open_source

TYPES = ("spherical", "diag", "full")
BOTH = (SketchedKMeans, SketchedGaussianMixture)


def expected_failures(estimator):
    if estimator.get_params().get("n_components") == 1:
        return {}  # there is one optimum
    # As for scikit-learn's KMeans: other draws may end in another local optimum. That weights do what copies
    # of rows do is tested below, on clusters that can be told apart.
    return {
        "check_sample_weight_equivalence_on_dense_data": "15 rows at random in 30 dimensions have no clusters"
    }


@pytest.mark.slow
@parametrize_with_checks(
    [
        SketchedKMeans(n_clusters=3),
        SketchedGaussianMixture(),
        SketchedGaussianMixture(2, covariance_type="full"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def blobs(n=6000, d=3, k=4, seed=0, spread=1.0):
    rows, labels = make_blobs(n, d, centers=k, random_state=seed, cluster_std=spread)
    return rows, labels


def as_table(rows, **more):
    return pa.table({f"c{j}": column for j, column in enumerate(rows.T)} | more)


# ---- how good they are -----------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k", "offset"), [(2, 3, 0.0), (5, 8, 0.0), (5, 8, 1e6)])
def test_clusters_are_as_good_as_those_of_all_rows(d, k, offset):
    X = offset + blobs(d=d, k=k, spread=2.0)[0]
    ours = SketchedKMeans(k, landmarks=500, random_state=0).fit(X)
    best = KMeans(k, n_init=5, random_state=0).fit(X - offset).inertia_
    assert ours.inertia_ < 1.01 * best
    assert ours.inertia_ <= ours.inertia_bound_ < 1.1 * best
    assert ours.cluster_centers_.shape == (k, d)


def test_clusters_are_in_the_units_of_x():
    random = np.random.default_rng(0)
    # Split by the wide column, though the narrow one has two clumps: so does k-means.
    X = np.column_stack([random.uniform(-100, 100, 2000), random.choice([-1.0, 1.0], 2000)])
    as_given = SketchedKMeans(2, landmarks=100, random_state=0).fit(X)
    assert np.allclose(np.abs(as_given.cluster_centers_[:, 0]), 50, atol=5)
    scaled = SketchedKMeans(2, landmarks=100, scale="standard", random_state=0).fit(X)
    assert np.allclose(np.abs(scaled.cluster_centers_[:, 1]), 1, atol=0.05)
    for estimator in (as_given, scaled):
        distances = estimator.transform(X)
        assert np.array_equal(distances.argmin(axis=1), estimator.labels_)
        assert np.isclose(estimator.score(X), -(distances.min(axis=1) ** 2).sum())


@pytest.mark.slow
@pytest.mark.parametrize("covariance", TYPES)
@pytest.mark.parametrize("units", [(1, 1, 1), (1e3, 1, 1e-3)])
def test_mixtures_are_as_likely_as_those_of_all_rows(covariance, units):
    X = blobs(spread=1.5)[0] * units
    options = {"covariance_type": covariance, "random_state": 0}
    ours = SketchedGaussianMixture(4, landmarks=500, **options).fit(X)
    theirs = GaussianMixture(4, reg_covar=1e-12, n_init=3, **options).fit(X)
    assert ours.score(X) > theirs.score(X) - 0.02
    for name in ("weights_", "means_", "covariances_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
    assert (ours.lower_bound_ is None) == (covariance == "full")
    assert ours.lower_bound_ is None or ours.lower_bound_ <= ours.score(X)


@pytest.mark.parametrize("covariance", TYPES)
def test_a_mixture_says_what_scikit_learns_says(covariance):
    X, _ = blobs(600)
    ours = SketchedGaussianMixture(4, covariance_type=covariance, random_state=0).fit(X)
    theirs = GaussianMixture(4, covariance_type=covariance, random_state=0)
    theirs.weights_, theirs.means_, theirs.covariances_ = ours.weights_, ours.means_, ours.covariances_
    theirs.precisions_cholesky_ = {
        "spherical": lambda c: 1 / np.sqrt(c),
        "diag": lambda c: 1 / np.sqrt(c),
        "full": lambda c: np.linalg.inv(np.linalg.cholesky(c)).transpose(0, 2, 1),
    }[covariance](ours.covariances_)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X))
    assert np.allclose(ours.score_samples(X), theirs.score_samples(X))
    assert np.isclose(ours.score(X), theirs.score(X))
    assert np.isclose(ours.bic(X), theirs.bic(X))
    assert np.isclose(ours.aic(X), theirs.aic(X))


@pytest.mark.parametrize("covariance", TYPES)
def test_samples_come_from_the_mixture(covariance):
    X, _ = blobs(2000, k=2, spread=2.0)
    mixture = SketchedGaussianMixture(2, covariance_type=covariance, random_state=0).fit(X)
    rows, components = mixture.sample(40_000)
    assert rows.shape == (40_000, 3) and components.shape == (40_000,)
    assert np.allclose(np.bincount(components) / 40_000, mixture.weights_, atol=0.01)
    for j in range(2):
        drawn = rows[components == j]
        assert np.allclose(drawn.mean(axis=0), mixture.means_[j], atol=0.1)
        spread = np.cov(drawn.T)
        wanted = mixture.covariances_[j]
        wanted = wanted if covariance == "full" else np.diag(np.broadcast_to(wanted, 3))
        assert np.allclose(spread, wanted, atol=0.2)
    assert np.array_equal(mixture.sample(5)[0], mixture.sample(5)[0])
    with pytest.raises(ValueError, match="n_samples"):
        mixture.sample(0)


# ---- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [SketchedKMeans(3, random_state=0), SketchedGaussianMixture(3, covariance_type="full", random_state=0)],
)
def test_weights_do_what_copies_of_rows_do(estimator):
    X, _ = blobs(300, k=3)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = clone(estimator).fit(X, sample_weight=weights)
    copied = clone(estimator).fit(np.repeat(X, weights, axis=0))
    assert weighted.sketch_.total_weight == copied.sketch_.total_weight == weights.sum()
    assert weighted.sketch_.rows == np.count_nonzero(weights)
    assert np.array_equal(weighted.predict(X), copied.predict(X))
    if isinstance(estimator, SketchedKMeans):
        assert np.allclose(weighted.cluster_centers_, copied.cluster_centers_)
        assert np.isclose(weighted.inertia_, copied.inertia_)
        assert np.isclose(weighted.score(X, sample_weight=weights), -weighted.inertia_)
        assert len(weighted.labels_) == len(X)
    else:
        assert np.allclose(weighted.means_, copied.means_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_sketched_where_they_are(order, dtype):
    X = np.asarray(blobs(100)[0], dtype=dtype, order=order)
    weights = np.linspace(0.5, 2, len(X))
    source = _WeightedRows(X, None, weights, "w")
    read = [batch for fragment in source.fragments() for batch in source.read(fragment, 30)]
    assert all(np.shares_memory(column, X) for batch in read for column in batch.values)
    assert np.array_equal(np.concatenate([batch.weights for batch in read]), weights)


def test_weights_of_arrays_are_those_of_a_column():
    X, _ = blobs(500)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    ours = SketchedKMeans(4, landmarks=50, random_state=3).fit(X, sample_weight=weights).sketch_
    table = as_table(X, w=weights).rename_columns(["x0", "x1", "x2", "w"])
    theirs = nysketch.sketch(table, weights="w", landmarks=50, scale="none", seed=3)
    assert ours.basis == theirs.basis
    assert np.array_equal(ours.block_kernel_sums, theirs.block_kernel_sums)
    assert np.array_equal(ours.cells.sums.high, theirs.cells.sums.high)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0] * 29, "shape"), ([-1.0] * 30, "Negative"), ([0.0] * 30, "zero"), ([np.nan] * 30, "NaN")],
)
def test_weights_are_checked(weights, message):
    X, _ = blobs(30)
    with pytest.raises(ValueError, match=message):
        SketchedKMeans(2).fit(X, sample_weight=weights)


def test_all_batches_have_weights_or_none():
    X, _ = blobs(400)
    estimator = SketchedKMeans(2, random_state=0).partial_fit(X[:200], sample_weight=np.full(200, 2.0))
    assert estimator.partial_fit(X[200:]).sketch_.total_weight == 600
    estimator = SketchedKMeans(2, random_state=0).partial_fit(X[:200])
    with pytest.raises(ValueError, match="from the first batch on"):
        estimator.partial_fit(X[200:], sample_weight=np.ones(200))
    assert estimator.sketch_.rows == 200


# ---- batches ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("kind", BOTH)
def test_batches_end_where_one_fit_does(kind, is_sorted):
    X, labels = blobs()
    basis = nysketch.Basis.fit(X, landmarks=100, scale="none")
    if is_sorted:
        X = X[np.argsort(labels)]
    whole = kind(4, basis=basis, random_state=0).fit(X)
    batches = kind(4, basis=basis, random_state=0)
    for start in range(0, len(X), 1000):
        assert batches.partial_fit(X[start : start + 1000]) is batches
    assert batches.sketch_.rows == whole.sketch_.rows == len(X)
    assert np.allclose(batches.sketch_.kernel_sums, whole.sketch_.kernel_sums, rtol=1e-5)
    assert adjusted_rand_score(batches.predict(X), whole.predict(X)) > 0.99
    assert np.isclose(batches.score(X), whole.score(X), rtol=1e-3)
    if kind is SketchedKMeans:
        assert not hasattr(batches, "labels_")
        assert np.allclose(batches.cluster_centers_, whole.cluster_centers_, atol=0.02)


def test_the_first_batch_chooses_the_landmarks():
    X, _ = blobs()
    estimator = SketchedKMeans(4, landmarks=100, random_state=0).partial_fit(X[:1000])
    basis = estimator.sketch_.basis
    assert basis == SketchedKMeans(4, landmarks=100, random_state=0).fit(X[:1000]).sketch_.basis
    before = estimator.cluster_centers_
    estimator.partial_fit(X[1000:])
    assert estimator.sketch_.basis is basis or estimator.sketch_.basis == basis
    assert not np.array_equal(estimator.cluster_centers_, before)
    assert -estimator.score(X) < 1.01 * KMeans(4, n_init=3, random_state=0).fit(X).inertia_
    with pytest.raises(ValueError, match="2 features, but SketchedKMeans is expecting 3"):
        estimator.partial_fit(X[:, :2])


def test_batches_can_follow_a_fit_or_a_saved_sketch(tmp_path):
    X, _ = blobs()
    kept = {"blocks": 4, "sample_rows": 0, "spans": 7}
    sketch = nysketch.sketch(X[:3000], landmarks=100, scale="none", precision="float64", **kept)
    nysketch.save(sketch, tmp_path / "first.nysk")
    estimator = SketchedKMeans(4, random_state=0).fit_sketch(nysketch.load(tmp_path / "first.nysk"))
    estimator.partial_fit(X[3000:])
    assert estimator.sketch_.rows == len(X)
    assert len(estimator.sketch_.tally.sample) == 0
    assert estimator.sketch_.spans.capacity == 7
    fitted = SketchedKMeans(4, random_state=0, basis=sketch).fit(X[:3000])
    assert hasattr(fitted, "labels_")
    fitted.partial_fit(X[3000:])
    assert not hasattr(fitted, "labels_") and not hasattr(fitted, "inertia_")
    assert np.isclose(fitted.score(X), estimator.score(X), rtol=1e-3)


def test_sketches_of_estimators_add_up(tmp_path):
    X, _ = blobs()
    first = SketchedKMeans(4, landmarks=100, random_state=0).fit(X[:3000])
    second = SketchedKMeans(4, basis=first.sketch_, random_state=1).fit(X[3000:])
    both = first.sketch_ + second.sketch_
    nysketch.save(both, tmp_path / "both.nysk")
    merged = SketchedKMeans(4, random_state=0).fit_sketch(nysketch.load(tmp_path / "both.nysk"))
    assert -merged.score(X) < 1.01 * KMeans(4, n_init=3, random_state=0).fit(X).inertia_
    assert ((both - second.sketch_).kernel_sums == first.sketch_.kernel_sums).all()
    other_k = clone(merged).set_params(n_clusters=2).fit_sketch(both)
    assert other_k.cluster_centers_.shape == (2, 3)
    # A path serves as basis, too.
    again = SketchedKMeans(4, basis=tmp_path / "both.nysk").fit(X[:500])
    assert again.sketch_.basis == both.basis


# ---- files, tables, names --------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    X, _ = blobs(4000)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    for part in range(2):
        some = slice(2000 * part, 2000 * (part + 1))
        table = as_table(X[some], w=weights[some])
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=700)
        pacsv.write_csv(table.drop(["w"]), tmp_path / f"{part}.csv")
    return tmp_path, X, weights


@pytest.mark.parametrize("kind", BOTH)
def test_files_are_fitted_out_of_core(kind, files):
    folder, X, _ = files
    estimator = kind(4, landmarks=100, random_state=0).fit(str(folder / "*.csv"))
    assert estimator.sketch_.rows == len(X)
    assert estimator.n_features_in_ == 3
    assert estimator.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    assert not hasattr(estimator, "labels_")
    in_memory = kind(4, landmarks=100, random_state=0).fit(X)
    labels = estimator.predict(as_table(X))
    assert adjusted_rand_score(labels, in_memory.predict(X)) > 0.99
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(estimator.predict(X), labels)
    # What is said of files is said by assign.
    source = open_source(str(folder / "0.csv"), like=estimator.model_.columns)
    assigned = pa.concat_tables(assign(estimator.model_, source))["label"].to_numpy()
    assert np.array_equal(assigned, labels[:2000])


def test_the_weights_of_files_are_a_column(files):
    folder, X, weights = files
    paths = [folder / "0.parquet", folder / "1.parquet"]
    estimator = SketchedKMeans(4, landmarks=100, random_state=0).fit(paths, sample_weight="w")
    assert estimator.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    assert np.isclose(estimator.sketch_.total_weight, weights.sum())
    estimator.partial_fit(paths[0])
    assert np.isclose(estimator.sketch_.total_weight, weights.sum() + weights[:2000].sum())
    estimator.partial_fit(as_table(X), sample_weight=weights)
    assert np.isclose(estimator.sketch_.total_weight, 2 * weights.sum() + weights[:2000].sum())
    with pytest.raises(TypeError, match="must be the name of a column"):
        estimator.fit(paths, sample_weight=weights)
    with pytest.raises(ValueError, match="must be the same"):
        estimator.partial_fit(paths, sample_weight="c0")


def test_streams_can_follow(files):
    _, X, _ = files
    estimator = SketchedKMeans(4, landmarks=100, random_state=0)
    with pytest.raises(UsageError, match="only once"):
        estimator.fit(iter([X]))
    estimator.partial_fit(X[:2000]).partial_fit(iter([X[2000:3000], X[3000:]]))
    assert estimator.sketch_.rows == len(X)
    reader = as_table(X).to_reader()
    named = SketchedKMeans(4, landmarks=100, random_state=0).fit(as_table(X)).partial_fit(reader)
    assert named.sketch_.rows == 2 * len(X)


@pytest.mark.parametrize("kind", BOTH)
def test_what_needs_rows_in_memory_says_so(kind, files):
    folder, X, _ = files
    estimator = kind(2, landmarks=20).fit(X)
    for method in ("fit_predict", "predict", "score"):
        with pytest.raises(TypeError, match=r"nysketch\.assign\("):
            getattr(estimator, method)(str(folder / "0.csv"))
    assert estimator.sketch_.rows == len(X)  # nothing was read for nothing


def test_tables_bring_names():
    X, _ = blobs(500)
    table = as_table(X)
    estimator = SketchedKMeans(4, random_state=0).fit(table)
    assert estimator.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    assert [column.name for column in estimator.model_.columns] == ["c0", "c1", "c2"]
    assert np.array_equal(estimator.predict(table), estimator.labels_)
    assert np.array_equal(estimator.labels_, SketchedKMeans(4, random_state=0).fit_predict(X))
    assert estimator.get_feature_names_out().tolist() == [f"sketchedkmeans{j}" for j in range(4)]
    swapped = table.select(["c1", "c0", "c2"])
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(swapped)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.partial_fit(swapped)
    # A basis has names as well.
    with pytest.raises(ValueError, match="feature names should match"):
        SketchedKMeans(4, basis=estimator.sketch_).fit(swapped)
    assert not hasattr(estimator.fit(X), "feature_names_in_")


def test_columns_of_one_name_are_told_apart():
    X, _ = blobs(50, d=2)
    estimator = SketchedKMeans(2)
    estimator.feature_names_in_ = np.array(["a", "a"], dtype=object)  # as of a table of pandas
    source = estimator._weighted_rows(X, None, None, None)
    assert [column.name for column in source.columns] == ["x0", "x1"]


def test_a_basis_of_other_width_is_refused():
    X, _ = blobs(100)
    with pytest.raises(ValueError, match="3 features, but SketchedKMeans is expecting 2"):
        SketchedKMeans(2, basis=nysketch.Basis.fit(X[:, :2], landmarks=10)).fit(X)
    with pytest.raises(SchemaError):
        SketchedKMeans(2, basis=nysketch.Basis.fit(as_table(X), landmarks=10)).fit(iter([X[:, :2]]))


# ---- manners ---------------------------------------------------------------------------------------


def test_too_few_rows_are_refused_in_the_words_of_scikit_learn():
    X, _ = blobs(5)
    with pytest.raises(ValueError, match=r"n_samples=5 should be >= n_clusters=8\."):
        SketchedKMeans().fit(X)
    with pytest.raises(ValueError, match="n_components = 6, n_samples = 5"):
        SketchedGaussianMixture(6).partial_fit(X)
    with pytest.raises(UsageError, match="2 distinct"):  # no cluster shall be empty
        SketchedKMeans(3).fit(np.repeat(X[:2], 10, axis=0))


def test_rows_may_be_too_few_until_there_are_more():
    X, _ = blobs(200)
    estimator = SketchedKMeans(3, landmarks=50, random_state=0).partial_fit(np.repeat(X[:2], 10, axis=0))
    assert not hasattr(estimator, "cluster_centers_")
    estimator._repr_html_()  # which looks at all there is
    with pytest.raises(NotFittedError, match="2 distinct"):
        estimator.predict(X)
    assert estimator.partial_fit(X).cluster_centers_.shape == (3, 3)  # by far rows


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_is_known_before_the_fit(kind):
    estimator = kind(2)
    for name in ("model_", "sketch_", "cluster_centers_", "weights_", "inertia_bound_", "lower_bound_"):
        assert not hasattr(estimator, name)
    with pytest.raises(NotFittedError):
        estimator.predict(np.zeros((3, 2)))


@pytest.mark.parametrize("kind", BOTH)
def test_seeds(kind):
    X, _ = blobs(500)

    def sketch(random_state, **options):
        return kind(3, landmarks=50, random_state=random_state, **options).partial_fit(X).sketch_

    one = sketch(7)
    assert one == sketch(7, threads=1) == sketch(np.int64(7), threads=3)
    scaling = "none" if kind is SketchedKMeans else "auto"
    assert one == nysketch.sketch(X, landmarks=50, scale=scaling, bandwidth="median", seed=7)
    state = np.random.RandomState(1)
    first = sketch(state)
    assert first == sketch(np.random.RandomState(1))
    assert first != sketch(state)  # a generator goes on
    assert sketch(None) != sketch(None)
    with pytest.raises(ValueError, match="seed"):
        sketch("seven")


def test_two_fits_are_one():
    X, _ = blobs(500)
    estimator = SketchedKMeans(3, landmarks=50, random_state=0)
    labels = estimator.fit_predict(X)
    assert estimator.fit(X).sketch_.rows == len(X)
    assert np.array_equal(estimator.labels_, labels)


@pytest.mark.parametrize("kind", BOTH)
def test_pickles_predict_and_go_on(kind):
    X, _ = blobs(500)
    new = kind(3, landmarks=50, random_state=0)
    for estimator in (clone(new).fit(X), clone(new).partial_fit(X)):
        again = pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(again.predict(X), estimator.predict(X))
        assert again.sketch_ == estimator.sketch_
        assert again.partial_fit(X).sketch_ == estimator.partial_fit(X).sketch_


def test_pipelines():
    X, _ = blobs(1500)
    units = np.array([1, 100, 0.01])
    scaled = make_pipeline(StandardScaler(), SketchedKMeans(4, landmarks=100, random_state=0))
    found = scaled.fit_predict(X * units)
    theirs = make_pipeline(StandardScaler(), KMeans(4, n_init=3, random_state=0)).fit_predict(X * units)
    assert adjusted_rand_score(found, theirs) > 0.98
    assert scaled.transform(X).shape == (1500, 4)
    options = {"landmarks": 100, "random_state": 0}
    first = make_pipeline(SketchedKMeans(4, **options), SketchedGaussianMixture(4, **options))
    assert np.isfinite(first.fit(X).score(X))


def test_distances_keep_the_type_of_rows():
    X, _ = blobs(200)
    estimator = SketchedKMeans(4, random_state=0).fit(X.astype(np.float32))
    assert estimator.transform(X.astype(np.float32)).dtype == np.float32
    assert np.allclose(estimator.transform(X.astype(np.float32)), estimator.transform(X), atol=1e-4)


def test_models_can_be_saved(tmp_path):
    X, _ = blobs(500)
    estimator = SketchedKMeans(4, random_state=0).fit(X)
    nysketch.save_model(estimator.model_, tmp_path / "model.json")
    assert np.array_equal(nysketch.load_model(tmp_path / "model.json").labels(X), estimator.labels_)


def test_spherical_components_that_are_scaled_have_d_variances():
    X, _ = blobs(500)
    mixture = SketchedGaussianMixture(3, covariance_type="spherical", scale="standard", random_state=0).fit(X)
    ratios = mixture.covariances_ / mixture.model_.scale**2
    assert ratios.shape == (3, 3) and np.allclose(ratios, ratios[:, :1])


@pytest.mark.parametrize("covariance", TYPES)
def test_a_constant_column_is_no_trouble(covariance):
    X = np.column_stack([blobs(300, d=2, k=2)[0], np.full(300, 1e6)])
    mixture = SketchedGaussianMixture(2, covariance_type=covariance, random_state=0).fit(X)
    assert np.allclose(mixture.means_[:, 2], 1e6)
    assert np.isfinite(mixture.score(X))
    assert np.allclose(SketchedKMeans(2, random_state=0).fit(X).cluster_centers_[:, 2], 1e6)
