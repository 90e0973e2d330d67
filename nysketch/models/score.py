"""How well a model fits the rows of a source; and sums over all rows of what a model says of them.

Sums are added up in the order of the rows, so that they do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from nysketch._support.exact import ExactSum
from nysketch._support.html_repr import counted, html_table, listed, one_line, with_error
from nysketch._types import Floats, Progress
from nysketch.engines.protocol import Check, Engine
from nysketch.engines.threads import engine_of
from nysketch.errors import InputError
from nysketch.models.base import Model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.passes.chunks import no_rows_left
from nysketch.passes.task import FragmentTask, row_reporter, unchanged
from nysketch.sources.protocol import Fragment, Source

# ---- sums over all rows, and the score -------------------------------------------------------------

Sums = dict[str, Any]


def sum_over(
    model: Model,
    source: Source,
    work: Callable[[Floats, Floats | None], Sums],
    *,
    nulls: str = "keep",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Sums:
    """Add up what `work` returns for some rows and their weights, by name, over all valid rows.

    Also returns how many `rows` there were, how many were `dropped`, and their total `weight`.
    """
    summer = _FragmentSummer(model, source, work, nulls=nulls)
    engine = engine_of(engine)
    report = row_reporter(progress, summer, engine, rows=source.rows)
    totals: dict[str, ExactSum] = {}
    parts = engine.run_in_order(summer, source.fragments(), meanwhile=report)
    report()
    with unchanged(source), closing(parts):
        for part in parts:
            # Nothing is lost on the way: as if there were one fragment, of any length.
            _add(totals, {name: ExactSum(np.asarray(v), np.zeros_like(v)) for name, v in part.items()})
    result = {name: total.high for name, total in totals.items()}
    if not result or not result["rows"]:
        raise no_rows_left(int(result["dropped"]) if result else 0)
    if not result["weight"] > 0:
        raise InputError(f"all weights in column {source.weights!r} are 0")
    return result


class _FragmentSummer(FragmentTask[Iterator[Sums]]):
    """Adds up what `work` returns for the rows of a fragment."""

    def __init__(
        self, model: Model, source: Source, work: Callable[[Floats, Floats | None], Sums], *, nulls: str
    ) -> None:
        model.require_columns(source.columns)
        super().__init__(source, nulls=model.policy(nulls), fill=model.fill)
        self._work, self._step = work, model.block_rows

    def __call__(self, fragment: Fragment, check: Check) -> Iterator[Sums]:
        """Yield the sums."""
        sums: Sums = {}
        for chunk in self.chunks(fragment, check):
            rows, weights = chunk.rows, chunk.weights
            if chunk.dropped:
                rows, weights = rows[chunk.keep], None if weights is None else weights[chunk.keep]
            for start in range(0, len(rows), self._step):
                block = slice(start, start + self._step)
                _add(sums, self._work(rows[block], None if weights is None else weights[block]))
            weight = len(rows) if weights is None else weights.sum()
            _add(sums, {"rows": float(len(rows)), "dropped": float(chunk.dropped), "weight": float(weight)})
        yield sums


def _add(total: dict[str, Any], part: dict[str, Any]) -> None:
    for name, value in part.items():
        total[name] = total[name] + value if name in total else value


@dataclass(frozen=True, kw_only=True, repr=False)
class Score:
    """How well a model describes rows. Means are over rows, by their weights if there are any.

    Costs are squared distances in scaled units, or −log p(x); `shares` of the rows are those of clusters,
    or the mean probabilities of components.
    """

    rows: int
    dropped_rows: int
    total_weight: float
    mean_cost: float
    standard_error: float
    shares: tuple[float, ...]
    mean_squared_distance_data_units: float | None = None
    bic: float | None = None

    @property
    def total_cost(self) -> float:
        """The sum of the costs, times the weights if there are any."""
        return self.mean_cost * self.total_weight

    def __repr__(self) -> str:
        cost = f"mean cost {with_error(self.mean_cost, self.standard_error)}"
        return one_line("Score", cost, counted(self.rows, "row"))

    def _repr_html_(self) -> str:
        facts = {
            "mean cost": with_error(self.mean_cost, self.standard_error),
            "rows": f"{self.rows:,}",
            "dropped rows": f"{self.dropped_rows:,}" if self.dropped_rows else None,
            "shares": listed(f"{share:.1%}" for share in self.shares),
            "BIC": None if self.bic is None else f"{self.bic:,.6g}",
        }
        return html_table("Score", facts)


def score(
    model: KMeansModel | MixtureModel,
    source: Source,
    *,
    nulls: str = "keep",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Score:
    """Measure a model on all rows of a source, weighted by the source's weights if it has any."""
    # Of shares and places on circles there are no units of the data.
    is_scaled = isinstance(model, KMeansModel) and bool((model.scale != 1).any()) and not model.encoded

    def work(rows: Floats, weights: Floats | None) -> Sums:
        w = np.ones(len(rows)) if weights is None else weights
        sums: Sums = {}
        if isinstance(model, KMeansModel):
            labels, differences = model.nearest(rows)
            costs = np.einsum("ij,ij->i", differences, differences)
            sums["shares"] = np.bincount(labels, w, minlength=model.k)
            if is_scaled:
                with np.errstate(over="ignore"):
                    sums["unscaled"] = w @ np.square(differences * model.scale).sum(axis=1)
        else:
            densities, shares = model.posterior(rows)
            costs = -densities
            sums["shares"] = w @ shares
        return sums | {"costs": w @ costs, "w²": w @ w, "w²c": (w * w) @ costs, "w²c²": w**2 @ costs**2}

    sums = sum_over(model, source, work, nulls=nulls, engine=engine, progress=progress)
    n, weight = int(sums["rows"]), float(sums["weight"])
    mean = float(sums["costs"] / weight)
    # That of a ratio of sums over independent rows.
    variance = max(float(sums["w²c²"] - 2 * mean * sums["w²c"] + mean**2 * sums["w²"]), 0.0)
    unscaled = float(sums["unscaled"]) / weight if is_scaled else None
    bic = None
    if isinstance(model, MixtureModel) and source.weights is None:
        bic = 2 * mean * n + model.n_parameters * math.log(n)
    return Score(
        rows=n,
        dropped_rows=int(sums["dropped"]),
        total_weight=weight,
        mean_cost=mean,
        standard_error=math.sqrt(variance) / weight,
        shares=tuple((sums["shares"] / weight).tolist()),
        mean_squared_distance_data_units=unscaled
        if unscaled is not None and math.isfinite(unscaled)
        else None,
        bic=bic,
    )
