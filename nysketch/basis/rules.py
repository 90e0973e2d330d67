"""How many landmarks theory asks for: numbers to compare with what quality.py measures.

Chatalic, Schreuder, Rudi and Rosasco (2022) bound the distance between the mean embedding of a distribution
and the projection of the mean of n rows on the span of m of them, drawn uniformly. Where eigenvalues decay
exponentially, m = √n log √n is enough for the rate 1/√n of all n rows (Corollary 4.1, without constants). The
bound itself holds if m ≥ max(67, 12 K²/|C|) log(m/δ) (Theorem 4.1), K² being the largest k(x, x), and |C| the
largest eigenvalue of the covariance operator C = E φ(x) ⊗ φ(x).
"""

from __future__ import annotations

import math

# The bound of the theorem holds with probability 1 − δ.
_DELTA = 0.05


def landmarks_by_rule(rows: int) -> int:
    """Return √n log √n, rounded up: at least 1, at most n."""
    if rows < 1:
        return 0
    return min(max(math.ceil(math.sqrt(rows) * math.log(rows) / 2), 1), rows)


def landmarks_by_theorem(rows: int, mean_kernel: float, mean_norm: float) -> int | None:
    """Return from how many landmarks on the theorem holds with a probability of 95 %.

    None if it says nothing: where k(x, x) is not 1 for all rows, so that its largest value is unknown, or
    where it asks for more landmarks than there are rows. |C| is at least |μ|² = E k(x, y), which takes its
    place: the condition is sufficient.
    """
    if abs(mean_norm - 1) > 1e-9 or not mean_kernel > 0:
        return None
    factor = max(67.0, 12.0 / mean_kernel)
    m = factor
    for _ in range(100):  # to the larger of the two solutions of m = c log(m/δ), which attracts
        m = factor * math.log(m / _DELTA)
    return math.ceil(m) if m <= rows else None
