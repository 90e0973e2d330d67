"""What a store holds and what it lacks: partitions, gaps, drift, windows, models, runs, disk use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nysketch._support.notices import log
from nysketch.errors import NysketchError
from nysketch.jobs.drift_step import is_alarm, is_undecided, usual_detectable, verdict_beside
from nysketch.jobs.partition_names import gaps
from nysketch.jobs.store import Store, not_watched

# Partitions whose comparisons are shown.
_RECENT = 7


def status(store: Store) -> dict[str, Any]:
    """Return what there is to know of a store without its data, ready for JSON."""
    partitions = store.partitions()
    history = store.history()
    for damaged in store.damaged_history():
        log.warning("%s", damaged)
    names = [partition.name for partition in partitions]
    retired = store.retired()
    drift = store.drift()
    usual = usual_detectable(drift)
    return {
        "bytes": _disk_use(store.path),
        "drift": [
            {"partition": name} | {key: found[key] for key in _SHOWN} | _undecided(found, usual)
            for name in names[-_RECENT:]
            for found in drift.get(name, [])
        ],
        "alarms": [
            {"name": found["name"], "partition": name, "mmd": found["mmd"]}
            for name in names
            for found in drift.get(name, [])
            if is_alarm(found)
        ],
        "dropped_rows": sum(partition.dropped_rows for partition in partitions),
        "first": names[0] if names else None,
        "gaps": gaps([*retired, *names]),
        "ignored": history[-1]["ignored"] if history else [],
        "last": names[-1] if names else None,
        "last_run": history[-1] if history else None,
        "models": _models(store),
        "name": store.name,
        "not_watched": _not_watched(store),
        "notes": {part.name: part.notes for part in partitions[-_RECENT:] if part.notes},
        "partitions": [
            {
                "dropped_rows": partition.dropped_rows,
                "files": len(partition.inputs),
                "name": partition.name,
                "rows": partition.rows,
            }
            for partition in partitions
        ],
        "retired": len(retired),
        "rows": sum(partition.rows for partition in partitions),
        "runs": len(history),
        "store": str(store.path),
        "unfinished": _unfinished(store),
        "windows": {
            name: {
                "first": window.partitions[0] if window.partitions else None,
                "last": window.partitions[-1] if window.partitions else None,
                "partitions": len(window.partitions),
                "steps": window.steps,
            }
            for name, window in store.windows().items()
        },
    }


_SHOWN = ("name", "against", "other", "mmd", "standard_error", "p_value", "rejected", "detectable")


def _undecided(found: dict[str, Any], usual: dict[str, float]) -> dict[str, Any]:
    return {"undecided": is_undecided(found, usual), "verdict": verdict_beside(found, usual)}


def _not_watched(store: Store) -> dict[str, str]:
    """Return the columns that no sketch has; a basis that cannot be read is no reason to say nothing else."""
    try:
        return not_watched(store.basis())
    except NysketchError:
        return {}


def _models(store: Store) -> dict[str, Any]:
    """Return of each model what it is and what it was learned from, from its file alone."""
    return {
        name: {
            "k": model.k,
            "kind": model.kind,
            "newest": model.facts["nightly"]["newest"],
            "rows": model.facts["rows"],
            "window": model.facts["nightly"]["window"],
        }
        for name, model in store.newest_models().items()
    }


def _unfinished(store: Store) -> list[str]:
    """Return partitions of which a run has left a part: the next one goes on with them."""
    folder = store.path / "partitions"
    return sorted({path.name.split(".nysk.next")[0] for path in folder.glob("*.nysk.next*")})


def _disk_use(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
