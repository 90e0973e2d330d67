"""One run on a Dask cluster: what was handed out, what has come back, what must be done again.

Work is shipped once to every worker (worker.py is what runs there); then groups of fragments are handed
out, so large that they take seconds (batching.py). Totals of groups are added up on the workers, as a tree,
and what arrives here is the total of several groups at a time: to be added to the rest, and to be saved in
the checkpoint. What a worker had that died is done again by another: that is Dask's own business. Ours are
errors that repeat, a scheduler that is gone, and workers that never come.
"""

from __future__ import annotations

import logging
import math
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from nysketch.engines.dask.batching import Groups
from nysketch.engines.dask.worker import Failure, Outcome, add_up, packed, run_group, unpacked
from nysketch.engines.protocol import Work
from nysketch.errors import ClusterError, NysketchError
from nysketch.sources.protocol import Fragment

log = logging.getLogger("nysketch")

# Groups for each thread: one that is worked on, and one that waits.
_AHEAD = 2
# About how many totals arrive here in all.
ARRIVALS = 500
# How often to look after the cluster, and how long to wait for its answer.
_EVERY, ANSWER = 1.0, 20.0
# How often a fragment may kill as many workers as Dask allows, alone in its group.
_CHANCES = 2
# When an error has ended it all, groups that are under way may still finish for so long.
_DRAIN = 30.0


def scheduler_gone(client: Any, error: object = None) -> ClusterError:
    """Return the error to raise if the scheduler does not answer any more."""
    address = getattr(getattr(client, "scheduler", None), "address", None) or "its address"
    why = f" ({error})" if error else ""
    return ClusterError(f"the Dask scheduler at {address} has gone{why}. Start it again, or another one")


@contextmanager
def lost_without_scheduler(client: Any) -> Iterator[None]:
    """Raise a ClusterError where Dask has many errors for a scheduler that does not answer."""
    try:
        yield
    except (OSError, TimeoutError, RuntimeError, CancelledError) as error:
        raise scheduler_gone(client, error) from error


class ClusterMonitor:
    """Looks after the cluster while others wait: is there a scheduler, are there workers, are they fit?

    `inspect` is given the addresses of workers that are new, and raises a ClusterError if they will not do.
    """

    def __init__(
        self,
        client: Any,
        patience: float,
        meanwhile: Callable[[], None],
        inspect: Callable[[Sequence[str]], None],
    ) -> None:
        self._client, self._patience, self._meanwhile = client, patience, meanwhile
        self._inspect = inspect
        self._looked, self._seen = -math.inf, time.monotonic()
        self.workers: dict[str, int] = {}  # their threads, by address

    @property
    def threads(self) -> int:
        """How many threads all workers have together."""
        return sum(self.workers.values())

    def look(self, *, at_once: bool = False) -> None:
        """Tell the caller that time passes; raise a ClusterError if it passes in vain."""
        self._meanwhile()
        now = time.monotonic()
        if now - self._looked < _EVERY and not at_once:
            return
        self._looked = now
        if self._client.status not in ("running", "connecting"):
            raise scheduler_gone(self._client)
        with lost_without_scheduler(self._client):
            workers = self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER)
        new = [address for address in workers if address not in self.workers]
        if new:
            self._inspect(new)
        self.workers = dict(workers)
        if self.workers:
            self._seen = now
        elif now - self._seen >= self._patience:
            raise ClusterError(
                f"the Dask cluster has had no workers for {self._patience:g} s. Start some with "
                "`dask worker ADDRESS`, or wait longer with --worker-wait"
            )

    def await_workers(self) -> None:
        """Return once there is a worker."""
        while True:
            self.look(at_once=True)
            if self.workers:
                return
            time.sleep(0.1)


@dataclass(eq=False)
class _Task:
    """A group of fragments that a worker has; without any, a sum of what comes of others."""

    fragments: tuple[Fragment, ...]
    future: Any
    ended: bool = False

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)


