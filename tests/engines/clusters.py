"""Real schedulers and workers, as processes of their own, to be killed one by one."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache

from tests.conftest import clean_environment
from tests.disturbances import PATIENCE
from tests.forks import Forks


@cache
def forks():
    """Return what forks schedulers and workers, from a process that has loaded what they would."""
    modules = ["dask.cli", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker"]
    made = Forks(clean_environment(), modules)
    atexit.register(made.stop)
    return made


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder, **settings):
        self._folder = folder
        self._settings = {name: str(value) for name, value in settings.items()}
        self.file = folder / "scheduler.json"
        self.workers = []
        flags = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        flags += ["--scheduler-file", str(self.file)]
        self.scheduler = self._start(["scheduler", *flags])
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def _start(self, arguments, *, prepare="", new=False):
        program = f"import sys; sys.argv = {['dask', *arguments]!r}\nfrom dask.cli import run_cli\nrun_cli()"
        with (self._folder / f"log-{time.monotonic_ns()}").open("w") as log:
            # Settings are read, and changes to modules made, where nothing is imported yet.
            if not (self._settings or prepare or new):
                return forks().start(program, cwd=self._folder, log=log)
            command = [sys.executable, "-c", f"{prepare}\n{program}"]
            environment = clean_environment(**self._settings)
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self._folder)

    def add_worker(self, *, nanny=False, prepare=""):
        """Start a worker of one thread; `prepare` is run in its process before anything else."""
        flags = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", "--death-timeout", str(PATIENCE)]
        flags += ["--nanny" if nanny else "--no-nanny", "--scheduler-file", str(self.file)]
        self.workers.append(self._start(["worker", *flags], prepare=prepare, new=nanny))
        return self.workers[-1]

    def stop(self):
        for process in [*self.workers, self.scheduler]:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


@contextmanager
def running(folder, workers=2, **settings):
    """Yield a cluster with so many workers, each of which has been seen by the scheduler."""
    cluster = Cluster(folder, **settings)
    try:
        for _ in range(workers):
            cluster.add_worker()
        if workers:
            with connected(cluster) as client:
                client.wait_for_workers(workers, timeout=PATIENCE)
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def connected(cluster):
    """Yield a client of a cluster."""
    import distributed

    client = distributed.Client(cluster.address, set_as_default=False, timeout=PATIENCE)
    try:
        yield client
    finally:
        client.close(timeout=1)


def wait_for(condition):
    """Return once a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


def kill(pid):
    """End a process without a word."""
    os.kill(pid, signal.SIGKILL)
