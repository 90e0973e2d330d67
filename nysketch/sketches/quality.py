"""How good the basis of a sketch is for its rows: measured (basis/quality.py) on the sample it carries."""

from __future__ import annotations

from nysketch.accumulators.sample import RowSample
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.basis.quality import FourierQuality, Quality, measure


def measure_on_sample(
    basis: Basis, tally: Tally, *, effective_dimension: bool = True
) -> Quality | FourierQuality | None:
    """Measure a basis on the sample of all rows; None if that is too small."""
    sample, rows = tally.sample, tally.rows
    if not rows or not is_representative(sample, tally.total_weight / rows):
        return None
    return measure(
        basis,
        sample.scaled(basis.middle),
        sample.weights,
        of_rows=rows,
        effective_dimension=effective_dimension,
    )


def is_representative(sample: RowSample, mean_weight: float) -> bool:
    """Tell whether the weight of the sampled rows is what it should be: a few heavy rows may not be in it."""
    if sample.weights is None or not len(sample):
        return True
    return bool(0.5 * mean_weight <= sample.weights.mean() <= 2 * mean_weight)
