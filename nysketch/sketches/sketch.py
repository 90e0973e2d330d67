"""Sketch: the algebra. Addition, subtraction, embedding weights, mean features.

Bytes are files/format.py's business, reading data is passes/sketching.py's. A sketch is a value: operations
return new ones. Sums are exact (_support/exact.py), so `a + b == b + a`, `(a + b) - b == a`, and so on
hold to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.html_repr import counted, html_table, one_line
from nysketch._types import Floats
from nysketch.accumulators.cells import Cells
from nysketch.accumulators.groups import GroupSums
from nysketch.accumulators.second_moments import SecondMoments
from nysketch.accumulators.spans import Spans
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis, agreed
from nysketch.basis.nystrom import NystromBasis, require_landmarks
from nysketch.basis.quality import FourierQuality, Quality
from nysketch.errors import IncompatibleError, InputError
from nysketch.provenance import Provenance
from nysketch.sketches.quality import measure_on_sample


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """Sums over some rows of the functions of a basis, by block, and where the rows came from.

    With landmarks the functions are kernel values, k(Z, x); with Fourier features, cosines and sines.
    """

    basis: Basis
    tally: Tally
    settings: dict[str, Any]
    provenance: Provenance

    @property
    def rows(self) -> int:
        """How many rows were summed."""
        return self.tally.rows

    @property
    def dropped_rows(self) -> int:
        """How many rows were left out because of nulls, NaN or infinities."""
        return self.tally.dropped

    @property
    def weighted(self) -> bool:
        """Whether rows carried weights."""
        return self.tally.blocks.weights is not None

    @property
    def total_weight(self) -> float:
        """The sum of the row weights: the number of rows where there are none."""
        return self.tally.total_weight

    @property
    def kernel_sums(self) -> Floats:
        """V = Σ_i w_i k(Z, x_i), one number per landmark (or Fourier feature)."""
        return self.tally.blocks.sums.total().high

    @property
    def block_kernel_sums(self) -> Floats:
        """The kernel sums of each block of rows: blocks × landmarks."""
        return self.tally.blocks.sums.high

    @property
    def block_rows(self) -> NDArray[np.int64]:
        """How many rows each block holds."""
        return self.tally.blocks.rows

    @property
    def column_ranges(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each feature (after a subtraction: bounds)."""
        return self.tally.ranges.lower, self.tally.ranges.upper

    @property
    def cells(self) -> Cells | None:
        """Sums over the rows nearest to each landmark; None where there are none."""
        return self.tally.get(Cells)

    @property
    def spans(self) -> Spans | None:
        """Sums over spans of consecutive rows; None where there are none."""
        return self.tally.get(Spans)

    @property
    def groups(self) -> GroupSums | None:
        """Kernel sums of groups of columns; None where there are none."""
        return self.tally.get(GroupSums)

    @property
    def second_moments(self) -> SecondMoments | None:
        """Σ_i w_i k(Z, x_i) k(x_i, Z); None where they were not asked for."""
        return self.tally.get(SecondMoments)

    @property
    def rank(self) -> int:
        """How many features the basis supports."""
        return self.basis.rank

    def require_weight(self) -> None:
        """Raise an InputError unless some row has a positive weight: without any, there are no means."""
        weight = self.total_weight
        if not weight > 0:
            raise InputError(
                f"the sketch has no rows with positive weight (rows {self.rows}, weight {weight:g})"
            )

    def mean_kernel(self) -> Floats:
        """V / n, the empirical mean embedding evaluated at the landmarks."""
        self.require_weight()
        return self.kernel_sums / self.total_weight

    def mean_features(self) -> Floats:
        """Return the mean features of all rows, r numbers."""
        return self.basis.to_features(self.mean_kernel())

    def embedding_weights(self) -> Floats:
        """α with Σ_j α_j k(z_j, ·) the projection of the mean embedding on the landmarks' span."""
        basis = require_landmarks(self.basis, "an embedding on landmarks")
        return basis.nystrom.matrix.T @ self.mean_features()

    def embedding(self, data: Any, *, nulls: str = "error") -> Floats:
        """Return the kernel mean embedding of the sketched rows, evaluated at other rows.

        At a row x it is the mean of k(x, ·) over the sketched rows, as far as the landmarks express it:
        Σ_j α_j k(z_j, x) with the `embedding_weights` α. It is large where the sketched rows are dense: for
        a Gaussian kernel it is a kernel density estimate, up to a constant factor. Rows are in the data's
        units; the basis scales them.

        Parameters
        ----------
        data
            Rows: whatever `nysketch.sketch` takes. Columns are found by name, in any order and among others;
            those of an array or a list of rows have no names, and must be those of the basis in its order.
        nulls
            What becomes of rows with nulls, NaN or infinities: "error" raises an InvalidRowsError, "nan"
            gives them the value NaN.

        Returns
        -------
        numpy.ndarray
            A number for each row.

        Examples
        --------
        >>> import nysketch
        >>> sketch = nysketch.sketch({"x": [0.0, 0.1, 0.2, 5.0]}, landmarks=4)
        >>> near, between, far = sketch.embedding({"x": [0.1, 3.0, 99.0]})
        >>> near > between > far
        True

        """
        if isinstance(self.basis, NystromBasis):
            weights = self.embedding_weights()
        else:  # features are multiples of the values, so that the transposed map is the map itself
            weights = self.basis.to_features(self.mean_features())
        return self.basis._at_rows(data, lambda rows: self.basis.values(rows) @ weights, nulls=nulls)

    def quality(self, *, effective_dimension: bool = True) -> Quality | FourierQuality | None:
        """Measure how good the basis is for these rows; None if the sketch keeps too few of them to tell."""
        return measure_on_sample(self.basis, self.tally, effective_dimension=effective_dimension)

    def __repr__(self) -> str:
        columns, *others = self.basis._outline()
        return one_line("Sketch", f"{counted(self.rows, 'row')} × {columns}", *others)

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "rows": f"{self.rows:,}",
            "dropped rows": f"{self.dropped_rows:,}" if self.dropped_rows else None,
            "total weight": f"{self.total_weight:,.6g}" if self.weighted else None,
        }
        return html_table("Sketch", facts | self.basis._shown())

    def __eq__(self, other: object) -> bool:
        """Tell whether two sketches are the same in every stored bit, but for how their basis was made."""
        if not isinstance(other, Sketch):
            return NotImplemented
        mine, theirs = self.tally.arrays(), other.tally.arrays()
        return (
            self.basis == other.basis
            and mine.keys() == theirs.keys()
            and all(np.array_equal(array, theirs[name]) for name, array in mine.items())
            and self.tally.describe() == other.tally.describe()
            and (self.settings, self.provenance) == (other.settings, other.provenance)
        )

    __hash__ = None  # type: ignore[assignment]

    def _require_compatible(self, other: Sketch) -> None:
        self.basis.require_same(other.basis)
        for what, mine, theirs, remedy in (
            (
                "numbers of blocks",
                self.tally.blocks.shape[0],
                other.tally.blocks.shape[0],
                "sketch both with the same `blocks`",
            ),
            (
                "row weights",
                self.settings.get("weights"),
                other.settings.get("weights"),
                "sketch both with the same `weights`",
            ),
        ):
            if mine != theirs:
                raise IncompatibleError(f"the sketches have different {what}: {mine} and {theirs}; {remedy}")

    def _common_settings(self, other: Sketch) -> dict[str, Any]:
        """Keep what both agree on; of two precisions the lower is what the result has."""
        return agreed(self.settings, other.settings) | {
            "precision": min(self.settings["precision"], other.settings["precision"])
        }

    def __add__(self, other: Sketch) -> Sketch:
        if not isinstance(other, Sketch):
            return NotImplemented
        self._require_compatible(other)
        return Sketch(
            self.basis.merged_origin(other.basis),
            self.tally + other.tally,
            self._common_settings(other),
            self.provenance + other.provenance,
        )

    def __radd__(self, other: object) -> Sketch:
        """Let `sum(sketches)` work: it starts from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Sketch) -> Sketch:
        if not isinstance(other, Sketch):
            return NotImplemented
        self._require_compatible(other)
        return Sketch(
            self.basis.merged_origin(other.basis),
            self.tally - other.tally,
            self._common_settings(other),
            self.provenance - other.provenance,
        )
