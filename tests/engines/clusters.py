"""Real schedulers and workers, as processes of their own, to be killed one by one."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

from tests.conftest import clean_environment
from tests.disturbances import PATIENCE


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder, **settings):
        self._folder = folder
        self._environment = clean_environment(**{name: str(value) for name, value in settings.items()})
        self.file = folder / "scheduler.json"
        self.workers = []
        flags = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        flags += ["--scheduler-file", str(self.file)]
        self.scheduler = self._start(["-m", "dask", "scheduler", *flags])
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def _start(self, arguments):
        with (self._folder / f"log-{time.monotonic_ns()}").open("w") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], stdout=log, stderr=log, env=self._environment, cwd=self._folder
            )

    def add_worker(self, *, nanny=False, prepare=""):
        """Start a worker of one thread; `prepare` is run in its process before anything else."""
        flags = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", "--death-timeout", str(PATIENCE)]
        flags += ["--nanny" if nanny else "--no-nanny", "--scheduler-file", str(self.file)]
        start = f"{prepare}\nimport sys; sys.argv = {['dask', 'worker', *flags]!r}\n"
        start += "from dask.cli import run_cli\nrun_cli()"
        self.workers.append(self._start(["-c", start] if prepare else ["-m", "dask", "worker", *flags]))
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
