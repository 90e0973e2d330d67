"""One run on a Dask cluster: tasks that were submitted, results that came back, tasks to run again.

Work is sent once to every worker (worker.py is what runs there); then groups of fragments are submitted,
large enough to take seconds (batching.py). Totals of groups are added up on the workers, as a tree, and what
arrives here is the total of several groups at a time: to be added to the rest, and to be saved in the
checkpoint. When a worker dies, Dask itself runs its tasks on another one. Handled here are errors that
repeat; a scheduler that is gone, and workers that never come or fall silent, are monitor.py's business.
"""

from __future__ import annotations

import math
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nysketch._support.notices import log
from nysketch.engines.dask.batching import Groups
from nysketch.engines.dask.monitor import ClusterMonitor, lost_without_scheduler, scheduler_gone
from nysketch.engines.dask.worker import Failure, GroupResult, add_up, packed, run_group, unpacked
from nysketch.engines.protocol import FragmentWork
from nysketch.errors import NysketchError
from nysketch.sources.protocol import Fragment

# Groups submitted for each thread: one that runs, and one that waits.
_AHEAD = 2
# About how many totals arrive here in all.
ARRIVALS = 500
# How often a fragment may kill as many workers as Dask allows, alone in its group.
_CHANCES = 2
# After an error that ends the run, groups that are running may still finish for so many seconds.
_DRAIN = 30.0


@dataclass(eq=False)
class _Task:
    """A task on the cluster: a group of fragments; or, without fragments, a sum of other tasks."""

    fragments: tuple[Fragment, ...]
    future: Any
    ended: bool = False

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)


