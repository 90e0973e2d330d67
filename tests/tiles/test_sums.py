"""Running sums: feature by feature as cell by cell, to the bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nysketch._support.exact import ExactSum
from nysketch.tiles.sums import RunningSum


@given(st.integers(0, 5), st.integers(1, 9), st.integers(0, 99))
def test_sums_by_feature_are_exact_sums_of_terms(features, cells, seed):
    random = np.random.default_rng(seed)
    exponents = random.integers(-50, 3, features)
    grid = np.ldexp(1.0, exponents)
    high = np.zeros((cells, features), order="F")
    by_feature, by_cell = (RunningSum(ExactSum(high, high.copy(order="F")), grid) for _ in range(2))
    expected = [ExactSum.zeros(cells) for _ in range(features)]
    for _ in range(4):
        terms = random.normal(0, 1e6, (features, cells + 1))  # one more: rows in no cell
        terms[random.random(terms.shape) < 0.3] = -0.0
        by_feature.add_by_feature(terms)
        by_cell.add(terms[:, :cells].T)
        for k, exponent in enumerate(exponents.tolist()):
            expected[k] = expected[k] + ExactSum.of(terms[k, :cells], grid_exponent=exponent)
    for part in ("high", "low"):
        mine, other = (getattr(made.snapshot(), part) for made in (by_feature, by_cell))
        assert mine.tobytes() == other.tobytes()
        for k in range(features):
            assert mine[:, k].tobytes() == getattr(expected[k], part).tobytes()
