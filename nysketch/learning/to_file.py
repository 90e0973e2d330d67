"""Learning that ends in a model file: merge sketches, learn, refine on data if there is any, save.

As passes/to_file.py for passes: the lock, the existing output and the atomic save are here, the work
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nysketch._support.machine import default_memory
from nysketch._support.outputs import claimed, refuse_to_replace
from nysketch._types import Progress
from nysketch.engines.threads import Threads
from nysketch.files.merge import merged
from nysketch.learning.certificate import recertify
from nysketch.learning.sweep import Sweep, sweep
from nysketch.models.apply import room_to_apply
from nysketch.models.files import require_format, save_model
from nysketch.models.refine import refine, require_passes
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from nysketch.sources.protocol import Source


@dataclass(frozen=True)
class Refinement:
    """The rows to refine a model on, and how often to read them."""

    inputs: list[str]
    passes: int
    reading: ReadOptions = field(default_factory=ReadOptions)  # weights: by default those of the sketch
    nulls: str = "keep"
    threads: int | None = None
    memory: int = field(default_factory=default_memory)


@dataclass(frozen=True)
class Learned:
    """What `learn_to_file` did: the model it saved, all that it was chosen from, and inputs it skipped."""

    model: AnyModel
    sweep: Sweep
    unreadable: tuple[str, ...] = ()


def learn_to_file(
    paths: Sequence[Path],
    output: Path,
    ks: Sequence[int],
    *,
    format: str | None = None,
    refinement: Refinement | None = None,
    overwrite: bool = False,
    lock_wait: float = 0.0,
    refining: Progress | None = None,
    **options: Any,
) -> Learned:
    """Learn the best model with one of `ks` clusters from sketch files, and save it.

    Sketches are merged first; options are those of `learning.Learner`.
    """
    require_format(output, format)
    with claimed(output, inputs=paths, overwrite=overwrite, wait=lock_wait):
        sketch = merged(paths)
        source = None
        if refinement is not None:  # better told now that it cannot be read
            reading = refinement.reading.weighted_as(sketch.settings.get("weights"))
            source = open_source(refinement.inputs, reading.for_basis(sketch.basis), memory=refinement.memory)
            refuse_to_replace(source.local_paths, output)
            require_passes(source, refinement.passes)
        learned = learn(sketch, ks, **options)
        model = learned.best
        if refinement is not None and source is not None:
            model = refined(
                model,
                sketch,
                source,
                refinement.passes,
                nulls=refinement.nulls,
                threads=refinement.threads,
                memory=refinement.memory,
                progress=refining,
            )
        save_model(model, output, format, if_exists="overwrite" if overwrite else "fail")
    return Learned(model, learned, () if source is None else tuple(map(str, source.skipped)))


def learn(sketch: Sketch, ks: Sequence[int], **options: Any) -> Sweep:
    """Learn the best model with one of `ks` clusters, which remembers the others it was chosen from.

    Options are those of `learning.Learner`.
    """
    learned = sweep(sketch, ks, **options)
    if len(ks) < 2:
        return learned
    table = {"criterion": learned.criterion, "sweep": learned.table()}
    return replace(learned, best=replace(learned.best, facts=learned.best.facts | table))


def refined(
    model: AnyModel,
    sketch: Sketch,
    source: Source,
    passes: int,
    *,
    nulls: str = "keep",
    threads: int | None = None,
    memory: int,
    progress: Progress | None = None,
) -> AnyModel:
    """Refine a model by passes over rows, and certify it again by the sketch it was learned from."""
    room = room_to_apply(memory, source, model, threads)
    engine = Threads(room.threads)
    better = refine(model, room.source, passes, nulls=nulls, engine=engine, progress=progress)
    return recertify(better, sketch)
