"""Models of windows: learned again when their window, or what is asked of them, has changed.

A model remembers what it was learned from among its facts: partition, window and a digest of the request,
beside one of itself, under the key `nightly`, which is part of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nysketch._support.outputs import claimed
from nysketch.errors import CorruptSketchError, InputError, OutputError
from nysketch.jobs.config import Job
from nysketch.jobs.store import Store, digest_of_model, stored_model
from nysketch.jobs.store_io import digest_of, make_folder
from nysketch.learning.sweep import sweep
from nysketch.models.files import load_model, save_model

_LEARNING = ("covariance", "decoder", "trials", "seed", "robust")


def outdated(job: Job, store: Store, model: Mapping[str, Any]) -> bool:
    """Tell whether a model, or one of its copies, is not that of its window as it is now."""
    wanted = _request(store, model)
    return any(_request_of(path) != wanted for path in (*_kept(store, model), *_copies(job, model)))


def _request(store: Store, model: Mapping[str, Any]) -> str:
    """Return a digest of all that a model depends on."""
    asked = {key: value for key, value in model.items() if key != "output"}
    return digest_of([asked, store.window(model["window"]).digest])


def _kept(store: Store, model: Mapping[str, Any]) -> list[Path]:
    """Return where a store keeps a model; its newest file is the last to be written."""
    newest = store.window(model["window"]).partitions[-1]
    return [store.model_file(model["name"], newest), store.model_file(model["name"])]


def _copies(job: Job, model: Mapping[str, Any]) -> list[Path]:
    """Return where a copy is wanted outside of the store, if anywhere."""
    return [] if model["output"] is None else [job.at(model["output"])]


def _request_of(path: Path) -> str | None:
    try:
        request: str | None = stored_model(path).facts["nightly"]["request"]
    except (InputError, CorruptSketchError):
        return None
    return request


def refresh(job: Job, store: Store, model: Mapping[str, Any]) -> None:
    """Learn a model from its window, and keep it: by its newest partition, as the newest, and as a copy."""
    wanted = _request(store, model)
    kept, copies = _kept(store, model), _copies(job, model)
    stale = {path: _request_of(path) != wanted for path in (*kept, *copies)}
    done = next((path for path in stale if not stale[path]), None)
    learned = load_model(done) if done is not None else _learned(store, model, wanted)
    make_folder(kept[0].parent)
    for path in filter(stale.get, kept):
        save_model(learned, path, if_exists="overwrite")
    for path in filter(stale.get, copies):
        with claimed(path, overwrite=True):
            _require_own(path, store)
            save_model(learned, path, if_exists="overwrite")


def _require_own(output: Path, store: Store) -> None:
    """Raise an OutputError if there is something else than a copy of an older model."""
    if not output.exists():
        return
    try:
        facts = load_model(output).facts
        own = isinstance(facts.get("nightly"), dict) and facts.get("basis_digest") == store.basis().digest
    except (InputError, CorruptSketchError):
        own = False
    if not own:
        raise OutputError(
            f"{output}: exists, and is no model of this store; move it away, or choose another output"
        )


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
    learned = replace(found.best, facts=facts)
    facts["nightly"]["digest"] = digest_of_model(learned)
    return replace(learned, facts=facts)
