"""Merging and subtracting sketches and their files; the arithmetic is sketches/sketch.py's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nysketch._support.intervals import in_words, is_one, numbers, stretched
from nysketch._support.notices import log
from nysketch._support.outputs import claimed
from nysketch.accumulators.protocol import Statistic
from nysketch.accumulators.tally import STATISTICS
from nysketch.basis.base import Basis
from nysketch.errors import IncompatibleError
from nysketch.files.format import load_sketch, save
from nysketch.provenance import Parts, Provenance, Whole
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.trimming import Trimmed, trimmed_sketch


@dataclass(frozen=True)
class Named:
    """A sketch to come, and what messages call it: files are read one at a time."""

    name: str
    load: Callable[[], Sketch]


def named(sketches: Iterable[Sketch | str | os.PathLike[str]]) -> list[Named]:
    """Name sketches by their files, or by their position if they are in memory."""
    return [
        Named(f"sketch {number}", partial(_itself, given))
        if isinstance(given, Sketch)
        else Named(os.fspath(given), partial(load_sketch, given))
        for number, given in enumerate(sketches, 1)
    ]


def _itself(sketch: Sketch) -> Sketch:
    return sketch


@dataclass(frozen=True)
class Merged:
    """What a merge made: the sketch, and what is in it more than once, or not at all."""

    sketch: Sketch
    doubled_inputs: list[str]
    doubled_parts: list[Parts]
    missing_parts: list[Parts]
    trimmed: Trimmed | None = None


def merge_files(
    paths: Sequence[Path],
    output: Path,
    *,
    overwrite: bool,
    force: bool = False,
    partial: bool = False,
    robust: int | str | None = None,
    lock_wait: float = 0.0,
) -> Merged:
    """Add sketch files into `output`, which must be another file."""
    with claimed(output, inputs=paths, overwrite=overwrite, wait=lock_wait):
        made = merge_sketches(named(paths), str(output), force=force, partial=partial, robust=robust)
        save(made.sketch, output)
    return made


def merge_sketches(
    sketches: Sequence[Named],
    what: str = "the sum",
    *,
    force: bool = False,
    partial: bool = False,
    robust: int | str | None = None,
) -> Merged:
    """Add sketches; `what` is what comes of it, for messages. `robust` leaves out outlying blocks of the sum.

    Nothing is doubled unless `force` allows to count rows twice, and no parts are missing unless `partial`
    says that they will come later.
    """
    add = _Addition(sketches[0].name, None if force else "use `force=True`")
    total = _folded(sketches, add, what)
    missing = total.provenance.missing_parts()
    if missing and not partial:
        raise IncompatibleError(
            f"{missing_in_words(missing)} from these {len(sketches)} sketches. Sketch the missing parts "
            "and merge again, or merge what is there with `partial=True`"
        )
    trimmed = None if robust is None else trimmed_sketch(total, robust)
    if trimmed is not None and trimmed.overwhelmed:
        raise IncompatibleError(
            f"{len(trimmed.left_out)} blocks of rows are outliers, too many for a median of {trimmed.groups} "
            "groups: what is left may be corrupted as well. Sketch with more `blocks`, or leave out `robust`"
        )
    total = total if trimmed is None else trimmed.sketch
    return Merged(total, add.doubled_inputs, add.doubled_parts(), missing, trimmed)


def merged(sketches: Sequence[Sketch | str | os.PathLike[str]], what: str = "the model") -> Sketch:
    """Return the sum of sketches, one file in memory at a time; no rows may be in two of them.

    `what` is what comes of it, for messages.
    """
    given = named(sketches)
    remedy = "merge them first with `nysketch.merge(force=True)`"
    total = _folded(given, _Addition(given[0].name, remedy), what)
    log_missing_parts(total, what)
    return total


def log_missing_parts(thing: Sketch | Basis, what: str) -> None:
    """Warn that `what` will be that of some parts of inputs only, if it will."""
    missing = [] if isinstance(thing, Basis) else thing.provenance.missing_parts()
    if missing:
        log.warning("%s: %s covers only the remaining rows", missing_in_words(missing), what)


def missing_in_words(missing: Sequence[Parts]) -> str:
    """Say which parts are missing, of one whole or several."""
    texts = [f"{in_words(parts, whole.of)} of {whole.name}" for whole, parts in missing]
    one = len(missing) == 1 and is_one(missing[0][1])
    return f"{'; '.join(texts)} {'is' if one else 'are'} missing"


class _Addition:
    """Adds sketches, and lists what is counted twice; or refuses it, if there is a remedy to name."""

    def __init__(self, first: str, remedy: str | None) -> None:
        self._first: str | None = first  # until it is noted
        self._remedy = remedy
        # Not those of the sum: there, parts that make a whole have become its inputs.
        self._inputs = Provenance()
        self._holders: dict[Whole, dict[int, str]] = {}  # which sketch has a part
        self._doubled: dict[Whole, set[int]] = {}
        self.doubled_inputs: list[str] = []

    def __call__(self, total: Sketch, part: Sketch, name: str) -> Sketch:
        if self._first is not None:
            self._note(total.provenance, self._first)
            self._first = None
        result = total + part  # complains first if they do not belong together
        self._look_for_parts(part.provenance)
        self._look_for_inputs(part.provenance)
        self._note(part.provenance, name)
        return result

    def doubled_parts(self) -> list[Parts]:
        """Return the parts that were in more than one of the sketches."""
        return [(whole, stretched(parts)) for whole, parts in self._doubled.items()]

    def _note(self, provenance: Provenance, name: str) -> None:
        self._inputs = self._inputs + replace(provenance, parts=())
        for whole, held in provenance.parts:
            holders = self._holders.setdefault(whole, {})
            for number in numbers(held):
                holders.setdefault(number, name)

    def _look_for_parts(self, provenance: Provenance) -> None:
        """Find parts that were there already."""
        for whole, held in provenance.parts:
            holders = self._holders.get(whole, {})
            both = [number for number in numbers(held) if number in holders]
            if both and self._remedy:
                doubled = in_words(stretched(both), whole.of)
                raise IncompatibleError(
                    f"{doubled} of {whole.name} {'are' if both[1:] else 'is'} in it and in "
                    f"{holders[both[0]]}: rows would be counted twice. If this is meant, {self._remedy}"
                )
            if both:
                self._doubled.setdefault(whole, set()).update(both)

    def _look_for_inputs(self, provenance: Provenance) -> None:
        """Find inputs that were there already, whole or in parts of another cut."""
        before = replace(self._inputs, parts=tuple((whole, ()) for whole in self._holders))
        shared = [item.path for item in before.shared_with(provenance)]
        if shared and self._remedy:
            why = self._other_cut(provenance) or f"{shared[0]} is in it and in another of these sketches"
            raise IncompatibleError(
                f"{why}: its rows would be counted twice. If this is meant, {self._remedy}"
            )
        self.doubled_inputs.extend(shared)

    def _other_cut(self, provenance: Provenance) -> str:
        """Say what is wrong if there are parts of the same inputs, but cut differently."""
        for other, holders in self._holders.items():
            path = next(iter(holders.values()))
            for whole, held in provenance.parts:
                if other.digest == whole.digest and other.of != whole.of:
                    return f"{whole.name} is cut into {whole.of} parts in it and into {other.of} in {path}"
                if Provenance(parts=((other, ()),)).shared_with(Provenance(parts=((whole, held),))):
                    return (
                        f"it holds parts of {whole.name} and {path} holds parts of {other.name}, of which "
                        "some inputs are the same (all parts of a table must be sketched from the same "
                        "inputs, by the same names, in the same order)"
                    )
        return ""


def subtract_files(
    whole: Path,
    parts: Sequence[Path],
    output: Path,
    *,
    overwrite: bool,
    force: bool = False,
    lock_wait: float = 0.0,
) -> tuple[Sketch, list[str]]:
    """Subtract sketch files from `whole` into `output`, which must be another file."""
    with claimed(output, inputs=[whole, *parts], overwrite=overwrite, wait=lock_wait):
        rest, missing = subtract_sketches(named([whole, *parts]), str(output), force=force)
        save(rest, output)
    return rest, missing


def subtract_sketches(
    sketches: Sequence[Named], what: str = "the rest", *, force: bool = False
) -> tuple[Sketch, list[str]]:
    """Subtract sketches from the first of them; also return inputs that it did not list.

    There are none unless `force` trusts that their rows are in it all the same.
    """
    whole = sketches[0].name
    missing: list[str] = []

    def subtract(rest: Sketch, part: Sketch, name: str) -> Sketch:
        del name
        left = rest - part
        known = {item for item, _ in rest.provenance.removed}
        unlisted = [item.path for item, _ in left.provenance.removed if item not in known]
        if unlisted and not force:
            parts = [f"{in_words(held, of.of)} of {of.name}" for of, held in part.provenance.parts]
            raise IncompatibleError(
                f"it holds rows of {'; '.join(parts) or unlisted[0]}, which is not among the inputs of "
                f"{whole} or was subtracted already. If it contains these rows anyway, use `force=True`"
            )
        if not left.tally.is_possible(left.basis):
            raise IncompatibleError(
                f"it is not contained in {whole}: {rest.rows:,} rows are left to subtract {part.rows:,} "
                "from, or the rows differ"
            )
        missing.extend(unlisted)
        return left

    return _folded(sketches, subtract, what), missing


# The sketch so far, another one, and what that one is called.
_Operation = Callable[[Sketch, Sketch, str], Sketch]


def _folded(sketches: Sequence[Named], operation: _Operation, what: str) -> Sketch:
    """Fold an operation over sketches, one in memory at a time; `what` is what comes of it."""
    result = sketches[0].load()
    without: dict[type[Statistic], list[str]] = {kind: [] for kind in STATISTICS if kind.noun}
    _note_missing(result, sketches[0].name, without)
    for other in sketches[1:]:
        part = other.load()
        _note_missing(part, other.name, without)
        try:
            result = operation(result, part, other.name)
        except IncompatibleError as error:
            raise IncompatibleError(f"{other.name}: {error}") from error
    for kind, lacking in without.items():
        if 0 < len(lacking) < len(sketches):
            log.warning("%s has no %s: neither will %s", lacking[0], kind.noun, what)
    return result


def _note_missing(sketch: Sketch, name: str, without: dict[type[Statistic], list[str]]) -> None:
    """Note which of the statistics that not every sketch has are missing from this one."""
    for kind, lacking in without.items():
        lacking += [name] if sketch.tally.get(kind) is None else []
