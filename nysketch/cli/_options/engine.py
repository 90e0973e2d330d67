"""Options that choose the engine: threads of this process, or a Dask cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nysketch.cli._options import common
from nysketch.cli._options.common import Command
from nysketch.cli._sections import DASK, option
from nysketch.errors import UsageError

if TYPE_CHECKING:
    from nysketch.engines.protocol import Engine
    from nysketch.sources.protocol import Source


@dataclass(frozen=True)
class EngineChoice:
    """Which engine was asked for, and how many threads of this process."""

    name: str
    threads: int | None
    scheduler: str | None
    workers: int | None
    patience: float
    silence: float

    def __post_init__(self) -> None:
        if self.name == "local":
            for flag, value in (("--scheduler", self.scheduler), ("--workers", self.workers)):
                if value is not None:
                    raise UsageError(f"{flag} is for a cluster: add --engine dask")
        elif self.threads is not None:
            raise UsageError(
                "--threads is for the local engine: the workers of a cluster have their own threads"
            )
        elif (self.scheduler is None) == (self.workers is None):
            raise UsageError(
                "--engine dask needs either --scheduler ADDRESS, for a running cluster, or --workers N, for "
                "a new one on this machine"
            )

    @property
    def here(self) -> bool:
        """Whether fragments are read by this process."""
        return self.name == "local"

    @property
    def planned_threads(self) -> int | None:
        """How many threads of this process to plan memory for; None if the memory is to decide."""
        return self.threads if self.here else 1

    @contextmanager
    def opened(self, threads: int, source: Source) -> Iterator[Engine]:
        """Yield the engine: threads of this process, or the cluster, if it can read the source."""
        if self.here:
            from nysketch.engines.threads import Threads

            yield Threads(threads)
            return
        if not source.is_files:  # now, not after a cluster was started
            raise UsageError("a cluster cannot read standard input: leave out --engine dask")
        from nysketch.engines.dask.engine import cluster

        waits: dict[str, Any] = {"patience": self.patience, "silence": self.silence}
        with cluster(self.scheduler, workers=self.workers, **waits) as engine:
            yield engine


def engine(command: Command) -> Command:
    """Add --threads, --engine and what belongs to it; passes an EngineChoice on, as `engine`."""

    @common.threads
    @option(
        "--engine",
        section=DASK,
        type=click.Choice(["local", "dask"]),
        default="local",
        show_default=True,
        help="Read rows with threads of this process, or on a Dask cluster. The results are identical.",
    )
    @option(
        "--scheduler",
        section=DASK,
        metavar="ADDRESS",
        help="Address of a running Dask cluster, tcp://HOST:PORT, or its scheduler file.",
    )
    @option(
        "--workers",
        section=DASK,
        type=click.IntRange(min=1),
        metavar="N",
        help="Start a Dask cluster of N worker processes on this machine, for this command only.",
    )
    @option(
        "--worker-wait",
        section=DASK,
        type=float,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        callback=common.seconds,
        help="How long to wait for the first worker, or for a new one after the last has gone.",
    )
    @option(
        "--worker-silence",
        section=DASK,
        type=float,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        callback=common.seconds,
        help="After how long others do the work of a worker that does not answer.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        threads: int | None,
        engine: str,
        scheduler: str | None,
        workers: int | None,
        worker_wait: float,
        worker_silence: float,
        **kwargs: Any,
    ) -> Any:
        given = {"threads": threads, "scheduler": scheduler, "workers": workers}
        meant = _meant(engine, given)
        choice = EngineChoice(engine, patience=worker_wait, silence=worker_silence, **meant)
        return command(*args, engine=choice, **kwargs)

    return wrapped


# For commands that read rows: the engine and the memory limit.
reads_rows = common.stack(engine, common.memory)


def _meant(engine: str, given: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a config file or a variable says if the engine, or a flag, does not go with it."""
    source = click.get_current_context().get_parameter_source
    flags = {name for name in given if source(name) == ParameterSource.COMMANDLINE}
    unfit = {"scheduler", "workers"} if engine == "local" else {"threads"}
    if engine == "dask" and len(flags & {"scheduler", "workers"}) == 1:
        unfit |= {"scheduler", "workers"}
    return {name: None if name in unfit - flags else value for name, value in given.items()}
