"""Models of windows: learned again when their window, or what is asked of them, has changed.

A model remembers what it was learned from among its facts: partition, window and a digest of the request,
under the key `nightly`, which is part of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nysketch.errors import CorruptSketchError, InputError
from nysketch.jobs.config import Job
from nysketch.jobs.store import Store
from nysketch.jobs.store_io import digest_of, make_folder
from nysketch.learning.sweep import sweep
from nysketch.models.files import load_model, require_format, save_model

_LEARNING = ("covariance", "decoder", "trials", "seed", "robust")


def outdated(job: Job, store: Store, model: Mapping[str, Any]) -> bool:
    """Tell whether a model, or one of its copies, is not that of its window as it is now."""
    wanted = _request(store, model)
    return any(_request_of(path) != wanted for path in _paths(job, store, model))


def _request(store: Store, model: Mapping[str, Any]) -> str:
    """Return a digest of all that a model depends on."""
    asked = {key: value for key, value in model.items() if key != "output"}
    return digest_of([asked, store.window(model["window"]).digest])


def _paths(job: Job, store: Store, model: Mapping[str, Any]) -> list[Path]:
    """Return where a model is kept; its newest file is the last in the store to be written."""
    newest = store.window(model["window"]).partitions[-1]
    paths = [store.model_file(model["name"], newest), store.model_file(model["name"])]
    return paths if model["output"] is None else [*paths, job.at(model["output"])]


def _request_of(path: Path) -> Any:
    try:
        facts = load_model(path).facts.get("nightly")
    except (InputError, CorruptSketchError):
        return None
    return facts.get("request") if isinstance(facts, dict) else None


def refresh(job: Job, store: Store, model: Mapping[str, Any]) -> None:
    """Learn a model from its window, and keep it: by its newest partition, as the newest, and as a copy."""
    if model["output"] is not None:
        require_format(Path(model["output"]))
    wanted = _request(store, model)
    paths = _paths(job, store, model)
    done = next((path for path in paths if _request_of(path) == wanted), None)
    learned = load_model(done) if done is not None else _learned(store, model, wanted)
    make_folder(paths[0].parent)
    for path in paths:
        if _request_of(path) != wanted:
            save_model(learned, path, if_exists="overwrite")


def _learned(store: Store, model: Mapping[str, Any], request: str) -> Any:
    first, colon, last = str(model["k"]).partition(":")
    ks = range(int(first), int(last if colon else first) + 1)
    found = sweep(store.window_sketch(model["window"]), ks, **{key: model[key] for key in _LEARNING})
    window = store.window(model["window"])
    facts = found.best.facts | {
        "nightly": {"newest": window.partitions[-1], "request": request, "window": window.name}
    }
    if len(ks) > 1:
        facts |= {"criterion": found.criterion, "sweep": found.table()}
    return replace(found.best, facts=facts)
