"""A run: look up inputs, sketch, keep windows, compare, learn, report; each step decided by what is on disk.

The order makes a killed run harmless. Sketches come first, and windows only when all of them are there, so
that a window takes the same steps however often the run was interrupted. Partitions leave the store after
the windows have let go of them. What has been reported is noted last.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from nysketch._support.companions import lock_path
from nysketch._support.locks import output_lock
from nysketch._support.notices import log, notice
from nysketch._support.outputs import refuse_to_replace
from nysketch._support.regular import require_replaceable
from nysketch.basis.base import Basis
from nysketch.errors import (
    CorruptSketchError,
    IncompatibleError,
    InputError,
    NysketchError,
    OutputError,
    UsageError,
)
from nysketch.files.format import load_basis, save
from nysketch.jobs import model_step, window_step
from nysketch.jobs.config import ALL, Job, differences
from nysketch.jobs.diff import RunPlan, plan_run, whole_partitions
from nysketch.jobs.drift_step import Drift
from nysketch.jobs.records import PARTITION, REPORT, STORE
from nysketch.jobs.sketch_step import first_basis, require_same_basis, settle_partition, sketch_partition
from nysketch.jobs.store import JSON, SCHEMA_VERSION, SKETCH, Store, not_watched
from nysketch.jobs.store_io import (
    append_line,
    described,
    digest_of,
    file_digest,
    make_folder,
    read_json,
    read_json_or_none,
    remove,
    sweep,
    write_json,
)
from nysketch.jobs.summary import Summary
from nysketch.sources.selection import shorten

# Called with the partition that is being read, and how many rows of how many are done.
PartitionProgress = Callable[[str, int, int | None], None]
# Called with a store and where its report is to be written.
WriteReport = Callable[[Store, Path], object]
_REMEDY = "Remove the file: the next run makes it again if its inputs still exist"
# Files of partitions/ that a run may remove: sketches, descriptions, checkpoints. It keeps all others.
_OURS = re.compile(r"\.(nysk(\.next|\.checkpoint)?|json)$")
_UNFIT = (CorruptSketchError, IncompatibleError, InputError)
_FOLDERS = ("partitions", "windows", "drift", "models")


def run_job(
    job: Job,
    *,
    write_report: WriteReport,
    dry_run: bool = False,
    lock_wait: float | None = None,
    progress: PartitionProgress | None = None,
    announce: Callable[[Summary], None] = lambda _: None,
) -> Summary:
    """Bring the store of a job up to date.

    `write_report` is called if the job asks for a report and the store has changed: reports know stores, and
    not the other way round. `announce` is called with what was done, before alarms count as raised.
    """
    store = Store(job.store)
    summary = Summary(job.name, job.as_written(str(job.store)), dry_run=dry_run)
    with _named_as_written(job):
        for output in job.outputs:
            require_replaceable(output)
            refuse_to_replace(job.named_files, output)
        _require_store_or_nothing(store)
        if dry_run:
            _pretend(job, store, summary)
            announce(summary)
            return summary
        make_folder(store.path)
        wait = job.settings["job"]["lock_wait"] if lock_wait is None else lock_wait
        with output_lock(store.file, wait=wait), _failure_recorded(job, store, summary):
            drift = _carry_out(job, store, summary, progress)
            state = _report_due(job, store, summary)
            append_line(store.history_file, summary.describe())
            if state is not None:  # after the line: it tells of this run, too
                _report(job, store, state, summary, write_report)
            announce(summary)
            drift.mark_as_seen()
    return summary


@contextlib.contextmanager
def _named_as_written(job: Job) -> Iterator[None]:
    """Let errors name files as the job file does."""
    try:
        yield
    except NysketchError as error:
        error.args = (job.as_written(str(error)),)
        raise


def _require_store_or_nothing(store: Store) -> None:
    """Refuse a directory of something else: a run removes what does not belong to a store."""
    if not store.path.exists() or store.file.exists():
        return
    if not store.path.is_dir():
        raise UsageError(f"{store.path}: not a directory; [job] store must name one")
    others = [path.name for path in store.path.iterdir() if not _may_be_ours(path)]
    if others and not store.file.exists():  # another run may have made it just now
        raise UsageError(
            f"{store.path}: contains {min(others)} but no store.json, so it is not a store; [job] store "
            "must name a store, an empty directory, or a new one"
        )


def _may_be_ours(path: Path) -> bool:
    """Tell whether a path may be there before store.json: a lock, or a folder that a run made first."""
    return path.name.startswith(".") or (path.name in _FOLDERS and path.is_dir() and not any(path.iterdir()))


@contextlib.contextmanager
def _failure_recorded(job: Job, store: Store, summary: Summary) -> Iterator[None]:
    """Write a line in the history also if a run ends in an error, as far as that can be written."""
    try:
        yield
    except (NysketchError, OSError) as error:
        summary.errors.append(str(error))
        summary.rename(job.as_written)
        summary.exit_code = getattr(error, "exit_code", 1)
        summary.stop_clock()
        with contextlib.suppress(NysketchError):
            append_line(store.history_file, summary.describe())
        raise


def _pretend(job: Job, store: Store, summary: Summary) -> None:
    """Say what a run would do; nothing is written, and no rows are read."""
    if store.file.exists():
        _require_same_settings(job, store)
    plan = plan_run(job, store, summary)
    summary.new, summary.changed, summary.removed = list(plan.new), list(plan.changed), plan.removed
    digests = {name: part.sketch for name, part in plan.stored.items() if name not in plan.removed}
    digests |= dict.fromkeys([*plan.new, *plan.changed], "to be made")
    live = _newest(job, sorted(digests))
    summary.retired = [name for name in plan.stored if name in digests and name not in live]
    retiring = {name: digests[name] for name in summary.retired}
    wanted = window_step.wanted_windows(job, store, {name: digests[name] for name in live}, retiring)
    summary.windows = [name for name in wanted if not window_step.is_current(store, name, wanted[name])]
    summary.models = [model["name"] for model in job.models if model["window"] in summary.windows]
    summary.compared = [name for name in (*plan.new, *plan.changed) if job.comparisons and name in live]
    summary.rename(job.as_written)


# ---- a run -------------------------------------------------------------------------------------------


def _carry_out(job: Job, store: Store, summary: Summary, progress: PartitionProgress | None) -> Drift:
    _prepare(job, store)
    plan = plan_run(job, store, summary)
    basis = _basis(job, store, plan, summary)
    if basis is not None:
        _sketch_all(job, store, basis, plan, summary, progress)
    whole = whole_partitions(job, store)
    there = {name: part.sketch for name, part in whole.items() if name not in plan.removed}
    live = {name: there[name] for name in _newest(job, sorted(there))}
    retiring = {name: digest for name, digest in there.items() if name not in live}
    _update_windows(job, store, live, retiring, summary)
    summary.removed, summary.retired = plan.removed, list(retiring)
    stay = set(live)
    try:
        if retiring:
            window_step.retire(store, list(retiring), keep_sum=job.settings["retention"]["retired"] == "sum")
    except _UNFIT as error:
        summary.note_error(error, "no partition was retired")
        summary.retired, stay = [], set(there)
    _prune(store, stay | plan.lost, unfinished=set(summary.skipped) | plan.waiting)
    drift = Drift(job, store, live)
    _compare_all(drift, summary)
    _refresh_models(job, store, summary)
    summary.alarms, unheard = drift.news()
    summary.undecided = drift.undecided(summary.compared)
    for text in unheard:
        summary.note_error(InputError(text))
    summary.rename(job.as_written)
    summary.finish(partitions=len(live))
    return drift


def _prepare(job: Job, store: Store) -> None:
    """Clear up after a killed run, and make sure that the store is that of this job."""
    sweep(store.folders, but=lock_path(store.file))
    for folder in _FOLDERS:
        make_folder(store.path / folder)
    window_step.settle(store)
    for path in sorted((store.path / "partitions").glob(f"*{SKETCH}.next")):
        settle_partition(path.with_name(path.name.removesuffix(".next")))
    description = {"name": job.name, "schema_version": SCHEMA_VERSION, "settings": job.fixed()}
    if store.file.exists():
        _require_same_settings(job, store)
        if store.basis_file.exists():
            description["settings"] = store.description()["settings"]
    if read_json_or_none(store.file, STORE) != description:
        write_json(store.file, description)


def _require_same_settings(job: Job, store: Store) -> None:
    """Refuse settings that old sketches were not made with; before there is a basis, all may change."""
    stored = store.description()["settings"]
    if not store.basis_file.exists() and not store.partition_names():
        return
    different = differences(stored, job.fixed())
    if different:
        raise UsageError(
            f"{job.path}: the store {store.path} was made with different settings: {'; '.join(different)}. "
            "Restore them, or name another store in [job] and sketch all inputs again"
        )
    if store.basis_file.exists():
        require_same_basis(job, load_basis(store.basis_file))


def _basis(job: Job, store: Store, plan: RunPlan, summary: Summary) -> Basis | None:
    """Return the basis of the store; made on the first run, and found in a sketch if it was lost."""
    if store.basis_file.exists():
        return load_basis(store.basis_file)
    if plan.stored:
        basis = load_basis(store.partition_file(min(plan.stored)))
        save(basis, store.basis_file)
        return basis
    locations = {name: work.locations for name, work in plan.new.items()}
    made = first_basis(job, store, locations, summary.skipped)
    if made is not None:
        summary.not_watched = not_watched(made)
        if summary.not_watched:
            told = (f"{name} ({why})" for name, why in summary.not_watched.items())
            notice("not watched: %s", shorten(told))
    return made


def _sketch_all(
    job: Job, store: Store, basis: Basis, plan: RunPlan, summary: Summary, progress: PartitionProgress | None
) -> None:
    """Sketch new and changed partitions; one that cannot be read does not keep others from being read."""
    for name, work in sorted({**plan.new, **plan.changed}.items()):

        def show(done: int, total: int | None, name: str = name) -> None:
            if progress is not None:
                progress(name, done, total)

        try:
            sketch, notes = sketch_partition(
                job, store, basis, name, work.locations, work.inputs, progress=show
            )
        except InputError as error:
            summary.skipped[name] = str(error)
            continue
        summary.skipped.pop(name, None)  # no basis could be made from it, but now it has been sketched
        (summary.new if name in plan.new else summary.changed).append(name)
        for note in notes:
            log.warning("%s: %s", name, note)
            summary.notes.setdefault(name, []).append(note)
        summary.rows += sketch.rows
        summary.dropped_rows += sketch.dropped_rows
    for name, inputs in plan.touched.items():
        path = described(store.partition_file(name))
        write_json(path, read_json(path, PARTITION) | {"inputs": inputs})


def _newest(job: Job, names: list[str]) -> list[str]:
    """Return the partitions that retention keeps."""
    kept = job.settings["retention"]["partitions"]
    return names if kept == ALL else names[-kept:]


def _update_windows(
    job: Job, store: Store, live: dict[str, str], retiring: dict[str, str], summary: Summary
) -> None:
    wanted = window_step.wanted_windows(job, store, live, retiring)
    wanted = {name: held for name, held in wanted.items() if held}
    for name, held in wanted.items():
        try:
            if window_step.is_current(store, name, held):
                continue
            verify_every = job.settings["job"]["verify_every"]
            trouble = window_step.update_window(store, name, held, verify_every=verify_every)
        except _UNFIT as error:
            summary.note_error(error, f"window {name} is unchanged. {_REMEDY}")
            continue
        summary.windows.append(name)
        if trouble is not None:
            summary.note_error(CorruptSketchError(trouble))
    window_step.remove_unwanted(store, list(wanted))


def _prune(store: Store, live: set[str], unfinished: set[str]) -> None:
    """Remove what belongs to no partition of the store; of unfinished ones, what was done of them stays."""
    models = [path for path in (store.path / "models").iterdir() if path.is_dir()]
    for folder in (store.path / "drift", *models):
        remove(*(path for path in folder.glob(f"*{JSON}") if path.name.removesuffix(JSON) not in live))
    for path in sorted((store.path / "partitions").iterdir()):  # descriptions go before their sketches
        if not path.is_file() or not _OURS.search(path.name):
            continue
        name, _, rest = path.name.rpartition(SKETCH)
        is_description = path.name.endswith(JSON)
        name = path.name.removesuffix(JSON) if is_description else name
        kept = name in live if is_description or not rest else name in unfinished
        if not kept:
            remove(path)


def _compare_all(drift: Drift, summary: Summary) -> None:
    for name in drift.outdated():
        try:
            drift.update(name)
            summary.compared.append(name)
        except _UNFIT as error:
            summary.note_error(error, _REMEDY if isinstance(error, CorruptSketchError) else None)


def _refresh_models(job: Job, store: Store, summary: Summary) -> None:
    there = store.window_names()
    for model in job.models:
        if model["window"] not in there:
            continue
        try:
            if model_step.outdated(job, store, model):
                model_step.refresh(job, store, model)
                summary.models.append(model["name"])
        except (*_UNFIT, OutputError, UsageError) as error:
            summary.note_error(error, f"[[models]] {model['name']}")


# ---- the report --------------------------------------------------------------------------------------


def _report_due(job: Job, store: Store, summary: Summary) -> dict[str, str] | None:
    """Return what to note of the report; None if the job wants none, or it is that of the store as it is."""
    output = job.settings["report"]["output"]
    if output is None:
        return None
    trouble: list[object] = [summary.errors, summary.skipped]
    trouble += [summary.ignored] if summary.ignored else []
    state = {"output": output, "state": digest_of([_state(store), trouble])}
    if job.at(output).exists() and read_json_or_none(store.report_note, REPORT) == state:
        return None
    summary.report = output
    return state


def _report(
    job: Job, store: Store, state: dict[str, str], summary: Summary, write_report: WriteReport
) -> None:
    try:
        write_report(store, job.at(state["output"]))
        write_json(store.report_note, state)
    except NysketchError as error:
        summary.note_error(error, "[report]")
        summary.rename(job.as_written)
        summary.exit_code = summary.exit_code or error.exit_code


def _state(store: Store) -> str:
    """Return a digest of all that a report shows, but for the history."""
    folders = [store.path / name for name in ("partitions", "windows", "drift", "models")]
    return digest_of([[path.name, file_digest(path)] for f in folders for path in sorted(f.glob(f"*{JSON}"))])
