"""Estimators: sketching and learning in one object, with the manners of scikit-learn.

`fit` is a pass (passes/sketching.py) and what is learned from its sketch (learning/learner.py); what a model
says of rows is models/base.py's business. Rows in memory are checked as scikit-learn checks them, and raise
its errors; files are read as everywhere here. Labels of files are models/apply.py's, and the command
`nysketch assign`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    DensityMixin,
    TransformerMixin,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from nysketch._types import Floats, Labels, Rows
from nysketch.accumulators.options import PassOptions
from nysketch.basis.base import Basis
from nysketch.basis.options import DEFAULT_LANDMARKS, BasisOptions
from nysketch.columns import Column
from nysketch.engines.threads import Threads
from nysketch.errors import UsageError
from nysketch.kinds import KindRequest, parse_kinds
from nysketch.learning.sweep import sweep
from nysketch.models.base import block_rows_for
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.passes.execution import Execution
from nysketch.passes.sketching import as_basis, sketch_source
from nysketch.sketches.sketch import Sketch
from nysketch.sources.arrays import ArraySource, is_sparse
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from nysketch.sources.protocol import Batch, Fragment, Source
from nysketch.sources.queries import query_of
from nysketch.sources.selection import Selection

# What the weights of rows in memory are called in their sketch.
_WEIGHTS = "sample_weight"


class _WeightedRows(ArraySource):
    """The rows of an array whose columns have names, and which may have weights: views, no copies."""

    weights: str | None = None  # type: ignore[assignment]  # other arrays never have any

    def __init__(
        self, rows: Rows, columns: tuple[Column, ...] | None, weights: Floats | None, name: str
    ) -> None:
        super().__init__(rows, Selection(), columns)
        self._row_weights = weights
        self.weights = None if weights is None else name

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield views of the array and of the weights."""
        start = fragment.first_row
        for batch in super().read(fragment, batch_rows):
            some = None if self._row_weights is None else self._row_weights[start : start + len(batch)]
            yield batch if some is None else replace(batch, weights=some, nulls=[*batch.nulls, 0])
            start += len(batch)


