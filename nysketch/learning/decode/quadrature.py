"""Quadrature: the kernel sums as a probability on a few rows, from which anything can be learned.

w = argmin over w ≥ 0 of |Σ_j w_j Φ(z_j) − s|² + λ|w − w₀|², where z are the landmarks. When the kernel is
wide many w fit equally well, and the sparse ones decode badly, so λ holds w near w₀ as far as the fit
allows: the largest λ whose misfit is within the noise of the data is taken.
"""

from __future__ import annotations

import numpy as np

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.learning.decode.whitening import plain_noise

# Tried from the largest to the smallest, in units of |Φ(z)|².
_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_WITHIN = 2.0


def convex_weights(basis: Basis, support: Floats, mean_values: Floats, rows: int, prior: Floats) -> Floats:
    """Return weights of the rows of `support` that reproduce the mean features, as near `prior` as may be."""
    features = basis.to_features(basis.evaluate(support))
    target = basis.to_features(mean_values)
    G, b = features @ features.T, features @ target
    noise = plain_noise(basis, mean_values, rows)
    unit = float(np.mean(np.diag(G))) or 1.0
    weights = prior
    for penalty in _PENALTIES:
        weights = _minimise_penalised(G, b, prior, penalty * unit, weights)
        misfit = float(weights @ G @ weights - 2 * weights @ b + target @ target)
        if misfit <= _WITHIN * noise:
            break
    total = weights.sum()
    return weights / total if total > 0 else prior


def _minimise_penalised(G: Floats, b: Floats, prior: Floats, penalty: float, start: Floats) -> Floats:
    from scipy.optimize import minimize

    count = len(b)

    def objective(w: Floats) -> tuple[float, Floats]:
        Gw, away = G @ w, w - prior
        value = float(w @ Gw - 2 * w @ b + penalty * away @ away)
        # Weights are of the order of 1/count, and so are the steps that L-BFGS-B has to tell from nothing.
        return count * value, 2 * count * (Gw - b + penalty * away)

    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * count, options={"maxiter": 200}
    )
    return np.asarray(found.x)
