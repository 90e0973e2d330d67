"""What a pass is asked to keep, besides the basis: one field or more for each statistic."""

from __future__ import annotations

from dataclasses import dataclass

from nysketch._support.seeds import require_seed
from nysketch.accumulators.grids import PRECISIONS
from nysketch.errors import UsageError

DEFAULT_SPANS, MOST_SPANS = 64, 65_536
DEFAULT_SHUFFLES, MOST_SHUFFLES = 500, 10**6


@dataclass(frozen=True)
class PassOptions:
    """What the sums depend on, besides the rows and the basis.

    The names of the fields are stored in sketches and checkpoints (FORMAT.md): they stay.
    """

    blocks: int = 64
    seed: int = 0
    precision: str = "float32"
    nulls: str = "error"
    weights: str | None = None
    sample_rows: int | None = None  # None: as many as suit the basis
    cells: bool = True
    far_rows: int | None = None
    runs: int = DEFAULT_SPANS  # spans of consecutive rows; 0: none
    shuffles: int = DEFAULT_SHUFFLES  # permutations of groups of columns, later; 0: keep nothing for them
    shuffle_rows: int | None = None  # None: as many as suit the basis
    pairs: bool = False  # of groups
    second_moments: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 65_536:
            raise UsageError(f"`blocks` must be between 1 and 65536, not {self.blocks}")
        require_seed(self.seed)
        if self.precision not in PRECISIONS:
            raise UsageError(f"`precision` must be one of {', '.join(PRECISIONS)}, not {self.precision!r}")
        if self.sample_rows is not None and self.sample_rows < 0:
            raise UsageError(f"`sample_rows` must be at least 0, not {self.sample_rows}")
        if self.far_rows is not None and self.far_rows < 0:
            raise UsageError(f"`far_rows` must be at least 0, not {self.far_rows}")
        if self.far_rows and not self.cells:
            raise UsageError("far rows are kept with the cells: leave out `far_rows` or `cells=False`")
        if not 0 <= self.runs <= MOST_SPANS:
            raise UsageError(f"`spans` must be between 0 and {MOST_SPANS}, not {self.runs}")
        if not 0 <= self.shuffles <= MOST_SHUFFLES:
            raise UsageError(f"`permutations` must be between 0 and {MOST_SHUFFLES}, not {self.shuffles}")
        if self.shuffle_rows is not None and self.shuffle_rows < 0:
            raise UsageError(f"`permutation_rows` must be at least 0, not {self.shuffle_rows}")
        if self.pairs and not self.shuffles:
            raise UsageError("pairs of groups need permutations: leave out `pairs` or `permutations=0`")

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None
