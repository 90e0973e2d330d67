"""What is asked of a comparison, and what it finds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nysketch._support.html_repr import MOST_ROWS, counted, html_table, one_line, with_error
from nysketch._support.html_repr import verdict as verdict_in_words
from nysketch._support.seeds import require_seed
from nysketch.errors import UsageError
from nysketch.twosample.block_descent import ROBUST_METHODS, TRIM
from nysketch.twosample.explain import Explanation
from nysketch.twosample.median_of_means import RobustMMD, require_robust
from nysketch.twosample.mmd import Dependence, MMDEstimate
from nysketch.twosample.permutation import BOOTSTRAP, PERMUTATION, MMDTestResult

AUTO, NONE = "auto", "none"
TESTS = (AUTO, PERMUTATION, BOOTSTRAP, NONE)
RANDOM, CONSECUTIVE = "random", "consecutive"
PARTITIONS = (AUTO, RANDOM, CONSECUTIVE)
ADJUSTMENTS = ("holm", "bh", NONE)
DEFAULT_PERMUTATIONS = 1000
# An MMD that a test should be able to find, for kernels up to 1: that of one column of ten that moved by a
# quarter of its standard deviation. 1,000 rows a side find 0.037 there, 300 rows 0.05.
MATTERS = 0.04


@dataclass(frozen=True)
class Options:
    """How to compare."""

    test: str = AUTO
    permutations: int | None = None  # None: as many as comparisons need
    alpha: float = 0.05
    seed: int = 0
    blocks: str = AUTO
    robust: int | str | None = None  # groups, or "auto"
    robust_method: str = TRIM
    explain: bool = True
    regions: int = 3

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("test", self.test, TESTS),
            ("blocks", self.blocks, PARTITIONS),
            ("robust_method", self.robust_method, ROBUST_METHODS),
        ):
            if value not in allowed:
                raise UsageError(f"`{what}` must be one of {', '.join(allowed)}, not {value!r}")
        if not 0 < self.alpha < 1:
            raise UsageError(f"`alpha` must be between 0 and 1, not {self.alpha:g}")
        if self.permutations is not None and not 1 <= self.permutations <= 10**7:
            raise UsageError(f"`permutations` must be between 1 and 10000000, not {self.permutations}")
        require_robust(self.robust)
        if self.robust_method != TRIM and self.robust is None:
            raise UsageError(f'`robust_method="{self.robust_method}"` needs `robust`: "auto", or a number')
        if self.robust_method != TRIM and self.test == BOOTSTRAP:
            raise UsageError('only `robust_method="trim"` has a bootstrap: leave out `test="bootstrap"`')
        require_seed(self.seed)

    def draws(self, comparisons: int = 1) -> int:
        """Return how often to draw: an adjusted p-value cannot be below comparisons / (draws + 1)."""
        room = math.ceil(4 * comparisons / self.alpha)
        return max(DEFAULT_PERMUTATIONS, room) if self.permutations is None else self.permutations

    def require_draws(self, comparisons: int = 1) -> None:
        """Raise a UsageError if nothing could be rejected, with so few permutations."""
        draws = self.draws(comparisons)
        if self.test != NONE and (draws + 1) * self.alpha < comparisons * (1 - 1e-9):
            adjusted = f" adjusted for {comparisons} comparisons" if comparisons > 1 else ""
            raise UsageError(
                f"with {draws} permutations no p-value{adjusted} is below {comparisons / (draws + 1):.2g}: "
                f"nothing can be rejected at `alpha={self.alpha:g}`. Use more `permutations`"
            )


@dataclass(frozen=True)
class Unseen:
    """What blocks cannot show: rows that are off by up to so many deviations of typical rows.

    `mmd_per_percent` is by how much the MMD may be wrong for each percent of such rows in either sketch.
    """

    deviations: float
    mmd_per_percent: float


@dataclass(frozen=True, eq=False)
class Robustness:
    """What a median of means found: outlying blocks, and whether they are too many to trust the MMD.

    Trimming leaves them out; other methods take the median over all blocks. `tolerates` is how many corrupted
    rows in both sketches together are left out for certain, however far off they are; `unseen` is about those
    that are not far off.
    """

    method: str
    median: RobustMMD  # over groups of all blocks
    left_out: tuple[list[int], list[int]]  # numbers of the outlying blocks, or spans
    overwhelmed: bool
    tolerates: int
    unseen: Unseen

    @property
    def trimmed(self) -> bool:
        """Whether outlying blocks were left out, rather than outvoted."""
        return self.method == TRIM

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "disagreement": _finite(self.median.disagreement),
            "groups": self.median.groups,
            "left_out": {"first": self.left_out[0], "second": self.left_out[1]},
            "median_mmd": self.median.value,
            "method": self.method,
            "overwhelmed": self.overwhelmed,
            "tolerates": self.tolerates,
            "unseen": {name: _finite(value) for name, value in asdict(self.unseen).items()},
        }


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How two sketches differ; without outlying blocks, if that was asked for."""

    names: tuple[str, str]
    rows: tuple[int, int]
    distance: MMDEstimate
    blocks: str
    block_counts: tuple[int, int]
    dependences: tuple[Dependence | None, Dependence | None]
    verdict: MMDTestResult | None
    alpha: float
    allowance: float
    robustness: Robustness | None
    explanation: Explanation | None
    notes: list[str]
    p_value_adjusted: float | None = None
    sampled_rows: tuple[int, int] | None = None  # that tell of what is outside the span
    seen: float = 1.0  # the part of a squared MMD that the test sees, if it is where rows are
    blind: bool = False  # the landmarks express next to nothing of the rows of either
    untested: bool = False  # a difference beyond chance is outside their span, where the test does not look
    matters: float | None = None  # the MMD that a test should find

    @property
    def mmd(self) -> float:
        """The maximum mean discrepancy: the distance of the mean embeddings."""
        return self.distance.mmd

    @property
    def standard_error(self) -> float:
        """The standard error of the MMD; NaN where it is unknown."""
        return self.distance.standard_error

    @property
    def detectable(self) -> float | None:
        """The true MMD that the test finds in at least four of five cases; None without a test.

        None also if the test misses a difference because it is outside the span of the landmarks.
        """
        if self.untested and not self.rejected:
            return None
        return None if self.verdict is None else _finite(self.verdict.detectable / math.sqrt(self.seen))

    @property
    def threshold(self) -> float | None:
        """The MMD beyond which the test rejects, if as much is outside the span; None without a test."""
        if self.verdict is None or not math.isfinite(self.verdict.threshold):
            return None
        return math.sqrt(max(self.verdict.threshold**2 + (self.distance.squared_outside or 0.0), 0.0))

    def undecided(self, at_least: float = 0.0) -> bool:
        """Tell whether the test may have missed a difference that matters: one with an MMD of `at_least`.

        Without that, it is 0.04, for kernels with values up to 1; for others, there is no saying. A
        difference beyond chance where the test does not look is one, unless the MMD is below `at_least`.
        """
        if self.rejected is not False:
            return False
        if self.untested:
            return self.mmd >= at_least
        most = at_least or self.matters
        return self.blind or self.detectable is None or (most is not None and self.detectable > most)

    @property
    def p_value(self) -> float | None:
        """The share of chance results that are as extreme; None without a test."""
        return None if self.verdict is None else self.verdict.p_value

    @property
    def rejected(self) -> bool | None:
        """Whether the difference is more than chance, after adjustment for other comparisons."""
        if self.verdict is None:
            return None
        p = self.verdict.p_value if self.p_value_adjusted is None else self.p_value_adjusted
        return p <= self.alpha

    def _found(self) -> tuple[str, ...]:
        """Return what was found, in words."""
        p = self.p_value if self.p_value_adjusted is None else self.p_value_adjusted
        distance = f"MMD {with_error(self.mmd, self.distance.standard_error)}"
        return distance, *verdict_in_words(self.rejected, p, self.alpha, "different")

    def __repr__(self) -> str:
        return one_line("Comparison", *self._found())

    def _repr_html_(self) -> str:
        facts = {
            "first": self.names[0],
            "second": self.names[1],
            "found": ", ".join(self._found()),
            "rows": " and ".join(f"{rows:,}" for rows in self.rows),
            "notes": " ".join(self.notes) or None,
        }
        return html_table("Comparison", facts)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        verdict, distance = self.verdict, self.distance
        return {
            "allowance": self.allowance,
            "alpha": self.alpha,
            "block_counts": list(self.block_counts),
            "blocks": self.blocks,
            "detectable": self.detectable,
            "explanation": None if self.explanation is None else self.explanation.describe(),
            "first": self.names[0],
            "mmd": self.mmd,
            "mmd_projected": distance.projected,
            "mmd_squared": distance.squared,
            "mmd_squared_se": _finite(distance.squared_se),
            "mmd_squared_unbiased": _finite(distance.squared_unbiased),
            "notes": self.notes,
            "outside_share": distance.outside_share,
            "p_value": self.p_value,
            "p_value_adjusted": self.p_value_adjusted,
            "permutations": None if verdict is None else verdict.permutations,
            "rejected": self.rejected,
            "robust": None if self.robustness is None else self.robustness.describe(),
            "rows": list(self.rows),
            "sampled_rows": None if self.sampled_rows is None else list(self.sampled_rows),
            "second": self.names[1],
            "standard_error": _finite(distance.standard_error),
            "test": NONE if verdict is None else verdict.test,
            "tested_blocks": None if verdict is None else list(verdict.blocks),
            "threshold": self.threshold,
            "undecided": None if verdict is None else self.undecided(),
            "variance_ratios": [None if d is None else asdict(d) for d in self.dependences],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Several comparisons, with p-values adjusted for their number."""

    names: list[str]
    pairs: list[tuple[int, int]]
    found: list[Comparison]
    adjustment: str

    @property
    def rejected(self) -> list[Comparison]:
        """Those whose difference is more than chance."""
        return [comparison for comparison in self.found if comparison.rejected]

    def __repr__(self) -> str:
        pairs = f"{counted(len(self.found), 'pair')} of {counted(len(self.names), 'sketch', 'sketches')}"
        tested = [comparison for comparison in self.found if comparison.rejected is not None]
        verdict = f"{len(self.rejected)} different at {tested[0].alpha:g}" if tested else "not tested"
        return one_line("Comparisons", pairs, verdict)

    def _repr_html_(self) -> str:
        facts = {
            f"{found.names[0]} – {found.names[1]}": ", ".join(found._found())
            for found in self.found[:MOST_ROWS]
        }
        more = len(self.found) - len(facts)
        return html_table("Comparisons", facts | {"more": f"{more:,} pairs" if more else None})

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: those of the comparison, or a list of all of them."""
        if len(self.found) == 1:
            return self.found[0].describe()
        return {
            "adjustment": self.adjustment,
            "comparisons": [comparison.describe() for comparison in self.found],
            "rejected": bool(self.rejected),
            "sketches": self.names,
        }
