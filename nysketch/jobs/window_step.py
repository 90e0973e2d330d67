"""Windows: sums over the last partitions, kept by adding the new and subtracting the old.

Sketches are an exact group, so that a window that was kept for years has the very sums of a fresh merge. Only
a fresh merge has the sample, the runs and the ranges in full; so, and to be sure of the sums, a window is
merged afresh every so many steps, and compared. Partitions that retention removes live on in one sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nysketch._support.notices import log
from nysketch.errors import CorruptSketchError, InputError
from nysketch.files.format import load_sketch
from nysketch.jobs.config import ALL, Job
from nysketch.jobs.store import Store, Window
from nysketch.jobs.store_io import described, file_digest, remove, save_described, settle_pair, write_json
from nysketch.sketches.sketch import Sketch

# Arrays of a sketch that only a fresh merge has in full: bounds, samples, and how fine runs are.
_APPROXIMATE = ("columns.", "far.", "runs.", "sample.")
# How far sums may be apart, relative to the largest of them. They are the same to the last bit; but a store
# may be moved to another machine.
_TOLERANCE = 1e-12


def settle(store: Store) -> None:
    """Finish, or undo, what a killed run was changing."""
    settle_pair(store.retired_file)
    folder = store.path / "windows"
    for path in sorted(folder.glob("*.nysk.next")):
        settle_pair(path.with_name(path.name.removesuffix(".next")))


def members_of(window: Mapping[str, Any], names: Sequence[str], retired: Sequence[str]) -> list[str]:
    """Return the partitions that a window holds, of those that are there."""
    if window["last"] == ALL:
        return sorted({*retired, *names})
    return list(names[-window["last"] :])


def wanted_windows(
    job: Job, store: Store, digests: Mapping[str, str], retiring: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return what each window is to hold: partition → digest of its sketch.

    Those that are `retiring` are among the retired ones already, though still there themselves.
    """
    retired: dict[str, str] = {}
    if job.settings["retention"]["retired"] == "sum":
        retired = {**store.retired_members(), **retiring}
    known = {**digests, **retired}
    names = sorted(digests.keys() - retired.keys())
    return {
        window["name"]: {name: known[name] for name in members_of(window, names, list(retired))}
        for window in job.windows
    }


def is_current(store: Store, name: str, wanted: Mapping[str, str]) -> bool:
    """Tell whether a window holds what it should."""
    known = known_window(store, name)
    return known is not None and known.members == dict(wanted)


def known_window(store: Store, name: str) -> Window | None:
    """Return a window whose two files belong together, or None if it must be made afresh."""
    try:
        window = store.window(name)
    except (InputError, CorruptSketchError):
        return None
    return window if file_digest(store.window_file(name)) == window.digest else None


def update_window(store: Store, name: str, wanted: Mapping[str, str], *, verify_every: int) -> str | None:
    """Bring a window up to date; return what was wrong with it, if anything was."""
    known, path = known_window(store, name), store.window_file(name)
    if known is not None and known.members == wanted:
        return None
    old = {} if known is None else known.members
    gone = sorted(old.keys() - wanted.keys())
    new = sorted(wanted.keys() - old.keys())
    # The sketch that was added is no longer there to be subtracted, if it was replaced or removed.
    lost = any(wanted[each] != old[each] for each in old.keys() & wanted.keys()) or any(
        not _still_there(store, each, old[each]) for each in gone
    )
    steps = len(gone) + len(new)
    if known is None or lost or steps >= len(wanted):
        _save(store, name, fresh(store, list(wanted)), wanted, 0)
        return None
    total = _sketch_of(store, name)
    for each in gone:  # first: fewer runs need no coarser ones
        total = total - store.sketch(each)
    for each in new:
        total = total + store.sketch(each)
    steps += known.steps
    if steps < verify_every:
        _save(store, name, total, wanted, steps)
        return None
    merged = fresh(store, list(wanted))
    trouble = difference(total, merged)
    _save(store, name, merged, wanted, 0)
    if trouble is None:
        log.info("window %s: verified against a fresh merge after %d steps", name, steps)
        return None
    return (
        f"{path}: differed from the sum of its partitions ({trouble}) and was replaced by a fresh merge. "
        "Check the disk; `nysketch.verify` checks the partitions"
    )


def _still_there(store: Store, name: str, digest: str) -> bool:
    try:
        return store.partition(name).sketch == digest and store.partition_file(name).exists()
    except (InputError, CorruptSketchError):
        return False


def _sketch_of(store: Store, name: str) -> Sketch:
    return load_sketch(store.window_file(name))


def _save(store: Store, name: str, sketch: Sketch, wanted: Mapping[str, str], steps: int) -> None:
    description = {
        "members": dict(wanted),
        "partitions": sorted(wanted),
        "rows": sketch.rows,
        "steps": steps,
    }
    save_described(sketch, store.window_file(name), description)


def fresh(store: Store, names: Sequence[str]) -> Sketch:
    """Return the sum of partitions, one in memory at a time; retired ones are in their sum together."""
    retired = store.retired_members().keys() & set(names)
    total = store.retired_sketch() if retired else None
    for name in sorted(set(names) - retired):
        part = store.sketch(name)
        total = part if total is None else total + part
    assert total is not None
    return total


def difference(kept: Sketch, merged: Sketch) -> str | None:
    """Say how two sketches of the same rows differ in what must be the same, if they do."""
    if (kept.rows, kept.dropped_rows) != (merged.rows, merged.dropped_rows):
        return f"{kept.rows:,} rows, and {merged.rows:,} in a fresh merge"
    one, other = _sums(kept), _sums(merged)
    if one.keys() != other.keys():
        return f"only one of them has {', '.join(sorted(one.keys() ^ other.keys()))}"
    for name, array in one.items():
        if array.shape != other[name].shape:
            return f"{name} has another shape"
        scale = float(np.abs(other[name]).max(initial=0))
        apart = float(np.abs(array - other[name]).max(initial=0))
        if not apart <= _TOLERANCE * scale:
            return f"{name} is off by {apart:.3g}"
    return None


def _sums(sketch: Sketch) -> dict[str, Any]:
    """Return the arrays that do not depend on how a sketch came about, to the digits of float64."""
    arrays = sketch.tally.arrays().items()
    return {key: array for key, array in arrays if not key.startswith(_APPROXIMATE) and key[-4:] != ".low"}


def remove_unwanted(store: Store, wanted: Sequence[str]) -> list[str]:
    """Remove windows that the job no longer asks for."""
    gone = [name for name in store.window_names() if name not in wanted]
    for name in gone:
        remove(described(store.window_file(name)), store.window_file(name))
    return gone


# ---- retirement --------------------------------------------------------------------------------------


def retire(store: Store, names: Sequence[str], *, keep_sum: bool) -> None:
    """Note that partitions go for good; their sum stays, if it is to be kept. Nothing is removed yet."""
    known, members = store.retired(), store.retired_members() if keep_sum else {}
    new = [name for name in names if name not in known]
    description: dict[str, Any] = {"partitions": sorted([*known, *new])}
    if new and keep_sum:
        total = store.retired_sketch() if members else None
        for name in new:
            part = store.sketch(name)
            total = part if total is None else total + part
            members[name] = store.partition(name).sketch
        assert total is not None
        save_described(total, store.retired_file, description | {"members": members, "rows": total.rows})
    elif new:
        write_json(described(store.retired_file), description | {"members": {}})
        remove(store.retired_file)
