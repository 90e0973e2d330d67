"""Is the cluster still there? A scheduler that does not answer, workers that are not there, unfit or silent.

A worker that is killed closes its connections, and Dask runs its tasks elsewhere at once. One that is
frozen, or cut off from the network, keeps them open, and whoever waits for its results waits for ever. The
scheduler knows when it last heard of each worker; one that has been silent for too long is given up: it is
unregistered, Dask runs its tasks elsewhere, and if it comes back, the scheduler takes nothing from it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from typing import Any

from nysketch._support import signals
from nysketch._support.notices import log
from nysketch.errors import ClusterError

# How often to poll the cluster, and how long to wait for its answer, in seconds.
_EVERY, ANSWER = 1.0, 20.0
# A worker is reported as silent after this share of the time after which it is given up.
_REPORTED = 0.25
# How often to ask when workers were last heard of, as a share of the same time: that takes kilobytes each.
_ASKED = 0.1


def scheduler_gone(client: Any, error: object = None) -> ClusterError:
    """Return the error to raise if the scheduler does not answer any more."""
    address = getattr(getattr(client, "scheduler", None), "address", None) or "its address"
    why = f" ({error})" if error else ""
    return ClusterError(f"the Dask scheduler at {address} is gone{why}. Start it again, or another one")


@contextmanager
def lost_without_scheduler(client: Any) -> Iterator[None]:
    """Raise one ClusterError for the many errors that Dask has for a scheduler that does not answer."""
    try:
        yield
    except (OSError, TimeoutError, RuntimeError, CancelledError) as error:
        raise scheduler_gone(client, error) from error


class ClusterMonitor:
    """Polls the cluster during a run: does the scheduler answer, are there workers, fit ones, that answer?

    `inspect` is given the addresses of new workers, and raises a ClusterError if they are not fit. Workers
    that were not heard of for `silence` seconds are given up. `meanwhile` is called with every poll, so that
    the caller can report progress.
    """

    def __init__(
        self,
        client: Any,
        patience: float,
        silence: float,
        meanwhile: Callable[[], None],
        inspect: Callable[[Sequence[str]], None],
    ) -> None:
        self._client, self._patience, self._meanwhile = client, patience, meanwhile
        self._inspect = inspect
        self._polled, self._seen = -math.inf, time.monotonic()
        self._inspected: set[str] = set()
        self.workers: dict[str, int] = {}  # their threads, by address
        self._silence, self._listened = silence, -math.inf
        # By address: when the scheduler last heard of it, by its clock, and since when it says so, by ours.
        self._heard: dict[str, tuple[float, float]] = {}
        self._reported: set[str] = set()
        self._given_up: list[str] = []

    @property
    def threads(self) -> int:
        """How many threads all workers have together."""
        return sum(self.workers.values())

    def poll(self, *, at_once: bool = False) -> None:
        """Ask for the workers, once a second unless `at_once`; raise a ClusterError if there are none.

        None are an error only after `patience` seconds.
        """
        self._meanwhile()
        signals.check()
        now = time.monotonic()
        if now - self._polled < _EVERY and not at_once:
            return
        self._polled = now
        if self._client.status not in ("running", "connecting"):
            raise scheduler_gone(self._client)
        with lost_without_scheduler(self._client):
            workers = self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER)
        self._listen(now)
        new = [address for address in workers if address not in self._inspected]
        self._inspected = set(workers)
        if new:
            self._inspect(new)
        self.workers = dict(workers)
        if self.workers:
            self._seen = now
        elif now - self._seen >= self._patience:
            silent = f" ({', '.join(self._given_up[-5:])} did not answer)" if self._given_up else ""
            raise ClusterError(
                f"the Dask cluster has had no workers for {self._patience:g} s{silent}. Start some with "
                "`dask worker ADDRESS`, or wait longer with `worker_wait`"
            )

    def await_workers(self) -> None:
        """Return once there is a worker."""
        while True:
            self.poll(at_once=True)
            if self.workers:
                return
            time.sleep(0.1)

    def waited_for(self, call: Callable[[], Any]) -> Future[Any]:
        """Return the outcome of a call that waits for workers, and poll until it is there."""
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        # A daemon: at the end of the program nobody waits for a worker any more.
        threading.Thread(target=run, name="nysketch-wait", daemon=True).start()
        while not outcome.done():
            self.poll()
            wait([outcome], timeout=0.5)
        return outcome

    # ---- workers that are silent -----------------------------------------------------------------------

    def _listen(self, now: float) -> None:
        """Report workers that the scheduler has not heard of for a while, and give them up in the end."""
        if now - self._listened < _ASKED * self._silence:
            return
        self._listened = now
        with lost_without_scheduler(self._client):
            told = self._client.sync(self._client.scheduler.identity, callback_timeout=ANSWER)["workers"]
        for address, seconds in self._silent_for(told, now).items():
            if seconds >= self._silence:
                self._give_up(address, seconds)
            elif seconds >= _REPORTED * self._silence and address not in self._reported:
                self._reported.add(address)
                log.warning(
                    "worker %s has been silent for %.0f s; after %g s, others do its work",
                    address,
                    seconds,
                    self._silence,
                )
            elif address in self._reported and not seconds:
                self._reported.discard(address)
                log.info("worker %s answers again", address)

    def _silent_for(self, told: Mapping[str, Any], now: float) -> dict[str, float]:
        """Return for how many seconds each worker has been silent, by our clock and not by that of others."""
        for address, facts in told.items():
            if address not in self._heard or self._heard[address][0] != facts["last_seen"]:
                self._heard[address] = (facts["last_seen"], now)
        self._heard = {address: heard for address, heard in self._heard.items() if address in told}
        return {address: now - since for address, (_, since) in self._heard.items()}

    def _give_up(self, address: str, seconds: float) -> None:
        """Have the scheduler forget a worker, so that its tasks run elsewhere."""
        log.warning("worker %s has been silent for %.0f s: others do its work", address, seconds)
        self._given_up.append(address)
        self._reported.discard(address)
        with lost_without_scheduler(self._client):
            self._client.sync(
                self._client.scheduler.unregister,
                address=address,
                stimulus_id=f"nysketch-silent-{time.time()}",
                callback_timeout=ANSWER,
            )
