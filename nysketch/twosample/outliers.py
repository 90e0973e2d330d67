"""Comparisons that tolerate corrupted rows: which blocks to leave out, and when they are too many."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import features_of
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.block_descent import TRIM, robust_mmd, robust_test
from nysketch.twosample.embeddings import Embedded
from nysketch.twosample.median_of_means import FEWEST_GROUPS, geometric_median, require_groups
from nysketch.twosample.mmd import Blocks, Dependence, MMDEstimate
from nysketch.twosample.order import order_despite_outliers
from nysketch.twosample.permutation import MMDTestResult, exchangeable
from nysketch.twosample.pooled import OutlyingBlocks, find_outlying
from nysketch.twosample.results import AUTO, CONSECUTIVE, RANDOM, Options, Robustness, Unseen
from nysketch.twosample.strategy import Tolerance, choose_partition, notes_on_partition

# Blocks that vary more than so many times as much as most sampled rows do are not made of such rows; from a
# tenth of that on there are heavy tails, at least.
_WILDLY = 100.0
_SAMPLED, _FEWEST_SAMPLED = 500, 50
# Outliers follow each other if random blocks vary so many times as much as spans without the outlying ones.
_CALMER = 4.0
# With fewer groups the median is hardly one; from there on, a quarter of them may hold an outlying block.
_FEWEST_AUTO, _GROUPS_PER_BLOCK = 9, 4


@dataclass(frozen=True, eq=False)
class Kept:
    """What is left of two sketches without their outlying blocks; which blocks to compare, and notes on both.

    `robustness` is what a median over all blocks says, those in `blocks`.
    """

    both: tuple[Embedded, Embedded]
    robustness: Robustness
    partition: str
    notes: list[str]
    blocks: tuple[Blocks, Blocks]
    tested: bool  # if not, a note says why

    def distance(self) -> MMDEstimate:
        """Return the MMD as the median over groups has it, which comes without an error."""
        value, unknown = self.robustness.median.value, math.nan
        return MMDEstimate(value, value**2, unknown, unknown, unknown, projected=value)

    def test(self, options: Options, tolerance: Tolerance) -> MMDTestResult:
        """Permute the robust statistic itself (Algorithm 3 of the paper)."""
        return robust_test(
            options.robust_method,
            *self.blocks,
            self.robustness.median.groups,
            alpha=options.alpha,
            permutations=options.draws(),
            seed=options.seed,
            floor=tolerance.floor + tolerance.allowance,
        )


def leave_out_outliers(
    both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str], *, exact: bool = True
) -> Kept:
    """Leave out the blocks of both that are far from all others.

    `exact` if blocks of both may be exchanged once they hold equally many rows: then they are put together
    until they do, and only then judged.
    """
    for side, name in zip(both, names, strict=True):
        require_groups(FEWEST_GROUPS, len(side.random), name)
    random = _Cut.of(tuple(side.random for side in both), RANDOM, names, options, exact=exact)
    spans = None
    if options.blocks != RANDOM and all(s.spans is not None and len(s.spans) >= FEWEST_GROUPS for s in both):
        parts = tuple(side.spans for side in both if side.spans is not None)
        spans = _Cut.of(parts, CONSECUTIVE, names, options, exact=False)
    typical = [_typical_row(side.sketch) for side in both]
    chosen = _choose(both, random, spans, typical, options, names)
    cut, trouble, notes = chosen.cut, chosen.trouble, chosen.notes
    groups, fewer = cut.groups(options)
    if options.robust_method != TRIM and not trouble:
        trouble = cut.trouble_of_median(options.robust_method)
    robustness = Robustness(
        options.robust_method,
        robust_mmd(options.robust_method, *cut.blocks, groups, seed=options.seed),
        cut.left_out,
        bool(trouble),
        cut.tolerates(options) if options.robust_method == TRIM else 0,
        cut.unseen(both, typical),
    )
    sizes = cut.note_on_sizes()
    if not sizes and options.robust_method != TRIM and not (cut.same_size and exact):
        sizes = [
            f'`robust_method="{options.robust_method}"` has a test for sketches at the same landmarks whose '
            "blocks hold equally many rows only: no test."
        ]
    notes = notes + fewer + (trouble or sizes + cut.notes(typical))
    tested = not trouble and not sizes
    return Kept(chosen.both, robustness, cut.kind, notes, cut.blocks, tested)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The blocks to compare and why they may still be corrupted; both sketches without outliers."""

    cut: _Cut
    trouble: list[str]
    both: tuple[Embedded, Embedded]
    notes: list[str]


