"""What a test of independence found, for people and for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nysketch._support.html_repr import MOST_ROWS, counted, html_table, listed, one_line, with_error
from nysketch._support.html_repr import verdict as verdict_in_words
from nysketch.hsic.statistic import HSICTestResult
from nysketch.twosample.results import RANDOM


@dataclass(frozen=True, repr=False)
class Independence:
    """Whether some groups are independent of each other; `pairs` are all pairs of them, if asked for."""

    groups: tuple[str, ...]
    rows: int
    hsic: float  # without bias; at landmarks if rows have weights, or none are sampled
    standard_error: float | None  # None without sampled rows
    hsic_at_landmarks: float  # the estimator of the paper
    normalised: float | None
    verdict: HSICTestResult | None
    alpha: float
    notes: list[str]
    blocks: str = RANDOM  # what was permuted: rows in any order, or in that of their file
    pairs: tuple[Independence, ...] = ()
    p_value_adjusted: float | None = None  # of a pair, for the number of pairs

    @property
    def p_value(self) -> float | None:
        """The share of permutations whose statistic is as large; None without a test."""
        return None if self.verdict is None else self.verdict.p_value

    @property
    def rejected(self) -> bool | None:
        """Whether they depend on each other beyond chance, after adjustment for the number of pairs."""
        p = self.p_value if self.p_value_adjusted is None else self.p_value_adjusted
        return None if p is None else p <= self.alpha

    def _found(self) -> tuple[str, ...]:
        p = self.p_value if self.p_value_adjusted is None else self.p_value_adjusted
        strength = f"HSIC {with_error(self.hsic, self.standard_error)}"
        return strength, *verdict_in_words(self.rejected, p, self.alpha, "dependent")

    def __repr__(self) -> str:
        return one_line("Independence", counted(len(self.groups), "group"), *self._found())

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "groups": listed(self.groups),
            "found": ", ".join(self._found()),
            "strength": None if self.normalised is None else f"{self.normalised:.3g}",
            "rows": f"{self.rows:,}",
            "notes": " ".join(self.notes) or None,
        }
        pairs = {", ".join(pair.groups): ", ".join(pair._found()) for pair in self.pairs[:MOST_ROWS]}
        return html_table("Independence", facts | pairs)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        verdict = self.verdict
        described: dict[str, Any] = {
            "alpha": self.alpha,
            "blocks": None if verdict is None else self.blocks,
            "exact": None if verdict is None else verdict.exact,
            "groups": list(self.groups),
            "hsic": self.hsic,
            "hsic_at_landmarks": self.hsic_at_landmarks,
            "hsic_squared": self.hsic**2,
            "normalised": self.normalised,
            "notes": self.notes,
            "p_value": self.p_value,
            "rejected": self.rejected,
            "rows": self.rows,
            "shuffled_rows": None if verdict is None else verdict.permuted_rows,
            "shuffles": None if verdict is None else verdict.permutations,
            "standard_error": self.standard_error,
            "statistic": None if verdict is None else verdict.statistic,
            "statistic_of": None if verdict is None else verdict.kind,
            "threshold": None if verdict is None or np.isinf(verdict.threshold) else verdict.threshold,
        }
        if self.p_value_adjusted is not None:
            described["p_value_adjusted"] = self.p_value_adjusted
        if self.pairs:
            described["pairs"] = [pair.describe() for pair in self.pairs]
        return described