class Session:
    """One run: what was handed out, what has come back, what must be done again."""

    def __init__(
        self,
        client: Any,
        overseer: ClusterMonitor,
        work: Work[Any],
        how: str,
        *,
        retries: int,
        rows: int | None = None,
    ) -> None:
        self._client, self._overseer, self._how = client, overseer, how
        self._retries = retries
        self._token, self._count = uuid.uuid4().hex[:12], 0
        self._rows_in_all = work.source.rows or 0 if rows is None else rows
        self._rows = self._most_rows = 0
        # As a task, and not as data: data are gone with the workers that have them, a task is run again.
        self._work = self._submit("work", unpacked, packed(work))
        self._fetching = ThreadPoolExecutor(1, thread_name_prefix="nysketch-fetch")
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._held: set[_Task] = set()
        self._tries: Counter[int] = Counter()
        self._deaths: Counter[int] = Counter()
        self._error: NysketchError | None = None
        self._error_at = math.inf  # the fragment it belongs to
        self._deadline = math.inf
        self._under_way = 0

    @property
    def rows(self) -> int:
        """How many rows were read so far; those that must be read again are not taken back."""
        self._most_rows = max(self._most_rows, self._rows)
        return self._most_rows

    def close(self) -> None:
        """Let go of everything: workers drop what they have not begun."""
        self._fetching.shutdown(wait=False, cancel_futures=True)
        futures = [leaf.future for leaf in self._held]
        self._held.clear()
        with suppress(Exception):  # the scheduler may have gone, which is being said already
            if self._client.status == "running":
                self._client.cancel([*futures, self._work])

    # ---- handing out -------------------------------------------------------------------------------

    def _key(self, what: str) -> str:
        self._count += 1
        return f"nysketch_{what}-{self._token}-{self._count}"

    def _submit(self, what: str, *task: Any, **where: Any) -> Any:
        with lost_without_scheduler(self._client):
            return self._client.submit(*task, key=self._key(what), pure=False, **where)

    def _hand_out(self, fragments: tuple[Fragment, ...], *, but: str | None = None) -> _Task:
        """Give a group to some worker; if it can be, to another one than `but`."""
        where: dict[str, Any] = {}
        others = [address for address in self._overseer.workers if address != but]
        if but is not None and others:
            where = {"workers": others, "allow_other_workers": True}
        future = self._submit("group", run_group, self._work, fragments, self._how, **where)
        return self._awaited(_Task(fragments, future))

    def _awaited(self, leaf: _Task) -> _Task:
        self._held.add(leaf)
        self._under_way += bool(leaf.fragments)
        leaf.future.add_done_callback(lambda _: self._ended.put(leaf))
        return leaf

    def _has_ended(self, leaf: _Task) -> None:
        """Count a group as ended, once: of a sum, one may hear before one hears of what is in it."""
        if not leaf.ended:
            leaf.ended = True
            self._under_way -= bool(leaf.fragments)
            self._rows += leaf.rows

    def _let_go(self, leaf: _Task) -> None:
        self._held.discard(leaf)
        leaf.future.release()

    # ---- getting back ------------------------------------------------------------------------------

    def _wait(self) -> Any | None:
        """Return something that has ended, or nothing after half a second."""
        self._overseer.look()
        if time.monotonic() > self._deadline:
            raise self._the_error()
        try:
            return self._ended.get(timeout=0.5)
        except queue.Empty:
            return None

    def _fetched(self, future: Any) -> Outcome | None:
        """Return the outcome that a worker has; nothing if it was killed, or could not begin."""
        while future.status != "error":
            if future.status == "cancelled":
                raise scheduler_gone(self._client)
            # Not with a limit of Dask's: what is on its way then would be sent again, from the beginning.
            fetched = self._fetching.submit(future.result)
            while not fetched.done():
                self._overseer.look()
                wait([fetched], timeout=0.5)
            try:
                outcome: Outcome = fetched.result()
                return outcome
            except Exception as error:
                if future.status == "error":
                    break
                raise scheduler_gone(self._client, error) from error
        return None

    def _the_error(self) -> NysketchError:
        assert self._error is not None
        return self._error

    def _fail(self, fragment: Fragment, error: NysketchError) -> None:
        """Note an error that ends the run; of several, that of the first fragment counts."""
        if self._error is None:
            self._deadline = time.monotonic() + _DRAIN
        if fragment.number < self._error_at:
            self._error, self._error_at = error, fragment.number

    def _again(self, failure: Failure) -> bool:
        """Tell whether a fragment that failed is to be tried again."""
        tries = self._tries[failure.fragment.number] + 1
        self._tries[failure.fragment.number] = tries
        if failure.again and tries <= self._retries:
            log.info(
                "worker %s: %s; trying again elsewhere (%d of %d)",
                failure.worker,
                failure.error,
                tries,
                self._retries,
            )
            return True
        tried = f" (tried {tries} times, at last by worker {failure.worker})" if failure.again else ""
        self._fail(failure.fragment, type(failure.error)(f"{failure.error}{tried}"))
        return False

    def _killed(self, leaf: _Task) -> list[tuple[Fragment, ...]]:
        """Return what to hand out instead of a group that could not be run, however often it was tried."""
        with lost_without_scheduler(self._client):
            error = leaf.future.exception()
        last = getattr(error, "last_worker", None)
        if last is None:  # it was not even begun: by a worker that has just come, and has no nysketch?
            self._overseer.look(at_once=True)
        if len(leaf.fragments) > 1:  # the others may be fine
            return [(fragment,) for fragment in leaf.fragments]
        # Dask blames all that a worker had when it died, also what had not begun: a second chance.
        self._deaths[leaf.fragments[0].number] += 1
        if self._deaths[leaf.fragments[0].number] < _CHANCES:
            return [leaf.fragments]
        where = leaf.fragments[0].where
        if last is not None:
            problem = NysketchError(
                f"{where}: every worker that read it has died, the last was "
                f"{getattr(last, 'address', last)}. Did they run out of memory? Give them more, or write "
                "smaller row groups"
            )
        else:
            problem = NysketchError(f"{where}: no worker can read it: {type(error).__name__}: {error}")
        self._fail(leaf.fragments[0], problem)
        return []

    # ---- in any order ------------------------------------------------------------------------------

    def as_they_finish(self, groups: Groups, fan_in: int | None = None) -> Iterator[Outcome]:
        """Yield outcomes until all fragments are in one; with `fan_in`, totals that workers added up."""
        roots: dict[_Task, list[_Task]] = {}  # what is awaited → the groups that are in it
        bundle: list[_Task] = []
        while True:
            groups.serve(self._overseer.threads, self._rows_in_all)
            wanted = 1 if fan_in is None else self._per_arrival(groups, fan_in)
            room = _AHEAD * self._overseer.threads + wanted
            while groups and self._error is None and self._under_way < room:
                bundle.append(self._hand_out(groups.take()))
                if len(bundle) >= wanted:
                    roots |= self._rooted(bundle, fan_in)
                    bundle = []
            if bundle and (not groups or self._error is not None):
                roots |= self._rooted(bundle, fan_in)
                bundle = []
            if not roots:
                break
            ended = self._wait()
            if ended is None:
                continue
            self._has_ended(ended)
            if ended not in roots:
                continue
            leaves = roots.pop(ended)
            outcome = self._fetched(ended.future)
            if outcome is None:
                roots |= self._without_killed(ended, leaves, groups)
                continue
            for each in {ended, *leaves}:
                self._has_ended(each)
                self._let_go(each)
            groups.learn(outcome.rows, outcome.seconds)
            if outcome.done:
                yield outcome
            for failure in outcome.failures:
                self._rows -= sum(fragment.rows for fragment in failure.rest)
                if self._again(failure):
                    retried = self._hand_out(failure.rest[:1], but=failure.worker)
                    roots |= self._rooted([retried], fan_in)
                if len(failure.rest) > 1:
                    groups.put_back(failure.rest[1:])
        if self._error is not None:
            raise self._error

    def _per_arrival(self, groups: Groups, fan_in: int) -> int:
        """Return how many groups to add up elsewhere before the total is sent here."""
        if not groups.rows_per_group:
            return fan_in
        return max(fan_in, math.ceil(self._rows_in_all / groups.rows_per_group / ARRIVALS))

    def _rooted(self, leaves: list[_Task], fan_in: int | None) -> dict[_Task, list[_Task]]:
        """Have workers add up what comes of groups, a few at a time, until one total is left."""
        if len(leaves) == 1 or fan_in is None:
            return self._one_by_one(leaves)
        futures = [leaf.future for leaf in leaves]
        while len(futures) > 1:
            # Before other groups: until then, a worker holds them all.
            futures = [
                self._submit("sum", add_up, self._work, futures[i : i + fan_in], priority=1)
                for i in range(0, len(futures), fan_in)
            ]
        return {self._awaited(_Task((), futures[0])): list(leaves)}

    def _without_killed(self, root: _Task, leaves: list[_Task], groups: Groups) -> dict[_Task, list[_Task]]:
        """Await groups one by one whose total cannot be had; hand those to blame out in pieces."""
        with lost_without_scheduler(self._client):
            to_blame = getattr(root.future.exception(), "task", None)
        if root not in leaves:
            self._let_go(root)
        for leaf in leaves:
            if leaf.future.status == "error" or leaf.future.key == to_blame:
                self._has_ended(leaf)
                self._rows -= leaf.rows
                for fragments in self._killed(leaf):
                    groups.put_back(fragments)
                self._let_go(leaf)
        return self._one_by_one([leaf for leaf in leaves if leaf in self._held])

    def _one_by_one(self, leaves: Sequence[_Task]) -> dict[_Task, list[_Task]]:
        """Await groups, whether or not it was heard already that they have ended."""
        for leaf in leaves:
            if leaf.ended:
                self._ended.put(leaf)
        return {leaf: [leaf] for leaf in leaves}

    # ---- in order ----------------------------------------------------------------------------------

    def in_order(self, groups: Groups) -> Iterator[Outcome]:
        """Yield outcomes in the order of the fragments."""
        waiting: deque[_Task] = deque()
        while True:
            groups.serve(self._overseer.threads, self._rows_in_all)
            while groups and len(waiting) < _AHEAD * self._overseer.threads + 1:
                waiting.append(self._hand_out(groups.take()))
            if not waiting:
                return
            while not waiting[0].ended:
                some = self._wait()
                if some is not None:
                    self._has_ended(some)
            leaf = waiting.popleft()
            outcome = self._fetched(leaf.future)
            if outcome is None:
                self._rows -= leaf.rows
                waiting.extendleft(reversed([self._hand_out(each) for each in self._killed(leaf)]))
                self._let_go(leaf)
                if self._error is not None:
                    raise self._error
                continue
            self._let_go(leaf)
            groups.learn(outcome.rows, outcome.seconds)
            if outcome.done:
                yield outcome
            for failure in outcome.failures:
                self._rows -= sum(fragment.rows for fragment in failure.rest)
                if not self._again(failure):
                    raise self._the_error()
                if len(failure.rest) > 1:
                    waiting.appendleft(self._hand_out(failure.rest[1:]))
                waiting.appendleft(self._hand_out(failure.rest[:1], but=failure.worker))
