"""Do landmarks still express the rows? Residuals of those they were chosen from, and of new ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nysketch.basis.base import Basis
from nysketch.basis.nystrom import RANK_CUTOFF, require_landmarks
from nysketch.basis.quality import (
    FEWEST_ROWS,
    Quality,
    features_of,
    relative_weights,
    residuals_of,
    weighted_mean,
)
from nysketch.basis.translation import translated
from nysketch.columns import Column
from nysketch.errors import IncompatibleError, InputError
from nysketch.sketches.sketch import Sketch

# Old landmarks no longer cover new rows when more than this share is beyond 99 % of the old residuals, or
# when the mean residual has grown by more than this factor.
UNCOVERED_SHARE = 0.05
GROWN = 1.25


def notes_on_drift(now: Quality, basis: Basis) -> list[str]:
    """Say so if rows are farther from the landmarks than those that these were chosen from."""
    held_out = basis.origin.get("held_out")
    if held_out is None:
        return []
    if not _has_grown(now.mean_residual, now.mean_residual_se, held_out, _rounding(now.mean_norm)):
        return []
    return [
        "The rows are farther from the landmarks than the rows they were chosen from (mean residual "
        f"{now.mean_residual:.3g}, then {held_out['mean_residual']:.3g}). Has the data changed? Check with "
        "`nysketch.info(against=OLD)`, or make a new basis."
    ]


def _has_grown(mean: float, mean_se: float, then: dict[str, Any], slack: float) -> bool:
    """Tell whether the mean residual is beyond doubt larger than it was: small samples differ by chance."""
    doubt = math.hypot(mean_se, GROWN * then["mean_residual_se"])
    return bool(mean > GROWN * then["mean_residual"] + 2 * doubt + slack)


def _rounding(norm: float) -> float:
    """Return what a residual of 0 may be by rounding, for rows of this length."""
    return math.sqrt(RANK_CUTOFF) * norm


@dataclass(frozen=True)
class Coverage:
    """How well landmarks express rows they were chosen for, and others."""

    rows_then: int
    rows_now: int
    residual_then: float
    residual_then_se: float
    residual_now: float
    residual_now_se: float
    beyond_share: float  # of the rows now, beyond 99 % of the residuals then
    covered: bool

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, and the advice."""
        return asdict(self) | {"advice": self.advice()}

    def advice(self) -> str:
        """Say in a plain sentence whether the landmarks still do."""
        facts = (
            f"mean residual {self.residual_then:.3g} then, {self.residual_now:.3g} now; "
            f"{self.beyond_share:.1%} of the rows are beyond the former 99% quantile"
        )
        if self.covered:
            return f"The landmarks still cover the data: {facts}."
        return f"The landmarks no longer cover the data: {facts}. Make a new basis from the new rows."


def coverage(new: Sketch, old: Sketch | Basis) -> Coverage:
    """Compare residuals at the landmarks of `old`: of the rows of `new`, and of its own."""
    basis = require_landmarks(old if isinstance(old, Basis) else old.basis, "coverage")
    if [_shape(column) for column in new.basis.columns] != [_shape(column) for column in basis.columns]:
        raise IncompatibleError(
            "the sketches have different columns: "
            f"{', '.join(map(str, new.basis.columns))} and {', '.join(map(str, basis.columns))}"
        )
    now = new.tally.sample
    counted = len(now) if now.weights is None else int((now.weights > 0).sum())
    if counted < FEWEST_ROWS:
        raise InputError(
            f"the sketch has a sample of {counted} rows with weight, too few to measure residuals. Sketch "
            "with a larger `sample_rows`"
        )
    then = _residuals_then(old)
    rows = now.scaled(new.basis.middle)
    X = rows
    if not basis.text:
        features = rows * new.basis.scale + new.basis.center
        if basis.encoded or new.basis.encoded:
            features = translated(features, new.basis, basis)
        X = basis.scaled_features(features)
    residuals = residuals_of(basis.kernel.diagonal(X), features_of(basis, X))
    weights = relative_weights(now.weights, len(X))
    mean, mean_se = weighted_mean(residuals, weights, share_left=1 - len(X) / max(new.rows, len(X)))
    slack = _rounding(then["mean_norm"])
    beyond = float((weights * (residuals > then["residual_quantiles"]["99%"] + slack)).mean())
    grown = _has_grown(mean, mean_se, then, slack)
    # Beyond doubt, here too: small samples differ by chance.
    share_se = math.sqrt(UNCOVERED_SHARE * (1 - UNCOVERED_SHARE) * (1 / len(X) + 1 / then["rows"]))
    return Coverage(
        rows_then=then["rows"],
        rows_now=len(X),
        residual_then=then["mean_residual"],
        residual_then_se=then["mean_residual_se"],
        residual_now=mean,
        residual_now_se=mean_se,
        beyond_share=beyond,
        covered=not grown and beyond <= UNCOVERED_SHARE + 2 * share_se,
    )


def _shape(column: Column) -> tuple[str, int, bool]:
    return column.name, column.width, column.text


def _residuals_then(old: Sketch | Basis) -> dict[str, Any]:
    """Return what is known of the residuals of rows like those that landmarks were chosen from.

    Rows held out from the choice tell it best: in the sample of a small table there are many landmarks,
    whose residual is 0.
    """
    held_out = (old if isinstance(old, Basis) else old.basis).origin.get("held_out")
    if held_out is not None:
        return dict(held_out)
    quality = None if isinstance(old, Basis) else old.quality(effective_dimension=False)
    if not isinstance(quality, Quality):
        raise InputError("the old file has no sampled rows, so its own residuals are unknown")
    return quality.describe()
