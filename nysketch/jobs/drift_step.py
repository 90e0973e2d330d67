"""Comparisons of partitions with others, and which of them are alarms that nobody has heard yet.

What a partition is compared with, and how, is decided anew in every run; if that, and the sketches, are those
of the comparisons on disk, these stand. An alarm is new as long as alarms.json does not list the comparison:
it is written at the very end of a run, so that an alarm of a killed run is raised by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import Any

from nysketch._support.blas import one_thread
from nysketch._support.notices import log
from nysketch.basis.base import Basis
from nysketch.errors import CorruptSketchError, InputError, NysketchError
from nysketch.files.format import load_sketch
from nysketch.jobs.config import Job, compare_options
from nysketch.jobs.partition_names import period
from nysketch.jobs.records import ALARMS, DRIFT
from nysketch.jobs.store import Store
from nysketch.jobs.store_io import digest_of, file_digest, read_json, read_json_or_none, write_json
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.columns import ColumnChange
from nysketch.twosample.compare import compare
from nysketch.twosample.multiple_testing import adjust_p_values
from nysketch.twosample.results import Comparison
from nysketch.twosample.words import change_in_words

# Columns of a comparison to keep, by how far their means moved.
_MOST_COLUMNS = 20
# Days after which a weekday is no longer the same one: another season has come.
_WEEKDAY_WITHIN = 28
# What comparisons measure: those of another kind are made again, from the sketches.
_METHOD = "MMD of the rows"
UNDECIDED = "undecided: too few rows to tell"
UNTESTED = "undecided: the difference is outside the span of the landmarks, where the test does not look"
# A comparison that finds only differences so many times larger than others of its name do is undecided.
_UNUSUAL, _FEWEST_USUAL = 3.0, 3
_UNSEEN: dict[str, Any] = {"failed": [], "others": {}, "sketch": None}
Pair = tuple[dict[str, Any], str, str]  # a comparison of the job, the other's name, the other's digest


def counterpart(comparison: Mapping[str, Any], name: str, names: Sequence[str]) -> str | None:
    """Return what to compare a partition with: the name of another, or the path of a sketch file."""
    earlier = [other for other in names if other < name]
    if comparison["against"] == "previous":
        return earlier[-1] if earlier else None
    if comparison["against"] == "reference":
        reference = str(comparison["reference"])
        return None if reference == name else reference
    own = period(name)
    if own is None:
        return None
    if comparison["against"] == "year":
        before = own.a_year_before
        return next((other for other in earlier if before is not None and period(other) == before), None)
    if own.unit != "d":
        return None
    known = ((other, period(other)) for other in reversed(earlier))
    weeks = ((other, (own.start - p.start).days) for other, p in known if p is not None and p.unit == "d")
    return next((other for other, days in weeks if days % 7 == 0 and days <= _WEEKDAY_WITHIN), None)


class Drift:
    """The comparisons of all partitions of a store; `digests` are those of their sketches."""

    def __init__(self, job: Job, store: Store, digests: Mapping[str, str]) -> None:
        self._job, self._store, self._digests = job, store, digests
        self._names = sorted(digests)
        self._files: dict[str, str] = {}  # digests of reference files
        self._last: dict[str, Sketch] = {}
        self._known: dict[str, dict[str, Any]] = {}  # what files of comparisons hold: read once in a run
        self._basis: Basis | None = None

    def outdated(self) -> list[str]:
        """Return the partitions that are to be compared (again)."""
        if not self._job.comparisons:
            return []
        return [name for name in self._names if self._stored(name)["request"] != self._request(name)]

    def _stored(self, name: str) -> dict[str, Any]:
        """Return what is known of a partition; nothing if it is damaged, and so to be made again."""
        if name not in self._known:
            stored = read_json_or_none(self._store.drift_file(name), DRIFT)
            self._known[name] = stored or {"comparisons": [], "errors": [], "failed": [], "request": ""}
        return self._known[name]

    def _pairs(self, name: str) -> list[Pair]:
        pairs = []
        for comparison in self._job.comparisons:
            other = counterpart(comparison, name, self._names)
            if other is not None:
                pairs.append((comparison, other, self._digest(other)))
        return pairs

    def _digest(self, other: str) -> str:
        """Return the digest of another sketch; nothing of a reference that is not there, for now."""
        if other in self._digests:
            return self._digests[other]
        if other not in self._files:
            self._files[other] = file_digest(self._job.at(other)) or ""
        return self._files[other]

    def _request(self, name: str) -> str:
        """Return a digest of all that the comparisons of a partition depend on; alarms are no part of it."""
        pairs = [[_asked(comparison), other, digest] for comparison, other, digest in self._pairs(name)]
        return digest_of([self._digests[name], self._job.settings["drift"], pairs, _METHOD])

    def update(self, name: str) -> None:
        """Compare a partition with all that it is to be compared with, and store what comes out."""
        pairs, errors, failed = self._pairs(name), [], []
        found: list[Comparison | None] = []
        for comparison, other, digest in pairs:
            if not digest:  # `news` tells of it, in every run
                found.append(None)
                failed.append(comparison["name"])
                continue
            options = compare_options(comparison)
            draws = options.draws(len(self._job.comparisons))
            wanted = vars(replace(options, permutations=draws, explain=True, regions=0))
            first, second = self._sketch(other), self._sketch(name)  # a damaged one is no result
            try:
                with one_thread():  # the same digits on any machine, and no fight for busy processors
                    found.append(compare(first, second, names=(other, name), **wanted))
            except NysketchError as error:
                found.append(None)
                failed.append(comparison["name"])
                errors.append(f"{name} cannot be compared with {other}: {error}")
        tested = adjust_p_values(
            [each for each in found if each is not None], self._job.settings["drift"]["adjust"]
        )
        results = iter(tested)
        described = [
            _described(comparison, other, [digest, self._digests[name]], next(results))
            for (comparison, other, digest), each in zip(pairs, found, strict=True)
            if each is not None
        ]
        value = {
            "comparisons": described,
            "errors": errors,
            "failed": failed,
            "partition": name,
            "request": self._request(name),
        }
        write_json(self._store.drift_file(name), value)
        self._known.pop(name, None)

    def _sketch(self, name: str) -> Sketch:
        """Load a sketch; the last two are kept, since the next partition is compared with this one."""
        if name not in self._last:
            if len(self._last) > 1:
                del self._last[next(iter(self._last))]
            known = name in self._digests
            sketch = self._store.sketch(name) if known else load_sketch(self._job.at(name))
            if self._basis is None:
                self._basis = sketch.basis
            # One object: its eigenvectors are worked out once, not once per sketch.
            self._last[name] = replace(sketch, basis=self._basis) if sketch.basis == self._basis else sketch
        return self._last[name]

    # ---- alarms ------------------------------------------------------------------------------------

    def news(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return alarms and errors that no run has reported, from what is on disk."""
        alarms: list[dict[str, Any]] = []
        missing = {other for name in self._names for _, other, digest in self._pairs(name) if not digest}
        errors = [
            f"[[comparisons]] reference = {other!r}: neither a partition (has it retired?) nor a file. Name "
            "a sketch file, such as a copy of a partition's"
            for other in sorted(missing)
        ]
        wanted = {comparison["name"] for comparison in self._job.comparisons if comparison["alarm"]}
        for name in self._names:
            stored = self._stored(name)
            before = self._seen.get(name, _UNSEEN)
            is_new = before["sketch"] != self._digests[name]
            errors += stored["errors"] if is_new else []
            for found in stored["comparisons"]:
                known = before["others"].get(found["name"])
                other_is_new = known is not None and known != found["sketches"][0]
                # What could not be compared before, and can now, has never been heard of.
                is_news = is_new or other_is_new or found["name"] in before["failed"]
                if found["name"] in wanted and is_news and found["p_value"] is None:
                    errors.append(
                        f"{name} could not be tested against {found['other']} (rows {found['rows'][1]:,} "
                        f"and {found['rows'][0]:,}), so no alarm can be raised"
                    )
                if found["name"] in wanted and is_alarm(found) and is_news:
                    keys = ("against", "mmd", "name", "other", "p_value")
                    alarms.append({"partition": name} | {key: found[key] for key in keys})
        return alarms, errors

    def undecided(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the comparisons of some partitions that found nothing because they could not."""
        drift = {name: self._stored(name)["comparisons"] for name in self._names}
        usual = usual_detectable(drift)
        return [
            {"partition": name, "unusual": _is_unusual(found, usual)}
            | {key: found[key] for key in ("detectable", "name", "other")}
            for name in names
            for found in drift.get(name, [])
            if is_undecided(found, usual)
        ]

    @cached_property
    def _seen(self) -> dict[str, Any]:
        """Return what was reported; if that is damaged, all is new: better twice than never."""
        try:
            return dict(read_json(self._store.alarms_file, ALARMS)["partitions"])
        except CorruptSketchError as error:
            log.warning("%s. Alarms are reported once more", self._job.as_written(str(error)))
        except InputError:  # none was ever reported
            pass
        return {}

    def mark_as_seen(self) -> None:
        """Note what has been reported: all comparisons that are those of the partitions as they are."""
        partitions: dict[str, Any] = {}
        seen = self._seen
        for name in self._names:
            stored = self._stored(name)
            if self._job.comparisons and stored["request"] != self._request(name):
                partitions |= {name: seen[name]} if name in seen else {}
                continue
            others = {found["name"]: found["sketches"][0] for found in stored["comparisons"]}
            failed = stored["failed"] if self._job.comparisons else []
            partitions[name] = {"failed": failed, "others": others, "sketch": self._digests[name]}
        value = {"partitions": partitions, "schema_version": 1}
        if read_json_or_none(self._store.alarms_file, ALARMS) != value:
            write_json(self._store.alarms_file, value)


def is_alarm(comparison: Mapping[str, Any]) -> bool:
    """Tell whether a comparison found a difference beyond chance that is large enough to matter."""
    return bool(comparison["rejected"]) and comparison["mmd"] >= comparison["at_least"]


def usual_detectable(drift: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return the MMD that comparisons of each name find, usually; only of names with enough of them."""
    found: dict[str, list[float]] = {}
    for comparisons in drift.values():
        for one in comparisons:
            if one["detectable"] is not None:
                found.setdefault(one["name"], []).append(one["detectable"])
    return {name: median(values) for name, values in found.items() if len(values) >= _FEWEST_USUAL}


def is_undecided(comparison: Mapping[str, Any], usual: Mapping[str, float]) -> bool:
    """Tell whether a comparison found nothing because it could not: by itself, or beside what is usual."""
    if comparison["rejected"] or comparison["p_value"] is None:
        return False
    return bool(comparison["undecided"]) or _is_unusual(comparison, usual)


def verdict_beside(comparison: Mapping[str, Any], usual: Mapping[str, float]) -> str | None:
    """Return the verdict: that of the comparison, unless others of its name see far more."""
    stored: str | None = comparison["verdict"]
    return UNDECIDED if is_undecided(comparison, usual) and stored != UNTESTED else stored


def _is_unusual(comparison: Mapping[str, Any], usual: Mapping[str, float]) -> bool:
    detectable, name = comparison["detectable"], comparison["name"]
    return detectable is not None and name in usual and detectable > _UNUSUAL * usual[name]


def _asked(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result depends on; options that are as they always were count as not given."""
    usual = {"robust_method": "trim"}
    return {key: value for key, value in comparison.items() if key != "alarm" and usual.get(key) != value}


def _described(
    comparison: Mapping[str, Any], other: str, digests: list[str], found: Comparison
) -> dict[str, Any]:
    facts = found.describe()
    kept = (
        "alpha",
        "detectable",
        "mmd",
        "mmd_projected",
        "notes",
        "outside_share",
        "p_value",
        "p_value_adjusted",
        "rows",
        "standard_error",
        "test",
        "threshold",
    )
    described = {key: facts[key] for key in kept} | {
        "against": comparison["against"],
        "at_least": comparison["at_least"],
        "columns": _columns(found),
        "name": comparison["name"],
        "other": other,
        "rejected": bool(found.rejected),
        "sketches": digests,
        "undecided": found.undecided(comparison["at_least"]),
    }
    described["verdict"] = _verdict(found, large=is_alarm(described), undecided=described["undecided"])
    return described


def _verdict(found: Comparison, *, large: bool, undecided: bool) -> str | None:
    if found.rejected is None:
        return None
    if not found.rejected:
        if undecided:
            return UNTESTED if found.untested else UNDECIDED
        return "no difference beyond chance"
    return "different" if large else "different, but by less than at_least"


def _columns(found: Comparison) -> list[dict[str, Any]]:
    """Return how far columns moved; one that was constant and is no more has no shift, and comes first."""
    explanation = found.explanation
    if explanation is None:
        return []
    if any(change.kind not in ("number", "list") for change in explanation.columns):
        return [_change(change) for change in explanation.columns[:_MOST_COLUMNS]]
    shifts = explanation.shifts
    return [
        {"error": shift.standard_error, "name": shift.feature, "shift": shift.shift}
        for shift in shifts[:_MOST_COLUMNS]
    ]


def _change(change: ColumnChange) -> dict[str, Any]:
    """Return how far a column moved whose numbers do not tell all: by the distance of its means."""
    told = {"name": change.column, "words": change_in_words(change)}
    if change.shift is None or change.parts:
        return told | {"error": change.by_chance, "shift": change.distance}
    return told | {"error": change.shift.standard_error, "shift": change.shift.shift}
