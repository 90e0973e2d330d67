"""Are groups of columns independent? From a sketch: HSIC, a test, how strong it is, and the same for pairs.

The statistics are those of statistic.py. Here they get what they need from a sketch: means at the landmarks
from the sums over all rows, and sampled rows to shuffle. If the sample is all rows, the test is exact;
otherwise it compares the statistic of all rows with what shuffling does to that of the sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.html_repr import MOST_ROWS, counted, html_table, listed, one_line, with_error
from nysketch._support.html_repr import verdict as verdict_in_words
from nysketch._support.seeds import require_seed
from nysketch._types import Floats, Rows
from nysketch.accumulators.groups import Subset, grouped
from nysketch.accumulators.options import DEFAULT_SHUFFLES, MOST_SHUFFLES
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.hsic import statistic
from nysketch.hsic.statistic import HSICTestResult
from nysketch.kernels import Product
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import Embedded
from nysketch.twosample.multiple_testing import holm

# Fewer rows than these say nothing.
FEWEST_ROWS = 20
# Sampled rows to measure the strength of a dependence, and its error, on: pairs of them take a second.
_MEASURED_ROWS = 2000
# Rows in which groups must be expected to vary together for the asymptotic test: as for a table of counts.
_FEWEST_VARYING = 5.0


@dataclass(frozen=True, repr=False)
class Independence:
    """Whether some groups are independent of each other; `pairs` are all pairs of them, if asked for."""

    groups: tuple[str, ...]
    rows: int
    hsic: float
    standard_error: float | None  # None without sampled rows
    normalised: float | None
    verdict: HSICTestResult | None
    alpha: float
    notes: list[str]
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
            "exact": None if verdict is None else verdict.exact,
            "groups": list(self.groups),
            "hsic": self.hsic,
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
            "threshold": None if verdict is None or np.isinf(verdict.threshold) else verdict.threshold,
        }
        if self.p_value_adjusted is not None:
            described["p_value_adjusted"] = self.p_value_adjusted
        if self.pairs:
            described["pairs"] = [pair.describe() for pair in self.pairs]
        return described


def independence(
    sketch: Sketch,
    *,
    alpha: float = 0.05,
    shuffles: int | None = None,
    seed: int = 0,
    pairs: bool = False,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Independence:
    """Tell whether the groups of columns of a sketch are independent of each other.

    `shuffles` are as many as the sketch was made for, and as alpha needs, unless told otherwise; 0 for no
    test.
    """
    if not 0 < alpha < 1:
        raise UsageError(f"`alpha` must be between 0 and 1, not {alpha:g}")
    require_seed(seed)
    view = _View.of(sketch)
    count = len(view.basis.groups)
    wanted: list[Subset] = [tuple(range(count))]
    if pairs and count > 2:
        wanted += combinations(range(count), 2)
        view.require_pairs()
    draws = _shuffles(sketch, shuffles, alpha, len(wanted) - 1)
    found = []
    for number, part in enumerate(wanted):
        if progress is not None:
            progress(number, len(wanted))
        found.append(_of_part(view, part, alpha=alpha, permutations=draws, seed=seed, threads=threads))
    if progress is not None:
        progress(len(wanted), len(wanted))
    joint, rest = found[0], found[1:]
    notes = [*dict.fromkeys([*view.notes, *(note for each in found for note in each.notes)])]
    return replace(joint, pairs=tuple(_adjust_pairs(rest)), notes=notes)


def require_shuffles(shuffles: int, alpha: float, pairs: int = 0) -> None:
    """Raise a UsageError if nothing could be rejected by so few shuffles, or there are too many."""
    if not 0 <= shuffles <= MOST_SHUFFLES:
        raise UsageError(f"`permutations` must be between 0 and {MOST_SHUFFLES}, not {shuffles}")
    together = max(pairs, 1)  # p-values that are adjusted for their number
    if shuffles and (shuffles + 1) * alpha < together * (1 - 1e-9):
        raise UsageError(
            f"with {shuffles} permutations no p-value is below {together / (shuffles + 1):.2g}: nothing can "
            f"be rejected at `alpha={alpha:g}`. Use more `permutations`"
        )


def _shuffles(sketch: Sketch, shuffles: int | None, alpha: float, pairs: int) -> int:
    """Return how many to draw: what was asked for, or what the sketch was made for and alpha needs."""
    if shuffles is None:
        usual = int(sketch.settings.get("shuffles") or DEFAULT_SHUFFLES)
        shuffles = max(usual, min(math.ceil(4 * max(pairs, 1) / alpha), MOST_SHUFFLES))
    require_shuffles(shuffles, alpha, pairs)
    return shuffles


def _adjust_pairs(pairs: list[Independence]) -> list[Independence]:
    values = [pair.p_value for pair in pairs]
    if len(pairs) < 2 or any(value is None for value in values):
        return pairs
    together = holm(np.array(values, np.float64)).tolist()
    return [replace(pair, p_value_adjusted=p) for pair, p in zip(pairs, together, strict=True)]


@dataclass(frozen=True, eq=False)
class _View:
    """What a sketch knows of its groups, and its sampled rows, scaled."""

    sketch: Sketch
    basis: NystromBasis
    parts: list[NystromBasis]  # of each group
    rows: Rows
    notes: list[str]

    @classmethod
    def of(cls, sketch: Sketch) -> _View:
        """Look at a sketch; raise an error if it knows nothing of groups."""
        basis = grouped(sketch.basis)
        if basis is None:
            raise IncompatibleError(
                "the sketch has no groups of columns. Sketch the data with "
                '`groups={"x": ["a", "b"], "y": ["c"]}`'
            )
        if sketch.groups is None:
            raise IncompatibleError(
                "the sketch has no sums of its groups: it was made with `permutations=0` or by an older "
                "version, or merged with such a sketch. Sketch the data again"
            )
        if sketch.rows < FEWEST_ROWS:
            raise InputError(f"the sketch has {sketch.rows} rows; the test needs at least {FEWEST_ROWS}")
        sketch.require_weight()
        rows = np.asarray(sketch.tally.sample.scaled(basis.middle), np.float64)
        parts = [basis.of_groups([number]) for number in range(len(basis.groups))]
        return cls(sketch, basis, parts, rows, _notes_on_order(sketch) + _notes_on_duplicates(sketch))

    def require_pairs(self) -> None:
        """Raise an IncompatibleError unless there are sums of pairs."""
        assert self.sketch.groups is not None
        if not self.sketch.groups.pairs:
            raise IncompatibleError(
                "the sketch has no sums of pairs of groups. Sketch the data with `pairs=True`"
            )

    @property
    def all_rows(self) -> bool:
        """Whether all rows are in the sample."""
        return len(self.rows) == self.sketch.rows

    def means(self, part: Subset) -> tuple[Floats, Floats]:
        """Return the means at the landmarks of the product over some groups, and of each of them."""
        sums = self.sketch.groups
        assert sums is not None
        weight = self.sketch.total_weight
        whole = len(part) == len(self.basis.groups)
        joint = self.sketch.kernel_sums if whole else sums.only((part,)).sums.high[0]
        singles = sums.only(tuple((number,) for number in part)).sums.high
        return joint / weight, singles / weight


def _of_part(
    view: _View, part: Subset, *, alpha: float, permutations: int, seed: int, threads: int
) -> Independence:
    basis = view.basis if len(part) == len(view.basis.groups) else view.basis.of_groups(part)
    kernel = basis.kernel
    assert isinstance(kernel, Product)
    mean, means = view.means(part)
    parts = [view.parts[number] for number in part]
    squared = statistic.hsic_squared(basis, parts, mean, means)
    rows = view.rows[:, view.basis.features_of(part)]
    notes: list[str] = []
    some = rows[:_MEASURED_ROWS]
    error = strength = None
    if len(some) >= FEWEST_ROWS and not view.sketch.weighted:
        measured = statistic.measure(basis, parts, some)
        sampling = statistic.hsic_standard_error(basis, mean, means, some, view.sketch.rows)
        error = math.hypot(sampling, measured.landmark_error)
        strength = measured.normalise(squared)
    settings: dict[str, Any] = {
        "permutations": permutations,
        "alpha": alpha,
        "seed": seed,
        "threads": threads,
    }
    verdict = None
    if not permutations:
        pass
    elif view.sketch.weighted:
        notes.append("Rows have weights, and weighted rows cannot be permuted: no test.")
    elif len(rows) < FEWEST_ROWS:
        notes.append(
            "The sketch has no sampled rows to permute: no test. Sketch with more `permutation_rows`."
        )
    elif view.all_rows:
        verdict = statistic.exact_test(kernel, rows, landmarks=basis.m, **settings)
    elif _varying_together(kernel, rows) < _FEWEST_VARYING:
        notes.append(
            f"{', '.join(group.name for group in kernel.groups)}: too few rows vary in several groups at "
            "once for asymptotics to hold. The test uses the sampled rows only; more `permutation_rows` "
            "have more power."
        )
        verdict = statistic.exact_test(kernel, rows, landmarks=basis.m, **settings)
    else:
        verdict = _sampled_test(basis, parts, mean, means, rows, view.sketch.rows, settings)
    return Independence(
        groups=tuple(group.name for group in kernel.groups),
        rows=view.sketch.rows,
        hsic=float(np.sqrt(squared)),
        standard_error=error,
        normalised=strength,
        verdict=verdict,
        alpha=alpha,
        notes=notes,
    )


def _varying_together(kernel: Product, rows: Rows) -> float:
    """Return in how many rows the two groups that vary least would both vary, if they were independent.

    A group varies where it is not what it is most often. Of rare flags there may be none that are set
    together in the sample, and some among all rows: shuffling the sample does not tell what chance does.
    """
    shares = []
    for group in kernel.groups:
        _, counts = np.unique(group.of(rows), axis=0, return_counts=True)
        shares.append(1 - float(counts.max()) / len(rows))
    one, other = sorted(shares)[:2]
    return len(rows) * one * other


def _sampled_test(
    basis: NystromBasis,
    parts: list[NystromBasis],
    mean: Floats,
    means: Floats,
    rows: Rows,
    count: int,
    settings: dict[str, Any],
) -> HSICTestResult:
    """Test by a sample; of landmarks that are rows of the data, only what other landmarks express counts.

    They express themselves fully, and other rows less well: with many columns the test would reject too
    often. Leaving these rows out is no remedy. They may have been chosen for where they are, in the tails of
    all groups at once, and without them groups would depend on each other.
    """
    own, times = _own_rows(basis, rows)
    found, sampled = int((own >= 0).sum()), len(rows) / count
    if not found:
        return statistic.sampled_test(basis, mean, means, rows, of_rows=count, **settings)
    # A landmark that is many rows is expressed as well as any other of these.
    single = times <= 1
    alone = statistic.only_own(basis) * single
    of_groups = np.array([statistic.only_own(part) for part in parts]) * single
    # Are all landmarks rows of the data, or only some, whose number is known but not which ones they are?
    expected = basis.m * sampled
    share = 1.0 if found + 4 * np.sqrt(expected * (1 - sampled)) >= expected else found / expected
    return statistic.sampled_test(
        basis,
        mean - share * alone / count,
        means - share * of_groups / count,
        rows,
        of_rows=count,
        own=own,
        of_groups=of_groups,
        excess=share * (1 - share) * float(alone.sum()) / count**2,
        **settings,
    )


def _own_rows(basis: NystromBasis, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each landmark the number of the sampled row that it is, or -1; and how many rows it is.

    To the digits that a sample has.
    """

    def keys(of: Rows) -> list[bytes]:
        return [row.tobytes() for row in (of - basis.middle).astype(np.float32)]

    of_rows = keys(rows)
    times, numbers = Counter(of_rows), {key: number for number, key in enumerate(of_rows)}
    landmarks = keys(basis.scaled_landmarks)
    return (
        np.array([numbers.get(key, -1) for key in landmarks], np.int64),
        np.array([times[key] for key in landmarks], np.int64),
    )


def _notes_on_duplicates(sketch: Sketch) -> list[str]:
    """Say so if rows were counted twice."""
    if not (np.diff(sketch.tally.sample.keys) == 0).any():
        return []
    return ["Some rows are counted twice, as with `nysketch.merge(force=True)`: the p-value is too small."]


def _notes_on_order(sketch: Sketch) -> list[str]:
    """Say so if rows resemble their neighbours."""
    found = Embedded.of(sketch, sketch.basis.to_features).dependence
    if found is None or not found.found:
        return []
    return [
        f"Rows depend on their neighbours or are sorted (variance ratio {found.ratio:.3g}). The p-value is "
        "valid if at most one group is affected, as in a file sorted by one of them; otherwise it is too "
        "small."
    ]