def _choose(
    both: tuple[Embedded, Embedded],
    random: _Cut,
    spans: _Cut | None,
    typical: list[float | None],
    options: Options,
    names: tuple[str, str],
) -> _Chosen:
    """Choose between random blocks and spans of consecutive rows: where outliers are fewer, and by order."""
    in_random = random.trouble(typical)
    in_spans = [] if spans is None else _trouble_of_spans(spans, random, in_random, typical)
    usable = spans is not None and not in_spans
    left = tuple(
        Embedded(
            side.sketch,
            random.kept[i],
            spans.kept[i] if spans is not None and (usable or options.blocks == CONSECUTIVE) else None,
            _order(side) if usable or options.blocks != AUTO else None,
        )
        for i, side in enumerate(both)
    )
    kept = left[0], left[1]
    if in_random and options.blocks == AUTO and spans is not None and usable and spans.calmer_than(random):
        # Corrupted rows in one place of a file are in all random blocks, but in few spans.
        notes = ["The outliers are consecutive rows: spans of consecutive rows are compared."]
        return _Chosen(spans, in_spans, kept, notes)
    partition = choose_partition(kept, options, names)
    notes = notes_on_partition(kept, options, names)
    if partition == CONSECUTIVE and spans is not None:
        # Spans of sorted rows vary as much as they like: what is left must be seen in random blocks.
        unsure = options.blocks == AUTO and not in_spans and not spans.calmer_than(random)
        return _Chosen(spans, in_random if unsure else in_spans, kept, notes)
    if in_spans and not in_random:
        notes.append(
            "Corrupted rows are in most spans of consecutive rows, so it cannot be seen whether rows depend "
            "on their neighbours: if they do, the test rejects too often. Sketch with more `spans`."
        )
    return _Chosen(random, in_random, kept, notes)


