"""Who runs the fragments: an engine maps work over them, and survives Ctrl-C.

What comes of a pass must not depend on who runs it. Engines therefore promise little: results in any order,
or in the order of the fragments; and sums that may be added up where they are made, since exact sums
(_support/exact.py) are the same in whatever order and wherever they are added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from nysketch.sources.protocol import Fragment, Source


Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Piece = TypeVar("Piece")
Total = TypeVar("Total")
Total_co = TypeVar("Total_co", covariant=True)

# Work calls it now and then; it raises once whoever wanted the result has gone away.
Check = Callable[[], None]


def nothing() -> None:
    """Do nothing: what callers want done meanwhile, unless they say otherwise."""


class Work(Protocol[Result_co]):
    """What is done with each fragment of a source; for any number of threads at a time.

    To be run elsewhere it must be picklable, without the buffers it may have made for its threads.
    """

    @property
    def source(self) -> Source:
        """Where the fragments are from."""
        ...

    def __call__(self, fragment: Fragment, check: Check) -> Result_co:
        """Return what comes of a fragment."""
        ...


class PicklableTask(ABC):
    """Leaves behind, when it is pickled, what it has made for the threads of one process."""

    _process_local: ClassVar[tuple[str, ...]]  # the names of what it makes

    @abstractmethod
    def _init_process_state(self) -> None:
        """Make what belongs to this process."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need."""
        return {name: value for name, value in self.__dict__.items() if name not in self._process_local}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_process_state()


class Running(Protocol[Total_co]):
    """A total on its way."""

    def add(self, part: Any) -> None:
        """Add the result of a fragment, or the total of some."""
        ...

    def total(self) -> Total_co:
        """Return the total so far."""
        ...


class Summing(Work[Any], Protocol[Total_co]):
    """Work whose results add up to a total, in any order and in any number of steps."""

    def running(self) -> Running[Total_co]:
        """Return a total of nothing to add to."""
        ...


class Engine(Protocol):
    """Runs work on fragments. `meanwhile` is called about twice a second, also while nothing ends."""

    @property
    def rows_elsewhere(self) -> int:
        """How many rows of the current run were read by others than this process."""
        ...

    def run(
        self, work: Work[Result], fragments: Iterable[Fragment], *, meanwhile: Callable[[], None] = nothing
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and what came of them, as they finish."""
        ...

    def run_in_order(
        self,
        work: Work[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces that come of fragments, in the order of these.

        In this process, pieces that wait for others before them have a `size` of `most` together.
        """
        ...

    def run_together(
        self,
        work: Summing[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield some fragments and a part of the total, for `Running.add`, until all are there.

        `rows` is how many they have in all, if not as many as the source.
        """
        ...
