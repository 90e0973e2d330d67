"""What a run has to do: inputs that are there, beside what the store knows of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from nysketch._support.notices import log, notice
from nysketch._support.outputs import refuse_to_replace
from nysketch.errors import CorruptSketchError, InputError
from nysketch.files.format import load_basis
from nysketch.jobs.config import ALL, Job
from nysketch.jobs.inputs import (
    InputRecord,
    Scan,
    altered_since,
    fingerprints,
    same_content,
    scan,
    still_there,
)
from nysketch.jobs.sketch_step import request_of
from nysketch.jobs.store import Partition, Store
from nysketch.jobs.store_io import described
from nysketch.jobs.summary import Summary
from nysketch.sources.filesystems import without_secrets
from nysketch.sources.locations import Location
from nysketch.sources.selection import shorten


@dataclass(frozen=True)
class PartitionWork:
    """A partition to be sketched: the files to read, and what the store will remember of them."""

    locations: list[Location]
    inputs: list[InputRecord]


@dataclass
class RunPlan:
    """Partitions by what a run has to do with them.

    Inputs of those `touched` have a new time of change, or new permissions, and the old content; those
    `waiting` have files that may still be written; of those `lost`, the description is damaged and the inputs
    are gone.
    """

    stored: dict[str, Partition]
    new: dict[str, PartitionWork] = field(default_factory=dict)
    changed: dict[str, PartitionWork] = field(default_factory=dict)
    touched: dict[str, list[InputRecord]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)


def plan_run(job: Job, store: Store, summary: Summary) -> RunPlan:
    """Look up inputs and compare them with the store; what cannot be used goes into the summary."""
    found = scan(job.inputs, base=job.folder)
    if not found.partitions and not found.waiting and not found.problems:
        paths = ", ".join(map(without_secrets, job.inputs["paths"]))
        raise InputError(f"{job.path}: no files match {paths}. Is everything mounted? The store is unchanged")
    inputs = [file.local_path for part in found.partitions.values() for file in part if not file.is_remote]
    for output in job.outputs:
        refuse_to_replace([path for path in inputs if path is not None], output)
    summary.unmatched, summary.waiting = found.unmatched, found.unsettled
    summary.ignored = found.ignored
    _say_ignored(store, found.ignored)
    summary.skipped |= found.problems
    for path in found.unmatched:
        log.warning("%s: no files match", path)
    plan = RunPlan(whole_partitions(job, store), waiting=found.waiting)
    retired = store.retired()
    names = [name for name in found.partitions if not retired or name > retired[-1]]
    kept = job.settings["retention"]["partitions"]
    if kept != ALL and job.settings["retention"]["retired"] != "sum":
        # Of those that are to be summed up when they retire, all are read, however many come at once.
        newest = sorted({*plan.stored, *names})[-kept:]
        for name in names:
            if name not in newest and name not in plan.stored:
                log.info("%s: not read, since it is older than the %d partitions that are kept", name, kept)
        names = [name for name in names if name in newest]
    request = request_of(job, load_basis(store.basis_file)) if store.basis_file.exists() else None
    for name in names:
        try:
            _sort_in(plan, job, store, name, found.partitions[name], request)
        except InputError as error:
            summary.skipped[name] = str(error)
    for name in store.partition_names():
        if name not in (*plan.stored, *plan.new, *retired, *summary.skipped):
            lost = f"{store.partition_file(name)}: the partition is lost, and so are its inputs"
            summary.note_error(
                CorruptSketchError(f"{lost}. Restore it and its .json from a copy, if there is one")
            )
            if store.partition_file(name).exists():
                plan.lost.add(name)
    plan.removed = _removed(job, plan, found)
    done = {*plan.new, *plan.changed, *plan.removed}
    summary.unchanged = sum(name not in done for name in plan.stored)
    return plan


def _say_ignored(store: Store, ignored: list[str]) -> None:
    """Say which files match no path for want of a date; those of the last run are known."""
    history = store.history()
    known = history[-1]["ignored"] if history else []
    if new := [name for name in ignored if name not in known]:
        notice("not read, since no date in [inputs] paths matches: %s", shorten(new))


def whole_partitions(job: Job, store: Store) -> dict[str, Partition]:
    """Return the partitions that are whole: described, and with a sketch; and that have not retired."""
    found = {}
    for name in sorted(set(store.partition_names()) - set(store.retired())):
        try:
            partition = store.partition(name)
        except (CorruptSketchError, InputError) as error:
            log.warning("%s", job.as_written(str(error)))
            continue
        if store.partition_file(name).exists():
            found[name] = partition
        else:
            log.warning("%s: the sketch is missing", job.as_written(str(store.partition_file(name))))
    return found


def _sort_in(
    plan: RunPlan, job: Job, store: Store, name: str, locations: list[Location], request: str | None
) -> None:
    """Tell whether a partition is new, changed, or what it was."""
    known = plan.stored.get(name)
    content = job.inputs["digest"] == "content"
    # Dates can be put back. The store is a record of when it last looked.
    looked = 0 if known is None else described(store.partition_file(name)).stat().st_mtime_ns
    altered = altered_since(locations, looked)
    inputs = fingerprints(locations, [] if known is None or altered else known.inputs, content=content)
    if known is None:
        plan.new[name] = PartitionWork(locations, inputs)
    elif known.request != request:
        plan.changed[name] = PartitionWork(locations, inputs)
    elif same_content(inputs, known.inputs):
        if altered or inputs != known.inputs:
            plan.touched[name] = inputs
    elif job.settings["removed"]["policy"] == "drop" or not still_there(inputs, known.inputs):
        plan.changed[name] = PartitionWork(locations, inputs)


def _removed(job: Job, plan: RunPlan, found: Scan) -> list[str]:
    """Return the partitions to drop because their inputs have gone."""
    gone = [name for name in plan.stored if name not in found.partitions and name not in found.waiting]
    if not gone or job.settings["removed"]["policy"] == "keep":
        return []
    if found.unmatched or found.problems:
        log.warning(
            "the inputs of %d partitions are gone, but other inputs could not be listed: no partition is "
            "dropped",
            len(gone),
        )
        return []
    return gone