@dataclass(frozen=True, eq=False)
class _Cut:
    """Both samples, cut into blocks one way, and which of these are outlying."""

    kind: str
    blocks: tuple[Blocks, Blocks]
    found: OutlyingBlocks
    left_out: tuple[list[int], list[int]]  # numbers of blocks as the sketches have them
    names: tuple[str, str]
    groups_wanted: int | None
    same_size: bool

    @classmethod
    def of(
        cls, sides: tuple[Blocks, ...], kind: str, names: tuple[str, str], options: Options, *, exact: bool
    ) -> _Cut:
        one, two = sides
        wanted = options.robust if isinstance(options.robust, int) else None
        weighted = one.weighted or two.weighted
        equal = None if weighted or not exact else exchangeable(one, two)
        if equal is not None:
            together = cls._found(equal, sides, kind, names, wanted, same_size=True)
            # Larger blocks are fewer, and stand fewer outliers.
            if [*map(len, equal)] == [*map(len, sides)] or not together.too_many():
                return together
        ratio = (one.weight / len(one)) / (two.weight / len(two))
        same = equal is None and abs(math.log(ratio)) < _SAME_SIZE
        return cls._found((one, two), sides, kind, names, wanted, same_size=same)

    @classmethod
    def _found(
        cls,
        blocks: tuple[Blocks, Blocks],
        sides: tuple[Blocks, ...],
        kind: str,
        names: tuple[str, str],
        wanted: int | None,
        *,
        same_size: bool,
    ) -> _Cut:
        found = find_outlying(*blocks)
        left_out = [
            side.numbers[np.isin(np.arange(len(side)) % len(part), wild)].tolist()
            for side, part, wild in zip(sides, blocks, found.wild, strict=True)
        ]
        return cls(kind, blocks, found, (left_out[0], left_out[1]), names, wanted, same_size)

    @property
    def kept(self) -> tuple[Blocks, Blocks]:
        """The blocks that are left; all of them, if there would be none."""
        one, two = (
            part if len(part) < len(wild) + 2 else part.only(self.found.kept(side))
            for side, (part, wild) in enumerate(zip(self.blocks, self.found.wild, strict=True))
        )
        return one, two

    def fewest(self) -> int:
        """Return how many blocks there are of the sample that has fewer."""
        return min(self.found.blocks)

    def tolerates(self, options: Options) -> int:
        """Return how many blocks of both may be outlying."""
        most = self.found.tolerates
        return min(most, (options.robust - 1) // 2) if isinstance(options.robust, int) else most

    def groups(self, options: Options) -> tuple[int, list[str]]:
        """Return how many groups to take the median over, and a note if these are fewer than wanted.

        Few groups have little noise, many stand many outliers: left open, they are as few as will do.
        """
        most, wanted = self.fewest(), options.robust
        if not isinstance(wanted, int):
            return min(max(_FEWEST_AUTO, _GROUPS_PER_BLOCK * self.found.count + 1), most), []
        if wanted <= most:
            return wanted, []
        kind = "blocks" if self.kind == RANDOM else "spans"
        return most, [f"There are {most} {kind} of rows to compare: {most} groups are used, not {wanted}."]

    def too_many(self) -> bool:
        """Tell whether half of the groups may hold an outlying block of either side."""
        groups = min(self.groups_wanted or self.fewest(), self.fewest())
        return self.found.astray or 2 * self.found.count >= groups

    def trouble(self, typical: list[float | None]) -> list[str]:
        """Say why what is left may be corrupted as well."""
        if self.too_many():
            return [self._note_on_too_many()]
        return [
            f"{name}: blocks vary {ratio:.2g} times as much as typical rows do: corrupted rows in nearly all "
            "blocks, or very heavy tails. The MMD may be due to these, so there is no test. Sketch with more "
            "`blocks`."
            for name, ratio in self._excesses(typical)
            if ratio > _WILDLY
        ]

    def trouble_of_median(self, method: str) -> list[str]:
        """Say why the MMD of a median of means over all blocks is not to be relied on.

        It stays finite, but not right: with outliers in 30 of 256 blocks of a sample it was 0.05 to 1.6 times
        that of clean rows, with 60 even 0.
        """
        if not self.found.count:
            return []
        return [
            f"{self._outlying_in_words()} are outlying: a median of means over all blocks is bounded, but "
            f"may be far too small or too large, so there is no test. Unlike {method}, "
            f'`robust_method="{TRIM}"` leaves them out.'
        ]

    def _outlying_in_words(self) -> str:
        kind = "blocks" if self.kind == RANDOM else "spans"
        return " and ".join(
            f"{len(wild)} of {count} {kind} of {name}"
            for name, wild, count in zip(self.names, self.found.wild, self.found.blocks, strict=True)
        )

    def _note_on_too_many(self) -> str:
        groups = min(self.groups_wanted or self.fewest(), self.fewest())
        wild = self._outlying_in_words()
        wild = f"most, or {wild}" if self.found.astray else wild
        larger = f"Use `robust={self.fewest()}`, or sketch" if groups < self.fewest() else "Sketch"
        return (
            f"Outlying blocks ({wild}) are too many for the median of {groups} groups: the MMD may be due to "
            f"corrupted rows, so there is no test. {larger} with more `blocks`."
        )

    def note_on_sizes(self) -> list[str]:
        """Say so if blocks of different size were left out that may be the tail of the data.

        Samples of the same heavy-tailed rows, 1,000 and 30,000 of them, were found different in 99 of 100
        pairs by blocks that both samples leave out beyond the same distance, and in 16 beyond the same row.
        """
        sizes = [part.weight / len(part) for part in self.blocks]
        if self.same_size or all(
            distance >= _BEYOND_TAILS * self.found.limit * math.sqrt(max(sizes) / size)
            for distance, size in zip(self.found.nearest, sizes, strict=True)
        ):
            return []
        kind = "Blocks" if self.kind == RANDOM else "Spans"
        return [
            f"{kind} hold {sizes[0]:.3g} rows of {self.names[0]} and {sizes[1]:.3g} of {self.names[1]}: with "
            "heavy tails, what was left out of the two is not the same, so there is no test. Sketch with "
            "`blocks` in proportion to the rows."
        ]

    def notes(self, typical: list[float | None]) -> list[str]:
        """Say what makes an answer less sure, if there is one."""
        return [
            f"{name}: blocks vary {ratio:.2g} times as much as typical rows do: heavy tails, or corrupted "
            "rows in most blocks that cannot be told from them."
            for name, ratio in self._excesses(typical)
            if ratio > _WILDLY / 10
        ]

    def _excesses(self, typical: list[float | None]) -> list[tuple[str, float]]:
        """Return how much more blocks vary than most sampled rows do, where that is known."""
        return [
            (name, part.row_variance() / square)
            for name, part, square in zip(self.names, self.kept, typical, strict=True)
            if square and len(part) >= 2
        ]

    def calmer_than(self, other: _Cut) -> bool:
        """Tell whether what is left varies far less than what is left of the same rows in other blocks."""
        ratios = [
            mine.row_variance() / max(theirs.row_variance(), 1e-300)
            for mine, theirs in zip(self.kept, other.kept, strict=True)
        ]
        return min(ratios) < 1 / _CALMER and max(ratios) < _CALMER

    def unseen(self, both: tuple[Embedded, Embedded], typical: list[float | None]) -> Unseen:
        """Return how far off a row may be without a trace, and what a share of such rows does to the MMD.

        A row that is off by s moves the mean of a block of n rows by s/n, and its distance from another mean,
        in units of a single row, by s/√(2n).
        """
        n = max(part.weight / len(part) for part in self.kept)
        distance = math.sqrt(2 * n) * self.found.limit
        distance = min(distance, *(_widest(side.sketch) for side in both))
        known = [math.sqrt(square) for square in typical if square]
        if not known:
            known = [math.sqrt(part.row_variance()) for part in self.kept]
        deviation = max(known)
        return Unseen(distance / deviation if deviation > 0 else math.inf, distance / 100)


# Corrupted rows are as far beyond the limit, or farther; heavy tails end anywhere.
_BEYOND_TAILS = 4.0
# Blocks that differ in size by less than this may be judged by the same limit.
_SAME_SIZE = 0.1


def _order(side: Embedded) -> Dependence | None:
    spans = side.spans
    return None if spans is None else order_despite_outliers(side.random, spans)


def _trouble_of_spans(
    spans: _Cut, random: _Cut, in_random: list[str], typical: list[float | None]
) -> list[str]:
    """Say why spans cannot be compared: too many are outlying, or they vary as no order can make them."""
    if spans.too_many():
        return [spans._note_on_too_many()]
    for name, mine, theirs, square in zip(spans.names, spans.kept, random.kept, typical, strict=True):
        # Means over n rows vary by as much as a single row at most: then the ratio is n. Of rows in corrupted
        # blocks nothing is known; then it is the sampled ones that are compared with.
        of_row = 2 * theirs.row_variance() if not in_random else _WILDLY * (square or math.inf)
        if len(mine) >= 2 and mine.row_variance() > mine.weight / len(mine) * of_row:
            return [
                f"{name}: spans of consecutive rows vary more than any order of rows can make them: they "
                "hold corrupted rows, and the MMD may be due to these, so there is no test. Use "
                '`blocks="random"`, or sketch with more `spans`.'
            ]
    return []


def _widest(sketch: Sketch) -> float:
    """Return how far apart two rows can be in the space of the features."""
    if not isinstance(sketch.basis, NystromBasis):
        return 2.0
    low, high = sketch.basis.range
    return math.sqrt((2 if low >= 0 else 4) * high)


def _typical_row(sketch: Sketch) -> float | None:
    """Return the squared distance of most sampled rows from their middle; None if unknown."""
    sample, basis = sketch.tally.sample, sketch.basis
    if len(sample) < _FEWEST_SAMPLED:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        features: Floats = features_of(basis, sample.scaled(basis.middle)[:_SAMPLED])
    features = features[np.isfinite(features).all(axis=1)]
    return float(np.median(((features - geometric_median(features)) ** 2).sum(axis=1))) or None
