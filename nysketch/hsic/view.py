"""What a sketch knows of its groups of columns: sums of all rows, and sampled rows with their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.accumulators.groups import Subset, grouped
from nysketch.accumulators.sample_order import SampleOrder
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import IncompatibleError, InputError
from nysketch.hsic import order
from nysketch.hsic.copies import Copies, find_copies
from nysketch.hsic.order import GroupOrder
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import Embedded

# Fewer rows than these say nothing.
FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class View:
    """What a sketch knows of its groups, and its sampled rows, scaled, one of those that are copies."""

    sketch: Sketch
    basis: NystromBasis
    parts: list[NystromBasis]  # of each group
    rows: Rows
    where: SampleOrder
    orders: list[GroupOrder]
    copies: Copies | None
    notes: list[str]

    @classmethod
    def of(cls, sketch: Sketch) -> View:
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
        sample = sketch.tally.sample
        rows, keys = np.asarray(sample.scaled(basis.middle), np.float64), sample.keys
        parts = [basis.of_groups([number]) for number in range(len(basis.groups))]
        features = [basis.features_of([number]) for number in range(len(parts))]
        copies, notes = _find_copies(sketch, [sample.rows[:, own] for own in features])
        if copies is not None:
            rows, keys = rows[copies.kept], keys[copies.kept]
        where = SampleOrder.of(keys)
        orders = []
        if len(rows) >= FEWEST_ROWS:
            names = [group.name for group in basis.groups]
            orders = order.group_orders(names, parts, [rows[:, own] for own in features], where)
        return cls(sketch, basis, parts, rows, where, orders, copies, notes)

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

    @property
    def worth(self) -> int:
        """How many rows all of them are worth: fewer if some are copies."""
        if self.copies is None:
            return self.sketch.rows
        if len(self.sketch.tally.sample) == self.sketch.rows:
            return len(self.rows)
        return max(round(self.sketch.rows / self.copies.inflation), len(self.rows))

    def unseen_order(self) -> bool:
        """Tell whether rows depend on their neighbours, and too few of these are sampled to tell groups."""
        if self.all_rows or order.neighbours(self.where) >= order.ENOUGH_NEIGHBOURS:
            return False
        found = Embedded.of(self.sketch, self.sketch.basis.to_features).dependence
        return found is not None and found.found

    def means(self, part: Subset) -> tuple[Floats, Floats]:
        """Return the means at the landmarks of the product over some groups, and of each of them."""
        sums = self.sketch.groups
        assert sums is not None
        weight = self.sketch.total_weight
        whole = len(part) == len(self.basis.groups)
        joint = self.sketch.kernel_sums if whole else sums.only((part,)).sums.high[0]
        singles = sums.only(tuple((number,) for number in part)).sums.high
        return joint / weight, singles / weight


def _find_copies(sketch: Sketch, groups: list[Rows]) -> tuple[Copies | None, list[str]]:
    """Find rows that are there several times; also say so."""
    sample = sketch.tally.sample
    if sketch.weighted or not len(sample):
        return None, []
    twice = np.append(False, (np.diff(sample.keys) == 0) & (np.diff(sample.rows, axis=0) == 0).all(axis=1))
    found = find_copies(groups, sampled=len(sample) / sketch.rows)
    if found is None and twice.any():  # the same rows of the same input: no need to look at their values
        found = Copies(np.flatnonzero(~twice), len(sample) / float((~twice).sum()))
    if found is None:
        return None, []
    times = (
        "are counted twice, as with `nysketch.merge(force=True)`" if twice.any() else "are copies of others"
    )
    return found, [
        f"Some rows {times}: the test takes one of each, {len(found.kept):,} of {len(sample):,} sampled rows."
    ]
