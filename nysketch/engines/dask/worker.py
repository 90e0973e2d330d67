"""What runs on the workers of a cluster, and what they send back. session.py submits it.

A worker gets a group of fragments. It runs the work on one after the other, and stops at the first that
fails: what was finished until then counts, and the session decides what to do with the rest.
"""

from __future__ import annotations

import functools
import pickle
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from nysketch import __version__
from nysketch._support.blas import one_thread
from nysketch.engines.protocol import FragmentWork, nothing
from nysketch.errors import ClusterError, NysketchError, UnreadableError
from nysketch.provenance import Input
from nysketch.sources.locations import Location, difference
from nysketch.sources.protocol import Fragment
from nysketch.sources.retry import is_refusal

# Ways to send back what comes of a group.
RESULTS, PIECES, TOTAL = "results", "pieces", "total"

# Other versions of these may round differently, in the last digits.
_ROUNDING = ("numpy", "scipy", "numba", "pyarrow")


@dataclass(frozen=True)
class Failure:
    """Fragments that were not finished, the first of them because of an error.

    `again`: it is worth another attempt, later or on another worker.
    """

    rest: tuple[Fragment, ...]
    error: NysketchError
    again: bool
    worker: str

    @property
    def fragment(self) -> Fragment:
        """The one that failed."""
        return self.rest[0]


@dataclass(frozen=True)
class GroupResult:
    """The fragments of a group that were finished, what came of them, and which were not.

    `value` is a list with a result, or a list of pieces, for each; or the total of all of them.
    """

    done: tuple[Fragment, ...]
    value: Any
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return sum(fragment.rows for fragment in self.done)


@dataclass(frozen=True)
class Shipped:
    """Work as it is sent to the workers, and the versions of the software that made it."""

    work: Any
    software: dict[str, str]


def packed(work: FragmentWork[Any]) -> bytes:
    """Return work as bytes; it is sent to every worker once."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(Shipped(work, software()))
    return data


def unpacked(data: bytes) -> Shipped:
    """Return the work that was packed; the state of its process is made here, once for all groups."""
    shipped: Shipped = pickle.loads(data)
    return shipped


def run_group(shipped: Shipped, fragments: Sequence[Fragment], how: str) -> GroupResult:
    """Run work on a group of fragments, up to the first that fails."""
    work = shipped.work
    started = time.perf_counter()
    results: list[Any] = []
    running = work.running() if how == TOTAL else None
    failures: tuple[Failure, ...] = ()
    done = 0
    with one_thread():  # the threads of the worker are the parallelism
        for fragment in fragments:
            try:
                _require_software(shipped.software)
                work.source.require_original(fragment)
                result = work(fragment, nothing)
                if running is not None:
                    running.add(result)
                else:
                    results.append(list(result) if how == PIECES else result)
            except Exception as error:
                failures = (_failure(tuple(fragments[done:]), error),)
                break
            done += 1
    value = results if running is None else running.total() if done else None
    return GroupResult(tuple(fragments[:done]), value, failures, time.perf_counter() - started)


def add_up(shipped: Shipped, groups: Sequence[GroupResult]) -> GroupResult:
    """Add the totals of several groups, on the worker that holds most of them."""
    running = shipped.work.running()
    for group in groups:
        if group.done:
            running.add(group.value)
    done = tuple(fragment for group in groups for fragment in group.done)
    failures = tuple(failure for group in groups for failure in group.failures)
    seconds = sum(group.seconds for group in groups)
    return GroupResult(done, running.total() if done else None, failures, seconds)


def _failure(rest: tuple[Fragment, ...], error: Exception) -> Failure:
    if isinstance(error, NysketchError):
        # A file that is missing or forbidden here may be readable by another worker.
        refused = error.__cause__ is not None and is_refusal(error.__cause__)
        return Failure(rest, error, isinstance(error, UnreadableError | ClusterError) or refused, here())
    where, what = rest[0].where, f"{type(error).__name__}: {error}"
    again = isinstance(error, OSError | MemoryError)
    return Failure(rest, NysketchError(f"{where}: failed with {what}"), again, here())


def here() -> str:
    """Return the address of this worker."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # none: a test
        return platform.node()


# ---- is this worker fit for it? ----------------------------------------------------------------------


@dataclass(frozen=True)
class WorkerReport:
    """What a worker has: versions of the software, and how its files differ from those of the client."""

    host: str = field(default_factory=platform.node)
    software: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@functools.cache
def software() -> dict[str, str]:
    """Return the versions that matter."""
    major, minor, _ = platform.python_version_tuple()
    libraries = {name: version(name) for name in _ROUNDING}
    return {"nysketch": __version__, "Python": f"{major}.{minor}", **libraries}


def _require_software(wanted: dict[str, str]) -> None:
    """Raise a ClusterError if the software of this worker may give other sums."""
    differing = _differing(software(), wanted)
    if differing:
        raise ClusterError(f"worker {here()}: {'; '.join(differing)}")


def _differing(found: dict[str, str], ours: dict[str, str], *, vital: bool = True) -> list[str]:
    """Say which versions differ: of what must be the same (`vital`), or of libraries that round."""
    return [
        f"{what} {found.get(what, 'missing')}, here {mine}"
        for what, mine in ours.items()
        if found.get(what) != mine and (what in _ROUNDING) != vital
    ]


def inspect_worker(files: Sequence[tuple[Location, Input]]) -> WorkerReport:
    """Report the software of this worker, and compare some files with what the client knows of them."""
    problems = (difference(location, known) for location, known in files)
    return WorkerReport(software=software(), problems=tuple(filter(None, problems)))


def unfit_workers(reports: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return which workers cannot take part, and which may round differently, with the reasons."""
    ours = software()
    cannot, may_differ = [], []
    for address, found in sorted(reports.items()):
        if not isinstance(found, WorkerReport):
            cannot.append(f"{address}: {_why(found)}")
            continue
        name = f"{address} ({found.host})"
        vital = _differing(found.software, ours)
        rounding = _differing(found.software, ours, vital=False)
        if vital or found.problems:
            cannot.append(f"{name}: {'; '.join([*vital, *found.problems[:1]])}")
        elif rounding:
            may_differ.append(f"{name}: {', '.join(rounding)}")
    return cannot, may_differ


def _why(error: Any) -> str:
    """Say why a worker could not report."""
    text = f"{type(error).__name__}: {error}"
    # Dask has its own way to wrap what happened elsewhere.
    missing = any(name in text for name in ("ModuleNotFoundError", "ImportError", "AttributeError"))
    return f"has no nysketch of this version ({text})" if missing else text