class Session:
    """One run, between `with`: entering sends the work to the cluster, leaving cancels what is not done."""

    def __init__(
        self,
        client: Any,
        monitor: ClusterMonitor,
        work: FragmentWork[Any],
        how: str,
        *,
        retries: int,
        rows: int | None = None,
    ) -> None:
        self._client, self._monitor, self._how = client, monitor, how
        self._work, self._retries = work, retries
        self._shipped: Any = None  # the work as a task of the cluster, once this is entered
        self._token, self._count = uuid.uuid4().hex[:12], 0
        self._rows_in_all = work.source.rows or 0 if rows is None else rows
        self._rows = self._most_rows = 0
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._held: set[_Task] = set()
        self._tries: Counter[int] = Counter()
        self._deaths: Counter[int] = Counter()
        self._error: NysketchError | None = None
        self._error_at = math.inf  # the fragment it belongs to
        self._deadline = math.inf
        self._under_way = 0

    def __enter__(self) -> Session:
        # As a task, and not as data: data are gone with the workers that have them, a task is run again.
        self._shipped = self._submit_call("work", unpacked, packed(self._work))
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def rows(self) -> int:
        """How many rows were read so far; it never decreases, even if some must be read again."""
        self._most_rows = max(self._most_rows, self._rows)
        return self._most_rows

    def close(self) -> None:
        """Cancel all tasks: workers drop those that have not begun."""
        futures = [task.future for task in self._held]
        self._held.clear()
        with suppress(Exception):  # the scheduler may have gone, which is being reported already
            if self._client.status == "running":
                self._client.cancel([*futures, self._shipped])

    # ---- submitting --------------------------------------------------------------------------------

    def _key(self, what: str) -> str:
        self._count += 1
        return f"nysketch_{what}-{self._token}-{self._count}"

    def _submit_call(self, what: str, *task: Any, **where: Any) -> Any:
        with lost_without_scheduler(self._client):
            return self._client.submit(*task, key=self._key(what), pure=False, **where)

    def _submit(self, fragments: tuple[Fragment, ...], *, but: str | None = None) -> _Task:
        """Submit a group of fragments; to another worker than `but`, if there is one."""
        where: dict[str, Any] = {}
        others = [address for address in self._monitor.workers if address != but]
        if but is not None and others:
            where = {"workers": others, "allow_other_workers": True}
        future = self._submit_call("group", run_group, self._shipped, fragments, self._how, **where)
        return self._track(_Task(fragments, future))

    def _track(self, task: _Task) -> _Task:
        self._held.add(task)
        self._under_way += bool(task.fragments)
        task.future.add_done_callback(lambda _: self._ended.put(task))
        return task

    def _mark_ended(self, task: _Task) -> None:
        """Count a task as ended, once: the end of a sum may be reported before those of its groups."""
        if not task.ended:
            task.ended = True
            self._under_way -= bool(task.fragments)
            self._rows += task.rows

    def _release(self, task: _Task) -> None:
        self._held.discard(task)
        task.future.release()

    # ---- results -----------------------------------------------------------------------------------

    def _wait(self) -> Any | None:
        """Return a task that has ended; None if there is none within half a second."""
        self._monitor.poll()
        if time.monotonic() > self._deadline:
            raise self._the_error()
        try:
            return self._ended.get(timeout=0.5)
        except queue.Empty:
            return None

    def _fetch(self, future: Any) -> GroupResult | None:
        """Fetch a result from its worker; None if the worker was killed, or could not run the task."""
        while future.status != "error":
            if future.status == "cancelled":
                raise scheduler_gone(self._client)
            # Without a time-out of Dask's: a transfer that takes longer would start again from the beginning.
            fetched = self._monitor.waited_for(future.result)
            try:
                result: GroupResult = fetched.result()
                return result
            except Exception as error:
                if future.status == "error":
                    break
                raise scheduler_gone(self._client, error) from error
        return None

    def _the_error(self) -> NysketchError:
        assert self._error is not None
        return self._error

    def _fail(self, fragment: Fragment, error: NysketchError) -> None:
        """Record an error that ends the run; of several errors, that of the first fragment is raised."""
        if self._error is None:
            self._deadline = time.monotonic() + _DRAIN
        if fragment.number < self._error_at:
            self._error, self._error_at = error, fragment.number

    def _should_retry(self, failure: Failure) -> bool:
        """Say whether to retry a fragment that failed, and count the attempt; if not, record the error."""
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

    def _groups_instead_of(self, task: _Task) -> list[tuple[Fragment, ...]]:
        """Return the groups to submit instead of one that Dask has given up: smaller ones, or none."""
        with lost_without_scheduler(self._client):
            error = task.future.exception()
        last = getattr(error, "last_worker", None)
        if last is None:  # it did not even start: on a new worker without nysketch?
            self._monitor.poll(at_once=True)
        if len(task.fragments) > 1:  # the others may be fine
            return [(fragment,) for fragment in task.fragments]
        # Dask blames all tasks of a worker that died, even those that had not begun: a second chance.
        self._deaths[task.fragments[0].number] += 1
        if self._deaths[task.fragments[0].number] < _CHANCES:
            return [task.fragments]
        where = task.fragments[0].where
        if last is not None:
            problem = NysketchError(
                f"{where}: every worker that read it died, the last being {getattr(last, 'address', last)}. "
                "Did they run out of memory? Give them more, or write smaller row groups"
            )
        else:
            problem = NysketchError(f"{where}: no worker can read it: {type(error).__name__}: {error}")
        self._fail(task.fragments[0], problem)
        return []

    # ---- in any order ------------------------------------------------------------------------------

    def as_completed(self, groups: Groups, fan_in: int | None = None) -> Iterator[GroupResult]:
        """Yield results as they complete; with `fan_in`, totals that workers added up."""
        roots: dict[_Task, list[_Task]] = {}  # awaited task → the groups that it is the sum of
        bundle: list[_Task] = []
        while True:
            groups.serve(self._monitor.threads, self._rows_in_all)
            wanted = 1 if fan_in is None else self._per_arrival(groups, fan_in)
            room = _AHEAD * self._monitor.threads + wanted
            while groups and self._error is None and self._under_way < room:
                bundle.append(self._submit(groups.take()))
                if len(bundle) >= wanted:
                    roots |= self._await_sum(bundle, fan_in)
                    bundle = []
            if bundle and (not groups or self._error is not None):
                roots |= self._await_sum(bundle, fan_in)
                bundle = []
            if not roots:
                break
            ended = self._wait()
            if ended is None:
                continue
            self._mark_ended(ended)
            if ended not in roots:
                continue
            tasks = roots.pop(ended)
            result = self._fetch(ended.future)
            if result is None:
                roots |= self._await_without_killed(ended, tasks, groups)
                continue
            for each in {ended, *tasks}:
                self._mark_ended(each)
                self._release(each)
            groups.learn(result.rows, result.seconds)
            if result.done:
                yield result
            for failure in result.failures:
                self._rows -= sum(fragment.rows for fragment in failure.rest)
                if self._should_retry(failure):
                    retried = self._submit(failure.rest[:1], but=failure.worker)
                    roots |= self._await_sum([retried], fan_in)
                if len(failure.rest) > 1:
                    groups.put_back(failure.rest[1:])
        if self._error is not None:
            raise self._error

    def _per_arrival(self, groups: Groups, fan_in: int) -> int:
        """Return how many groups the workers add up before they send the total."""
        if not groups.rows_per_group:
            return fan_in
        return max(fan_in, math.ceil(self._rows_in_all / groups.rows_per_group / ARRIVALS))

    def _await_sum(self, tasks: list[_Task], fan_in: int | None) -> dict[_Task, list[_Task]]:
        """Await the total of groups, which workers add up as a tree: `fan_in` at a time."""
        if len(tasks) == 1 or fan_in is None:
            return self._await_each(tasks)
        futures = [task.future for task in tasks]
        while len(futures) > 1:
            # Before other groups run: until then, a worker holds all their results.
            futures = [
                self._submit_call("sum", add_up, self._shipped, futures[i : i + fan_in], priority=1)
                for i in range(0, len(futures), fan_in)
            ]
        return {self._track(_Task((), futures[0])): list(tasks)}

    def _await_without_killed(
        self, root: _Task, tasks: list[_Task], groups: Groups
    ) -> dict[_Task, list[_Task]]:
        """Await the groups of a failed sum one by one; put back those that were killed, in pieces."""
        with lost_without_scheduler(self._client):
            to_blame = getattr(root.future.exception(), "task", None)
        if root not in tasks:
            self._release(root)
        for task in tasks:
            if task.future.status == "error" or task.future.key == to_blame:
                self._mark_ended(task)
                self._rows -= task.rows
                for fragments in self._groups_instead_of(task):
                    groups.put_back(fragments)
                self._release(task)
        return self._await_each([task for task in tasks if task in self._held])

    def _await_each(self, tasks: Sequence[_Task]) -> dict[_Task, list[_Task]]:
        """Await groups one by one; those that were reported as ended before are reported again."""
        for task in tasks:
            if task.ended:
                self._ended.put(task)
        return {task: [task] for task in tasks}

    # ---- in order ----------------------------------------------------------------------------------

    def in_order(self, groups: Groups) -> Iterator[GroupResult]:
        """Yield results in the order of the fragments."""
        waiting: deque[_Task] = deque()
        while True:
            groups.serve(self._monitor.threads, self._rows_in_all)
            while groups and len(waiting) < _AHEAD * self._monitor.threads + 1:
                waiting.append(self._submit(groups.take()))
            if not waiting:
                return
            while not waiting[0].ended:
                some = self._wait()
                if some is not None:
                    self._mark_ended(some)
            task = waiting.popleft()
            result = self._fetch(task.future)
            if result is None:
                self._rows -= task.rows
                waiting.extendleft(reversed([self._submit(each) for each in self._groups_instead_of(task)]))
                self._release(task)
                if self._error is not None:
                    raise self._error
                continue
            self._release(task)
            groups.learn(result.rows, result.seconds)
            if result.done:
                yield result
            for failure in result.failures:
                self._rows -= sum(fragment.rows for fragment in failure.rest)
                if not self._should_retry(failure):
                    raise self._the_error()
                if len(failure.rest) > 1:
                    waiting.appendleft(self._submit(failure.rest[1:]))
                waiting.appendleft(self._submit(failure.rest[:1], but=failure.worker))
