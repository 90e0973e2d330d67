"""What a store holds and what it lacks: partitions, gaps, drift, windows, models, runs, disk use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nysketch.errors import CorruptSketchError
from nysketch.jobs.drift_step import is_alarm
from nysketch.jobs.partition_names import gaps
from nysketch.jobs.store import Store
from nysketch.jobs.store_io import read_json_or_none

# Partitions whose comparisons are shown.
_RECENT = 7


def status(store: Store) -> dict[str, Any]:
    """Return what there is to know of a store without its data, ready for JSON."""
    partitions = store.partitions()
    history = store.history()
    names = [partition.name for partition in partitions]
    retired = store.retired()
    drift = store.drift()
    return {
        "bytes": _disk_use(store.path),
        "drift": [
            {"partition": name} | {key: found.get(key) for key in _SHOWN}
            for name in names[-_RECENT:]
            for found in drift.get(name, [])
        ],
        "alarms": [
            {"name": found["name"], "partition": name, "mmd": found["mmd"]}
            for name in names
            for found in drift.get(name, [])
            if _is_alarm(found)
        ],
        "dropped_rows": sum(partition.dropped_rows for partition in partitions),
        "first": names[0] if names else None,
        "gaps": gaps([*retired, *names]),
        "last": names[-1] if names else None,
        "last_run": history[-1] if history else None,
        "models": _models(store),
        "name": store.name,
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


_SHOWN = ("name", "against", "other", "mmd", "standard_error", "p_value", "rejected", "verdict")


def _is_alarm(found: dict[str, Any]) -> bool:
    try:
        return is_alarm(found)
    except (KeyError, TypeError) as error:
        raise CorruptSketchError(
            "a file in drift/ does not contain comparisons; remove it: the next `nysketch.run` makes it again"
        ) from error


def _models(store: Store) -> dict[str, Any]:
    """Return of each model what it is and what it was learned from, from its file alone."""
    found = {}
    for path in sorted((store.path / "models").glob("*.json")):
        value = read_json_or_none(path)
        facts = value if isinstance(value, dict) else {}
        nightly = facts.get("nightly") or {}
        found[path.name.removesuffix(".json")] = {
            "k": len(facts.get("centroids") or facts.get("weights") or []),
            "kind": facts.get("kind"),
            "newest": nightly.get("newest"),
            "rows": facts.get("rows"),
            "window": nightly.get("window"),
        }
    return found


def _unfinished(store: Store) -> list[str]:
    """Return partitions of which a run has left a part: the next one goes on with them."""
    folder = store.path / "partitions"
    return sorted({path.name.split(".nysk.next")[0] for path in folder.glob("*.nysk.next*")})


def _disk_use(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
