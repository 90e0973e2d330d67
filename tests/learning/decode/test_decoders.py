"""One suite for every decoder, whatever it uses of a sketch: k components that make sense of its rows."""

import numpy as np
import pytest

from nysketch.errors import UsageError
from nysketch.learning.decode import decoders, em
from nysketch.learning.decode.decoders import DECODERS, Task
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.points import Points
from nysketch.learning.decode.pursuit import pursuit
from tests.learning.decode.examples import TASKS, blobs, corners, evidence_for, matrices, paired, sketch

CASES = [
    (decoder, covariance, features)
    for decoder in DECODERS
    for features in ("nystrom", "fourier")
    for covariance in TASKS
    if not (decoder == "cells" and features == "fourier")
]
every_case = pytest.mark.parametrize(("decoder", "covariance", "features"), CASES)


def decode(found, decoder, k, covariance=None, seed=0, trials=None):
    steps = []
    mixture = DECODERS[decoder](
        found, Task(k, covariance, trials), np.random.default_rng(seed), lambda: steps.append(1)
    )
    assert steps or decoder in ("quadrature", "cells")
    return mixture


def require_sense(mixture, found, k, covariance):
    """What holds for any result: shapes, signs, and that it is where the rows are."""
    d = found.d
    assert mixture.weights.shape == (k,) and mixture.means.shape == (k, d)
    assert mixture.covariances.shape == ((k, d, d) if covariance == "full" else (k, d))
    assert all(np.isfinite(a).all() for a in (mixture.weights, mixture.means, mixture.covariances))
    assert (mixture.weights >= 0).all() and np.isclose(mixture.weights.sum(), 1)
    if covariance is not None:
        assert (np.linalg.eigvalsh(matrices(mixture)) > 0).all()
    if covariance == "spherical":
        assert np.allclose(mixture.covariances, mixture.covariances[:, :1])
    lower, upper = (found.basis.transform(ends[None])[0] for ends in found.sketch.column_ranges)
    room = 0.25 * (upper - lower) + 0.1
    assert (mixture.means >= lower - room).all() and (mixture.means <= upper + room).all()


def in_data_units(mixture, basis):
    return mixture.means * basis.scale + basis.center


@pytest.mark.slow
@every_case
def test_well_separated_clusters_are_found(decoder, covariance, features):
    found = evidence_for(covariance, 3, 2, features)
    mixture = decode(found, decoder, 3, covariance)
    require_sense(mixture, found, 3, covariance)
    means = in_data_units(mixture, found.basis)
    # Clusters have the width 1; of 1000 rows each, the mean is known to 0.03.
    assert paired(means, corners(3, 2)) < 0.5
    assert np.allclose(mixture.weights, 1 / 3, atol=0.06)
    if covariance is not None:
        scales = np.outer(found.basis.scale, found.basis.scale)
        for matrix in matrices(mixture):
            assert np.allclose(matrix * scales, np.eye(2), atol=0.45)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", TASKS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_five_clusters_in_three_dimensions_are_found_at_landmarks(decoder, covariance):
    found = evidence_for(covariance, 5, 3)
    mixture = decode(found, decoder, 5, covariance)
    require_sense(mixture, found, 5, covariance)
    assert paired(in_data_units(mixture, found.basis), corners(5, 3)) < 1.0


