"""What every engine offers: it maps work over the fragments of a source, and survives Ctrl-C.

The result of a pass must not depend on the engine that runs it. Engines therefore promise little: results in
any order, or in the order of the fragments; and totals that may be added up where they are made, since exact
sums (_support/exact.py) are the same in whatever order and wherever they are added.
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

# Work calls it now and then; it raises once the result is no longer wanted.
Check = Callable[[], None]


def nothing() -> None:
    """Do nothing: the default of `meanwhile`."""


class FragmentWork(Protocol[Result_co]):
    """A function to call with each fragment of a source, by any number of threads at a time.

    To be run by other processes it must be picklable, without the buffers of its threads: see PicklableTask.
    """

    @property
    def source(self) -> Source:
        """The source of the fragments."""
        ...

    def __call__(self, fragment: Fragment, check: Check) -> Result_co:
        """Return the result of a fragment."""
        ...


class PicklableTask(ABC):
    """A base of work that is sent to other processes: attributes in `_process_local` are not pickled.

    Such are locks, counters and the buffers of threads. `_init_process_state` makes them, in the constructor
    and again in the process that unpickles the work.
    """

    _process_local: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _init_process_state(self) -> None:
        """Set the attributes in `_process_local`."""

    def __getstate__(self) -> dict[str, Any]:
        """Return all other attributes."""
        return {name: value for name, value in self.__dict__.items() if name not in self._process_local}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_process_state()


class RunningTotal(Protocol[Total_co]):
    """A total to which results are added."""

    def add(self, part: Any) -> None:
        """Add the result of a fragment, or a total of several."""
        ...

    def total(self) -> Total_co:
        """Return the total so far."""
        ...


class SummingWork(FragmentWork[Any], Protocol[Total_co]):
    """Work whose results add up to a total, in any order and in any number of steps."""

    def running(self) -> RunningTotal[Total_co]:
        """Return an empty total."""
        ...


class Engine(Protocol):
    """Runs work on fragments. `meanwhile` is called about twice a second, even while no fragment finishes."""

    @property
    def rows_elsewhere(self) -> int:
        """How many rows of the current run were read by other processes."""
        ...

    def run(
        self,
        work: FragmentWork[Result],
        fragments: Iterable[Fragment],
        *,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and their results, as they finish."""
        ...

    def run_in_order(
        self,
        work: FragmentWork[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces that the results consist of, in the order of the fragments.

        In this process, pieces that wait for those of earlier fragments have a total `size` of at most
        `most`.
        """
        ...

    def run_together(
        self,
        work: SummingWork[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield some fragments and their part of the total, for `RunningTotal.add`, until all are done.

        `rows` is the number of rows of the fragments, if they are not all of the source.
        """
        ...
