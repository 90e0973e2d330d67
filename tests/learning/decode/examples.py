"""Tables with known clusters, their sketches, and mixtures: for all the tests of decoding."""

from functools import cache

import numpy as np

import nysketch
from nysketch.kernels import Gaussian, GaussianSum
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture, reshape_covariances
from tests.kernels.kinds import basis_at, fourier_basis, numbers, product_of

SHAPES = ("spherical", "diag", "full")
TASKS = (None, *SHAPES)  # k-means, and mixtures


def corners(k, d, apart=8.0):
    """k centres, no two of them nearer than `apart`."""
    steps = np.stack(np.meshgrid(*[np.arange(k)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    # Neither on a line nor on a regular grid.
    chosen = steps[np.random.default_rng(k + 10 * d).permutation(len(steps))[:k]]
    return apart * (chosen + 0.1 * np.sin(np.arange(k * d)).reshape(k, d) * (d > 1))


def blobs(n=3000, k=3, d=2, seed=0, apart=8.0, shares=None):
    """Rows of k Gaussians with unit variances, and their centres."""
    random = np.random.default_rng(seed)
    centres = corners(k, d, apart)
    labels = random.choice(k, n, p=shares)
    return centres[labels] + random.standard_normal((n, d)), centres


def sketch(rows, **options):
    return nysketch.sketch(rows, **{"threads": 1, "blocks": 4, **options})


@cache
def evidence(k=3, d=2, features="nystrom", scaling="standard"):
    """What a sketch of `blobs(k=k, d=d)` says: at landmarks, or twice as many narrow Fourier features."""
    rows, _ = blobs(k=k, d=d)
    if features == "nystrom":
        return Evidence(sketch(rows, landmarks=80, scale=scaling))
    width = 0.4 if scaling == "standard" else 3.0
    return Evidence(sketch(rows, landmarks=160, features="fourier", bandwidth=width, scale=scaling))


def evidence_for(covariance, k, d, features="nystrom"):
    """Evidence in whose units the blobs have this shape: scaled by their spread they are not round."""
    return evidence(k, d, features, "none" if covariance == "spherical" else "standard")


def random_mixture(k, d, shape="diag", seed=0, spread=1.0, width=0.6):
    """Any mixture, in scaled units."""
    random = np.random.default_rng(seed)
    weights = random.uniform(0.2, 1, k)
    covariances = width**2 * random.uniform(0.3, 2, (k, d))
    if shape == "full":
        factors = 0.4 * random.standard_normal((k, d, d)) + np.eye(d)
        covariances = width**2 * (factors @ factors.transpose(0, 2, 1) + 0.05 * np.eye(d))
    means = spread * random.standard_normal((k, d))
    return Mixture(weights / weights.sum(), means, reshape_covariances(covariances, shape))


def matrices(mixture):
    """The covariances of a mixture as matrices."""
    return reshape_covariances(mixture.covariances, "full")


# Bases that know the mean of a Gaussian; from the number of features.
WITH_SPREAD = {
    "gaussian": lambda d: basis_at(Gaussian(1.3), numbers(9, d, 1)),
    "sum of gaussians": lambda d: basis_at(GaussianSum((0.9, 1.6, 4.0)), numbers(9, d, 2)),
    "product of gaussians": lambda d: basis_at(product_of(Gaussian(0.9), Gaussian(2.3))(d), numbers(9, d, 3)),
    "fourier": lambda d: fourier_basis(d, 18, "gaussian"),
    "adapted fourier": lambda d: fourier_basis(d, 18, "adapted-radius"),
}


def paired(found, centres):
    """The largest distance of a centre from the nearest found one, and the other way round."""
    distances = np.sqrt(((found[:, None] - centres) ** 2).sum(axis=2))
    return max(distances.min(axis=0).max(), distances.min(axis=1).max())