@every_case
def test_the_same_seed_gives_the_same_mixture(decoder, covariance, features):
    found = evidence_for(covariance, 2, 1, features)
    a = decode(found, decoder, 2, covariance, seed=5, trials=1)
    b = decode(Evidence(found.sketch), decoder, 2, covariance, seed=5, trials=1)
    for name in ("weights", "means", "covariances"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.slow
@every_case
def test_one_component_is_the_mean_of_all_rows(decoder, covariance, features):
    """Of a single blob, which one Gaussian fits."""
    rows = blobs(n=2000, k=1)[0] * [1, 5] + 100
    options = {"features": "fourier", "landmarks": 60} if features == "fourier" else {"landmarks": 40}
    found = Evidence(sketch(rows, **options))
    mixture = decode(found, decoder, 1, covariance)
    require_sense(mixture, found, 1, covariance)
    assert mixture.weights[0] == 1
    # In units of the standard deviation; cells know the mean exactly.
    away = (in_data_units(mixture, found.basis) - rows.mean(axis=0))[0] / rows.std(axis=0)
    assert np.abs(away).max() < (1e-9 if decoder == "cells" and covariance else 0.06)
    if covariance is not None:
        variances = np.diag(matrices(mixture)[0]) * found.basis.scale**2
        assert np.allclose(variances, rows.var(axis=0), rtol=0.1)


@every_case
def test_one_column(decoder, covariance, features):
    found = evidence_for(covariance, 2, 1, features)
    mixture = decode(found, decoder, 2, covariance)
    require_sense(mixture, found, 2, covariance)
    assert paired(in_data_units(mixture, found.basis), corners(2, 1)) < 0.5


@pytest.mark.parametrize("kernel", ["laplacian-l2", "matern52", "polynomial"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_other_kernels_know_clusters_but_no_mixtures(decoder, kernel):
    rows, centres = blobs(n=2000)
    found = Evidence(sketch(rows, landmarks=60, kernel=kernel))
    mixture = decode(found, decoder, 3)
    require_sense(mixture, found, 3, None)
    if decoder == "cells":
        assert paired(in_data_units(mixture, found.basis), centres) < 0.2
        assert paired(in_data_units(decode(found, decoder, 3, "diag"), found.basis), centres) < 0.2
        return
    if kernel != "polynomial":  # what a quadratic kernel sees of rows is their second moments
        assert paired(in_data_units(mixture, found.basis), centres) < 2.0
    for covariance in ("spherical", "diag", "full"):
        with pytest.raises(UsageError, match='`decoder="cells"`, or sketch with `kernel="gaussian"`'):
            decode(found, decoder, 3, covariance)


def test_sums_and_products_of_gaussians_know_mixtures():
    rows, centres = blobs(n=2000)
    for options in (
        {"bandwidth": "0.5,1,2"},
        {"groups": {"a": ["x0"], "b": ["x1"]}, "bandwidth": {"a": "0.7", "b": "1.1"}},
    ):
        found = Evidence(sketch(rows, landmarks=60, **options))
        for decoder in ("shift", "quadrature", "cells"):
            means = in_data_units(decode(found, decoder, 3, "diag", trials=3), found.basis)
            assert paired(means, centres) < 0.5


# ---- greedy decoders: where they start, in which coordinates ---------------------------------------


def sums_of(seed, m):
    """Kernel sums of eight Gaussians in six dimensions, alone; and how far off a mixture is, in nats."""
    random = np.random.default_rng(seed)
    centres = 2 * 8 ** (1 / 6) * random.standard_normal((8, 6))
    rows = centres[random.integers(8, size=3000)] + random.standard_normal((3000, 6))
    settings = {"bandwidth": 5.0, "scale": "none", "cells": False, "sample_rows": 0, "sampling": "uniform"}
    made = sketch(rows, landmarks=m, seed=seed, precision="float64", **settings)
    points, truth = Points.of_rows(rows), Mixture(np.full(8, 1 / 8), centres, np.ones((8, 6)))

    def excess(mixture):
        return em.log_likelihood(points, truth) - em.log_likelihood(points, mixture)

    return Evidence(made), excess


@pytest.mark.parametrize("decoder", ["clomp", "shift"])
def test_a_trial_starts_from_the_best_of_many_runs_of_kmeans(decoder):
    """From a single run the mixtures of these seeds were 0.14 and 0.38 nats off."""
    for seed in (7, 10):
        found, excess = sums_of(seed, 200)
        assert excess(decode(found, decoder, 8, "diag", seed, trials=1)) < 0.02


@pytest.mark.parametrize("decoder", ["clomp", "shift"])
def test_a_search_from_nothing_is_in_plain_coordinates(decoder, monkeypatch):
    """In whitened ones the mixtures of these seeds are 1.4 to 5.7 nats off."""
    monkeypatch.setattr(decoders, "_starts", lambda *_: [None])
    for seed in (1, 3):
        found, excess = sums_of(seed, 250)
        assert excess(decode(found, decoder, 8, "diag", seed, trials=1)) < 0.02
        monkeypatch.setattr(found, "plain_moments", found.moments)
        assert excess(decode(found, decoder, 8, "diag", seed, trials=1)) > 1.0


def test_drawn_rows_are_no_start_for_a_search_in_whitened_coordinates(monkeypatch):
    searched = []

    def recorded(matching, *arguments, **options):
        searched.append((options["start"] is not None, matching.moments))
        return pursuit(matching, *arguments, **options)

    monkeypatch.setattr(decoders, "pursuit", recorded)
    monkeypatch.setattr(decoders, "_NOTHING_LEFT", 0.0)
    rows = blobs(n=500)[0]
    for options, warm in (
        ({"landmarks": 30}, "moments"),
        ({"landmarks": 60, "features": "fourier", "sample_rows": 200}, "moments"),
        ({"landmarks": 60, "features": "fourier", "sample_rows": 0}, "plain_moments"),
    ):
        found = Evidence(sketch(rows, **options))
        searched.clear()
        decode(found, "clomp", 3, "diag", trials=2)
        assert [started for started, _ in searched] == [True, False]
        assert searched[0][1] is getattr(found, warm)
        assert searched[1][1] is found.plain_moments


# ---- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_cells_are_needed_to_decode_cells(features):
    rows = blobs(n=500)[0]
    made = (
        sketch(rows, landmarks=20, cells=False)
        if features == "nystrom"
        else sketch(rows, landmarks=20, features="fourier")
    )
    with pytest.raises(UsageError, match=r"no cells .* use another `decoder`"):
        decode(Evidence(made), "cells", 3)


@pytest.mark.parametrize("covariance", TASKS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_more_components_than_there_are_points_are_refused(decoder, covariance):
    found = Evidence(sketch(np.repeat(blobs(n=4)[0], 50, axis=0), landmarks=4))
    with pytest.raises(UsageError, match="`k=7` exceeds the 4 distinct"):
        decode(found, decoder, 7, covariance)
    require_sense(decode(found, decoder, 4, covariance, trials=2), found, 4, covariance)


def test_text_is_refused():
    import pyarrow as pa

    made = sketch(pa.table({"t": ["ab", "ba", "abc", "bca"] * 10}), kernel="spectrum", landmarks=3)
    with pytest.raises(UsageError, match="this is a sketch of text"):
        Evidence(made)
