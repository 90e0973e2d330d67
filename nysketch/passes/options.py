"""What a pass is asked to keep, besides the basis: blocks, sample, cells, runs, sums of groups, moments."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nysketch._support.seeds import require_seed
from nysketch.accumulators.cells import default_far_rows
from nysketch.accumulators.grids import PRECISIONS
from nysketch.accumulators.groups import DEFAULT_SHUFFLES, MOST_SHUFFLES, default_shuffled_rows, grouped
from nysketch.accumulators.sample import default_sample_rows
from nysketch.accumulators.spans import DEFAULT_SPANS, MOST_SPANS
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.errors import UsageError


@dataclass(frozen=True)
class PassOptions:
    """What the sums depend on, besides the rows and the basis."""

    blocks: int = 64
    seed: int = 0
    precision: str = "float32"
    nulls: str = "error"
    weights: str | None = None
    sample_rows: int | None = None  # None: as many as suit the basis
    cells: bool = True
    far_rows: int | None = None
    runs: int = DEFAULT_SPANS  # 0: none
    shuffles: int = (
        DEFAULT_SHUFFLES  # of groups of columns, later; 0: keep nothing to tell whether they depend
    )
    shuffle_rows: int | None = None  # None: as many as suit the basis
    pairs: bool = False  # of groups
    second_moments: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 65_536:
            raise UsageError(f"the number of blocks must be between 1 and 65536, not {self.blocks}")
        require_seed(self.seed)
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}")
        if self.sample_rows is not None and self.sample_rows < 0:
            raise UsageError(f"the rows of the sample cannot be {self.sample_rows}")
        if self.far_rows is not None and self.far_rows < 0:
            raise UsageError(f"the far rows to keep cannot be {self.far_rows}")
        if self.far_rows and not self.cells:
            raise UsageError("far rows are kept with the cells: leave out --far-rows, or --no-cells")
        if not 0 <= self.runs <= MOST_SPANS:
            raise UsageError(f"the number of runs must be between 0 and {MOST_SPANS}, not {self.runs}")
        if not 0 <= self.shuffles <= MOST_SHUFFLES:
            raise UsageError(f"the shuffles must be between 0 and {MOST_SHUFFLES}, not {self.shuffles}")
        if self.shuffle_rows is not None and self.shuffle_rows < 0:
            raise UsageError(f"the rows to shuffle cannot be {self.shuffle_rows}")
        if self.pairs and not self.shuffles:
            raise UsageError("pairs of groups are of no use without shuffles: leave out --pairs")

    def sampled(self, width: int, *, text: bool = False, fourier: bool = False, groups: int = 0) -> int:
        """Return how many rows to sample, of so many numbers each: to measure quality by, and to shuffle."""
        # Who wants Fourier features may want them for holding no rows.
        usual = 0 if fourier else default_sample_rows(width, text=text)
        rows = usual if self.sample_rows is None else self.sample_rows
        if groups < 2 or not self.shuffles:
            return rows
        return max(rows, default_shuffled_rows(width) if self.shuffle_rows is None else self.shuffle_rows)

    def nothing(self, basis: Basis) -> Tally:
        """Return the tally of no rows at a basis."""
        parted = grouped(basis)
        if parted is None and self.pairs:
            raise UsageError("--pairs is for groups of columns: name them with --group x=a,b --group y=c")
        groups = 0 if parted is None else len(parted.groups)
        fourier = basis.features == "fourier"
        rows = self.sampled(basis.row_width, text=basis.text, fourier=fourier, groups=groups)
        far = default_far_rows(basis.d) if self.far_rows is None else self.far_rows
        return Tally.zeros(
            basis,
            blocks=self.blocks,
            sample_rows=rows,
            weighted=self.weights is not None,
            far_rows=far if self.cells else None,
            spans=self.runs,
            groups=self.shuffles > 0,
            pairs=self.pairs,
            moments=self.second_moments,
        )


def settings_of(options: PassOptions, wanted: BasisOptions | None) -> dict[str, Any]:
    """Return what a sketch remembers of how it was made; `wanted` is None if its basis was given."""
    return asdict(options) | {"basis": None if wanted is None else asdict(wanted)}