def _is_elsewhere(X: Any) -> bool:
    """Say whether X is no matrix in memory: paths, a stream, an iterator, a query, a dict of columns."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(item, str | os.PathLike) for item in X)
    streams = hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")
    is_dict = isinstance(X, Mapping) and not is_sparse(X)  # of which one format is a dict, too
    return streams or is_dict or isinstance(X, str | os.PathLike | Iterator) or query_of(X) is not None


def _require_in_memory(X: Any) -> None:
    if _is_elsewhere(X):
        raise TypeError(
            "rows must be in memory, as an array or a table. To label files, use "
            "nysketch.assign(estimator.model_, files)"
        )


class _Sketched(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: rows become a sketch, and the sketch a model when one is needed."""

    decoder: str
    landmarks: int | str
    kernel: Any
    bandwidth: Any
    kinds: Mapping[str, str] | None
    basis: Any
    trials: int | None
    threads: int | None
    random_state: Any

    sketch_: Sketch
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _seed: int
    _model: Any

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch rows in one pass, and learn from the sketch.

        X are rows in memory (an array, or a table of numbers) or whatever else `nysketch.sketch` takes: paths
        and globs of Parquet, HDF5, CSV or Feather files of any size. The weights of files are one of their
        columns; then `sample_weight` is its name.
        """
        self._seed = self._new_seed()
        sketch, rows, weights = self._sketched(X, sample_weight, None)
        self._take(sketch)  # the pass may have taken hours: it is kept even if learning fails
        self._model = self._learned(sketch)
        if rows is not None:
            self._look_at(rows, weights)
        elif sketch.basis.encoded and sample_weight is None and not _is_elsewhere(X):
            self._look_at(X, None)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the sketch; a model is learned from it when one is asked for.

        The first rows choose landmarks, bandwidth and scaling, so they should look like those to come; or
        give a `basis`. After `fit` or `fit_sketch`, rows are added to that sketch. If any rows have weights,
        the first must; later ones without weigh 1.
        """
        before = getattr(self, "sketch_", None)
        if before is None:
            self._seed = self._new_seed()
        sketch, _, _ = self._sketched(X, sample_weight, before)
        self._take(sketch if before is None else before + sketch)
        return self

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Learn from a sketch that is there already: loaded, merged, or `sketch_` with other parameters.

        It has its basis: landmarks, kernel, bandwidth, scaling and basis are not used.
        """
        self._seed = self._new_seed()
        self._take_features(sketch.basis)
        self._take(sketch)
        self._model = self._learned(sketch)
        return self

    def predict(self, X: Any) -> Labels:
        """Return the number of the cluster or component that each of the rows, in memory, belongs to."""
        rows = self._rows(X)
        labels: Labels = self.model_.labels(rows)
        return labels

    @property
    def model_(self) -> Any:
        """The model: in the units of X, and with what is known of how good it is."""
        check_is_fitted(self)
        if self._model is None:
            try:
                self._model = self._learned(self.sketch_)
            except UsageError as error:  # too few rows, say: there may be more to come
                raise NotFittedError(f"cannot learn from the rows so far: {error}") from error
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sketch_")

    # ---- rows → sketch

    def _sketched(
        self, X: Any, sample_weight: Any, before: Sketch | None
    ) -> tuple[Sketch, Rows | None, Floats | None]:
        """Sketch X, to be added to what was there before; return its rows and weights too, if in memory."""
        basis = as_basis(self.basis) if before is None else before.basis
        if before is None and basis is not None:
            self._take_features(basis)
        rows = weights = None
        source: Source
        kinds = parse_kinds(self.kinds) if basis is None else {}
        tables = bool(kinds) if basis is None else basis.encoded
        if tables or _is_elsewhere(X):
            source = _open(X, sample_weight, basis, before, kinds)
        else:
            rows = self._rows(X, reset=basis is None)
            weights = _weights(rows, sample_weight, before)
            if basis is None:
                self._require_enough(len(rows))
            source = self._weighted_rows(rows, weights, basis, before)
        nulls = "keep" if tables else "error"
        options = _like(before, PassOptions(seed=self._seed, weights=source.weights, nulls=nulls))
        chosen = self._basis_options(source) if basis is None else basis
        sketch = sketch_source(source, chosen, options, execution=Execution(Threads(self.threads)))
        if basis is None and rows is None:
            self._take_features(sketch.basis)
        return sketch, rows, weights

    def _rows(self, X: Any, *, reset: bool = False) -> Rows:
        """Return rows in memory as an array of floating-point numbers, checked by scikit-learn."""
        if not reset:
            check_is_fitted(self, "n_features_in_")
        _require_in_memory(X)
        if not reset and self._reads_tables:
            table: Rows = X  # the model finds its columns, and what is missing in them
            return table
        fewest = self._fewest_rows if reset else 1
        dtypes = [np.float64, np.float32]
        rows: Rows = validate_data(self, X, reset=reset, dtype=dtypes, ensure_min_samples=fewest)
        return rows

    @property
    def _reads_tables(self) -> bool:
        """Whether columns have kinds: then rows are tables, whatever their columns hold."""
        return hasattr(self, "sketch_") and self.sketch_.basis.encoded

    def _weighted_rows(
        self, rows: Rows, weights: Floats | None, basis: Basis | None, before: Sketch | None
    ) -> Source:
        names = getattr(self, "feature_names_in_", ())
        columns = None  # x0, x1, …
        if basis is not None:
            columns = basis.columns
        elif 0 < len(names) == len(set(names)):
            columns = tuple(map(Column, names))
        if weights is not None and not weights.all():
            # They change no sum, but could be chosen as landmarks.
            rows, weights = rows[weights > 0], weights[weights > 0]
        name = None if before is None else before.settings.get("weights")
        return _WeightedRows(rows, columns, weights, name or _WEIGHTS)

    def _basis_options(self, source: Source) -> BasisOptions:
        m = self.landmarks
        if source.rows and isinstance(m, Integral):
            m = min(int(m), source.rows)  # that all rows of a small table are landmarks is nothing to warn of
        scale = self._scale()
        if self.kinds and scale == "none":  # of categories and times beside numbers there are no units
            scale = "auto"
        return BasisOptions(
            m=m, kernel=self.kernel, bandwidth=self.bandwidth, scaling=scale, kinds=self.kinds or None
        )

    def _new_seed(self) -> int:
        """Return the seed that `random_state` means: an int is the seed itself."""
        state = check_random_state(self.random_state)
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(state.randint(np.iinfo(np.int32).max))

    def _take(self, sketch: Sketch) -> None:
        """Keep a sketch, and forget what was learned from the one before."""
        self.sketch_, self._model = sketch, None
        for name in ("labels_", "inertia_"):
            self.__dict__.pop(name, None)

    def _take_features(self, basis: Basis) -> None:
        """Know the features from a basis instead of X."""
        names = [c.name if c.width == 1 else f"{c.name}[{i}]" for c in basis.columns for i in range(c.width)]
        self.n_features_in_ = basis.width
        self.__dict__.pop("feature_names_in_", None)
        if names != [f"x{i}" for i in range(basis.width)]:  # what the columns of arrays are called: no names
            self.feature_names_in_ = np.array(names, dtype=object)

    # ---- what clusters and mixtures differ in

    _fewest_rows = 1

    def _scale(self) -> str:
        raise NotImplementedError

    def _require_enough(self, rows: int) -> None:
        """Raise a ValueError, worded as in scikit-learn, if there are too few rows to learn from."""
        raise NotImplementedError

    def _learned(self, sketch: Sketch) -> Any:
        raise NotImplementedError

    def _look_at(self, rows: Rows, weights: Floats | None) -> None:
        """Note what the model says of the rows it was learned from, while they are there."""


def _like(before: Sketch | None, options: PassOptions) -> PassOptions:
    """Return options whose sketch can be added to the one before, and keeps no other rows than that does."""
    if before is None:
        return options
    return replace(options, precision=before.settings["precision"], **before.tally.settings())


def _open(
    X: Any, weights: Any, basis: Basis | None, before: Sketch | None, kinds: Mapping[str, KindRequest]
) -> Source:
    """Open files, a stream, or a table whose columns have kinds."""
    if not isinstance(weights, str | None):
        what = "tables with kinds of columns" if kinds or (basis is not None and basis.encoded) else "files"
        raise TypeError(f"for {what}, sample_weight must be the name of a column")
    if before is not None:
        known = before.settings.get("weights")
        weights = known if weights is None else weights
        if weights != known:  # better now than after the pass
            raise ValueError(
                f"earlier rows have weights {known!r}, these have {weights!r}: the name must be the same"
            )
    # As of arrays, all columns are taken: what scikit-learn is given to learn from, it learns from.
    reading = ReadOptions(weights=weights, every_number=True, kinds=kinds)
    return open_source(X, reading if basis is None else reading.for_basis(basis))


def _weights(rows: Rows, sample_weight: Any, before: Sketch | None = None) -> Floats | None:
    """Return the weights of rows in memory, checked; None if they have none."""
    if sample_weight is None:
        return np.ones(len(rows)) if before is not None and before.weighted else None
    if before is not None and not before.weighted:
        raise ValueError("earlier rows had no weights: give sample_weight from the first batch on")
    if isinstance(sample_weight, Real):
        sample_weight = np.full(len(rows), sample_weight)
    weights: Floats = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (len(rows),):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(len(rows),)}!")
    check_non_negative(weights, "sample_weight")
    if not weights.any():
        raise ValueError("sample_weight is zero for all rows")
    return weights


class SketchedKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    _Sketched,
):
    """k-means of tables of any size, learned from a sketch that one pass over them leaves.

    Parameters
    ----------
    n_clusters
        How many clusters there shall be.
    decoder
        How centres are found: "auto" takes the best of what suits the sketch, or "cells", "quadrature",
        "clomp", "shift".
    landmarks
        Rows that the others are summed up at, or "auto". More make better centres, and a larger sketch.
    kernel, bandwidth
        Those of `nysketch.basis.options.BasisOptions`.
    scale
        "none", "auto", "standard" or "robust". Distances are measured after dividing the columns by their
        scale. By default "none", unlike `nysketch.sketch`: as in scikit-learn, clusters and `inertia_` are
        those in the units of X, and a pipeline has its scaler before.
    kinds
        Kinds of columns, such as {"zip": "category", "price": "log", "at": "hour"}. Then X is a table: its
        columns are found by name, missing values are kept, and columns are scaled ("none" is "auto").
    basis
        A Basis, a Sketch or a file with either, in place of landmarks, kernel, bandwidth and scaling. The
        sketches of estimators with one basis can be added.
    trials
        Starts of the decoder; None for as many as suit it.
    threads
        Of the pass; None for all processors.
    random_state
        An int for the same result every time.

    Attributes
    ----------
    cluster_centers_
        The centres, in the units of X, the largest cluster first.
    labels_, inertia_
        The cluster of each row of X, and the sum of squared distances, times sample_weight. Only after `fit`
        to rows in memory.
    inertia_bound_
        What the sum of squared distances is at most, of all rows in the sketch; None where cells cannot tell.
    model_, sketch_
        The model, for `nysketch.save_model` and `nysketch assign`. The sketch: to save, add, subtract.
    n_features_in_, feature_names_in_
        As in scikit-learn; of files, their columns.

    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        decoder: str = "auto",
        landmarks: int | str = DEFAULT_LANDMARKS,
        kernel: Any = "gaussian",
        bandwidth: Any = "median",
        # Not as on the command line: here people expect k-means in the units they give.
        scale: str = "none",
        kinds: Mapping[str, str] | None = None,
        basis: Any = None,
        trials: int | None = None,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.decoder = decoder
        self.landmarks = landmarks
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scale = scale
        self.kinds = kinds
        self.basis = basis
        self.trials = trials
        self.threads = threads
        self.random_state = random_state

    labels_: Labels
    inertia_: float

    @property
    def cluster_centers_(self) -> Floats:
        """The centres, in the units of X."""
        model: KMeansModel = self.model_
        return model.centroids

    @property
    def inertia_bound_(self) -> float | None:
        """What the sum of squared distances is at most, of all rows in the sketch."""
        bound = self.model_.number("certified_bound")
        return None if bound is None else bound * self.sketch_.total_weight

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels:
        """Fit to rows in memory, and return their clusters."""
        _require_in_memory(X)
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> Rows:
        """Return the distance of each row from each centre."""
        from scipy.spatial.distance import cdist

        rows, model = self._rows(X), self.model_
        if model.encoded:
            return np.asarray(model.distances_to_all(rows))
        distances = np.empty((len(rows), model.k), rows.dtype)
        for part in _parts(rows, model):
            distances[part] = cdist(model.scaled(rows[part]), model.scaled_centroids)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of the squared distances of rows from their nearest centres."""
        rows = self._rows(X)
        if self._reads_tables:
            return -self._nearest(rows, None)[1]
        return -self._nearest(rows, _weights(rows, sample_weight))[1]

    def _nearest(self, rows: Rows, weights: Floats | None) -> tuple[Labels, float]:
        """Return the clusters of rows, and the sum of squared distances."""
        model: KMeansModel = self.model_
        if model.encoded:
            distances = model.distances_to_all(rows)
            return distances.argmin(axis=1).astype(np.int32), float(np.square(distances.min(axis=1)).sum())
        labels, total = np.empty(len(rows), np.int32), 0.0
        for part in _parts(rows, model):
            labels[part], differences = model.nearest(rows[part])
            squares = np.einsum("ij,ij->i", differences, differences)
            total += float(squares.sum() if weights is None else weights[part] @ squares)
        return labels, total

    def _look_at(self, rows: Rows, weights: Floats | None) -> None:
        self.labels_, self.inertia_ = self._nearest(rows, weights)

    def _scale(self) -> str:
        return self.scale

    def _require_enough(self, rows: int) -> None:
        if rows < self.n_clusters:
            raise ValueError(f"n_samples={rows} should be >= n_clusters={self.n_clusters}.")

    def _learned(self, sketch: Sketch) -> KMeansModel:
        options = {"decoder": self.decoder, "trials": self.trials, "seed": self._seed}
        model = sweep(sketch, [self.n_clusters], **options).best
        assert isinstance(model, KMeansModel)
        return model

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


class SketchedGaussianMixture(DensityMixin, _Sketched):  # type: ignore[misc]
    """Gaussian mixtures of tables of any size, learned from a sketch that one pass over them leaves.

    Parameters
    ----------
    n_components
        How many Gaussians there shall be.
    covariance_type
        "spherical", "diag" or "full".
    scale
        "none", "auto", "standard" or "robust": how columns are brought to one scale while learning. By
        default "auto", since the likelihood does not depend on units; but "none" for spherical components,
        which are round in the units of X.

    The other parameters are those of `SketchedKMeans`.

    Attributes
    ----------
    weights_, means_, covariances_
        The components, in the units of X and the shapes of scikit-learn, the largest first. (Where spherical
        ones are round in scaled units only, each has d variances.)
    lower_bound_
        What the mean log-likelihood of all rows in the sketch is at least; None where cells cannot tell.
    model_, sketch_
        The model, for `nysketch.save_model` and `nysketch assign`. The sketch: to save, add, subtract.
    n_features_in_, feature_names_in_
        As in scikit-learn; of files, their columns.

    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "diag",
        decoder: str = "auto",
        landmarks: int | str = DEFAULT_LANDMARKS,
        kernel: Any = "gaussian",
        bandwidth: Any = "median",
        scale: str | None = None,
        kinds: Mapping[str, str] | None = None,
        basis: Any = None,
        trials: int | None = None,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.decoder = decoder
        self.landmarks = landmarks
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scale = scale
        self.kinds = kinds
        self.basis = basis
        self.trials = trials
        self.threads = threads
        self.random_state = random_state

    @property
    def weights_(self) -> Floats:
        """The share of each component."""
        model: MixtureModel = self.model_
        return model.weights

    @property
    def means_(self) -> Floats:
        """The means of the components, in the units of X."""
        model: MixtureModel = self.model_
        return model.means

    @property
    def covariances_(self) -> Floats:
        """The covariances of the components: k, k × d, or k × d × d numbers."""
        model: MixtureModel = self.model_
        is_round = model.covariance_type == "spherical" and bool(
            (model.scale == 1).all() and not model.encoded
        )
        return model.covariances[:, 0] if is_round else model.covariances

    @property
    def lower_bound_(self) -> float | None:
        """What the mean log-likelihood of all rows in the sketch is at least."""
        model: MixtureModel = self.model_
        return model.number("certified_log_likelihood")

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels:
        """Fit to rows in memory, and return the components they most likely come from."""
        _require_in_memory(X)
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability that each row comes from each component."""
        rows = self._rows(X)
        model: MixtureModel = self.model_
        return model.responsibilities(rows)

    def score_samples(self, X: Any) -> Floats:
        """Return the log-likelihood of each row."""
        rows = self._rows(X)
        model: MixtureModel = self.model_
        return model.log_densities(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of rows."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion for rows: lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + self.model_.n_parameters * math.log(len(densities)))

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion for rows: lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.model_.n_parameters)

    def sample(self, n_samples: int = 1) -> tuple[Floats, Labels]:
        """Draw rows from the mixture; return them and their components, one component after the other."""
        model: MixtureModel = self.model_
        if n_samples < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples}. It must be at least 1.")
        if model.encoded:
            raise ValueError("rows of columns with kinds cannot be drawn")
        state = check_random_state(self.random_state)
        counts = state.multinomial(n_samples, model.weights / model.weights.sum())
        components = np.repeat(np.arange(model.k, dtype=np.int32), counts)
        noise = state.standard_normal((n_samples, model.d))
        if model.covariance_type == "full":
            factors = np.linalg.cholesky(model.covariances)
            stops = np.cumsum(counts)
            for factor, stop, count in zip(factors, stops, counts, strict=True):
                noise[stop - count : stop] = noise[stop - count : stop] @ factor.T
        else:
            noise *= np.sqrt(model.covariances)[components]
        return model.means[components] + noise, components

    # One row has no spread.
    _fewest_rows = 2

    def _scale(self) -> str:
        if self.scale is not None:
            return self.scale
        # Columns of small units vanish in the distances that landmarks and cells go by: factors of 1000
        # between columns cost 0.15 to 0.25 of the log-likelihood of five blobs.
        return "none" if self.covariance_type == "spherical" else "auto"

    def _require_enough(self, rows: int) -> None:
        if rows < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components "
                f"but got n_components = {self.n_components}, n_samples = {rows}"
            )

    def _learned(self, sketch: Sketch) -> MixtureModel:
        options = {"decoder": self.decoder, "trials": self.trials, "seed": self._seed}
        model = sweep(sketch, [self.n_components], covariance=self.covariance_type, **options).best
        assert isinstance(model, MixtureModel)
        return model


def _parts(rows: Rows, model: KMeansModel) -> Iterator[slice]:
    """Cut rows into parts that are small enough to have k numbers for each row."""
    step = block_rows_for(model.k)
    return (slice(start, start + step) for start in range(0, len(rows), step))
