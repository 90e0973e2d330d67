"""CL-OMPR as published, for compressive_learning.py: compressive learning by orthogonal matching pursuit.

By N. Keriven, N. Tremblay, Y. Traonmilin, R. Gribonval (2017); the paper on mean Nyström embeddings decodes
with it. Given mean features s and the map A of atoms to their mean features, 2k rounds of

  1. an atom that maximises ⟨A(θ) / |A(θ)|, residual⟩, climbing from one random start in the box of the data
  2. which joins the others
  3. of more than k atoms, those k with the largest weights in a non-negative fit of A(θ) / |A(θ)| to s
  4. non-negative weights that fit A(θ) to s
  5. all parameters and weights moved together, downhill
  6. the new residual

Atoms are points for k-means, Gaussians with diagonal covariances for mixtures, all of whose parameters take
part in step 1. Features are compared as they are. Nothing follows: the points are the centroids. Nyström
and Fourier features are treated alike: neither landmarks nor sampled rows are looked at, and the box and the
variances of the columns are given for both. `clomp` of the tool differs in most of this; see
docs/methods/decoders-and-certificates.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import nysketch
from nysketch.learning.decode.atoms import POINT
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.moment_matching import LOOSE, TIGHT, Limits, Matching
from nysketch.learning.decode.whitening import Moments

Floats = NDArray[np.float64]

CLIMB = 200  # steps
# Far from all landmarks, features of an atom are 0: so is what it is said to correlate with the residual.
SHORTEST = 1e-9
# Variances of atoms, in units of those of the columns: from the least up to the greatest.
LEAST, GREATEST = 1e-2, 4.0


def plain_matching(sketch: nysketch.Sketch, covariance: str, variances: Floats) -> Matching:
    """Return the distance of mean features as they are; atoms lie in the box of all rows."""
    evidence = Evidence(sketch)
    moments = Moments.of(evidence.basis, evidence.mean_values, sketch.rows, None)
    lower, upper = (np.asarray(evidence.basis.transform(end[None, :]))[0] for end in sketch.column_ranges)
    limits = Limits(lower, upper, LEAST * variances, GREATEST * variances)
    return Matching(evidence.basis, moments, covariance, limits)


class Correlation:
    """⟨A(θ) / |A(θ)|, residual⟩ of one atom with parameters θ."""

    def __init__(self, matching: Matching, residual: Floats) -> None:
        self._matching, self._residual = matching, residual

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Return it with its gradient."""
        family, moments = self._matching.family, self._matching.moments
        at = parameters[None, :]
        features = moments.features(family.values(at))[0]
        length = max(float(np.linalg.norm(features)), SHORTEST)
        value = float(features @ self._residual) / length
        slope = self._residual / length - value * features / length**2
        return value, family.pullback(at, moments.adjoint(slope)[None, :])[0]


def next_atom(matching: Matching, residual: Floats, spread: Floats, rng: np.random.Generator) -> Mixture:
    """Step 1, with variances that start at `spread`."""
    limits, family = matching.limits, matching.family
    bounds = family.bounds((limits.lower, limits.upper), (limits.least_variances, limits.greatest_variances))
    mean = rng.uniform(limits.lower, limits.upper)
    start = family.pack(Mixture(np.ones(1), mean[None, :], spread[None, :]))[0]
    correlation = Correlation(matching, residual)
    unit = 1 / max(float(np.linalg.norm(residual)), 1e-300)

    def downhill(parameters: Floats) -> tuple[float, Floats]:
        value, gradient = correlation(parameters)
        return -unit * value, -unit * gradient

    found = minimize(
        downhill,
        np.clip(start, *bounds),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack(bounds, axis=1),
        options={"maxiter": CLIMB},
    )
    return family.unpack(found.x[None, :], np.zeros(1))


def cl_ompr(
    sketch: nysketch.Sketch, k: int, covariance: str, variances: Floats, rng: np.random.Generator
) -> tuple[Mixture, float]:
    """Return k atoms, "point" or "diag", and |A(π) − s|²; `variances` are those of the columns."""
    matching = plain_matching(sketch, covariance, variances)
    spread = variances / k ** (2 / len(variances)) / 2
    mixture: Mixture | None = None
    for _ in range(2 * k):
        residual = matching.target if mixture is None else matching.residual(mixture)
        atom = next_atom(matching, residual, spread, rng)
        mixture = atom if mixture is None else mixture.join(atom)
        if len(mixture) > k:
            mixture = matching.strongest(mixture, k)
        mixture = matching.refine(matching.fit_weights(mixture), LOOSE)
    assert mixture is not None
    mixture = matching.refine(mixture, TIGHT)
    return mixture.normalise(), matching.distance(mixture)


__all__ = ["POINT", "cl_ompr"]
