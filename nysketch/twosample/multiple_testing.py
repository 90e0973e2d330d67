"""Many comparisons: p-values adjusted for their number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nysketch._types import Floats
from nysketch.twosample.results import NONE, Comparison


def adjust_p_values(found: list[Comparison], adjustment: str) -> list[Comparison]:
    """Return comparisons with p-values adjusted as asked; those without a test stay as they are."""
    tested = [i for i, comparison in enumerate(found) if comparison.p_value is not None]
    if adjustment == NONE or not tested:
        return found
    values = np.array([found[i].p_value for i in tested], np.float64)
    together = holm(values) if adjustment == "holm" else benjamini_hochberg(values)
    result = list(found)
    for i, p in zip(tested, together.tolist(), strict=True):
        result[i] = replace(found[i], p_value_adjusted=p)
    return result


def holm(p_values: Floats) -> Floats:
    """Adjust p-values so that the chance of any false rejection stays below the level."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Adjust p-values so that the expected share of false ones among the rejections stays below the level."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p_values))
