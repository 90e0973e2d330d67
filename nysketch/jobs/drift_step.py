"""Comparisons of partitions with others, and which of them are alarms that nobody has heard yet.

What a partition is compared with, and how, is decided anew in every run; if that, and the sketches, are those
of the comparisons on disk, these stand. An alarm is new as long as alarms.json does not list the comparison:
it is written at the very end of a run, so that an alarm of a killed run is raised by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nysketch._support.blas import one_thread
from nysketch.basis.base import Basis
from nysketch.errors import NysketchError
from nysketch.files.format import load_sketch
from nysketch.jobs.config import Job, compare_options
from nysketch.jobs.partition_names import period
from nysketch.jobs.store import Store
from nysketch.jobs.store_io import digest_of, file_digest, read_json_or_none, write_json
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.compare import compare
from nysketch.twosample.multiple_testing import adjust_p_values
from nysketch.twosample.results import Comparison

# Columns of a comparison to keep, by how far their means moved.
_MOST_COLUMNS = 20
# Days after which a weekday is no longer the same one: another season has come.
_WEEKDAY_WITHIN = 28
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
        self._basis: Basis | None = None

    def outdated(self) -> list[str]:
        """Return the partitions that are to be compared (again)."""
        if not self._job.comparisons:
            return []
        return [name for name in self._names if self._stored_request(name) != self._request(name)]

    def _stored_request(self, name: str) -> Any:
        stored = read_json_or_none(self._store.drift_file(name))
        return stored.get("request") if isinstance(stored, dict) else None

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
        pairs = [
            [{key: value for key, value in comparison.items() if key != "alarm"}, other, digest]
            for comparison, other, digest in self._pairs(name)
        ]
        return digest_of([self._digests[name], self._job.settings["drift"], pairs])

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
        seen = self._seen()
        for name in self._names:
            stored = read_json_or_none(self._store.drift_file(name)) or {}
            before = seen.get(name, {})
            is_new = before.get("sketch") != self._digests[name]
            errors += stored.get("errors", []) if is_new else []
            for found in stored.get("comparisons", []):
                known = before.get("others", {}).get(found["name"])
                other_is_new = known is not None and known != found["sketches"][0]
                # What could not be compared before, and can now, has never been heard of.
                is_news = is_new or other_is_new or found["name"] in before.get("failed", [])
                if found["name"] in wanted and is_news and found["p_value"] is None:
                    errors.append(
                        f"{name} could not be tested against {found['other']} (rows {found['rows'][1]:,} "
                        f"and {found['rows'][0]:,}), so no alarm can be raised"
                    )
                if found["name"] in wanted and is_alarm(found) and is_news:
                    keys = ("against", "mmd", "name", "other", "p_value")
                    alarms.append({"partition": name} | {key: found[key] for key in keys})
        return alarms, errors

    def _seen(self) -> dict[str, Any]:
        stored = read_json_or_none(self._store.alarms_file)
        partitions = stored.get("partitions") if isinstance(stored, dict) else None
        entries = partitions.items() if isinstance(partitions, dict) else ()
        return {name: entry for name, entry in entries if isinstance(entry, dict)}

    def mark_as_seen(self) -> None:
        """Note what has been reported: all comparisons that are those of the partitions as they are."""
        partitions: dict[str, Any] = {}
        seen = self._seen()
        for name in self._names:
            stored = read_json_or_none(self._store.drift_file(name)) or {}
            if self._job.comparisons and stored.get("request") != self._request(name):
                partitions |= {name: seen[name]} if name in seen else {}
                continue
            others = {found["name"]: found["sketches"][0] for found in stored.get("comparisons", [])}
            failed = stored.get("failed", []) if self._job.comparisons else []
            partitions[name] = {"failed": failed, "others": others, "sketch": self._digests[name]}
        value = {"partitions": partitions, "schema_version": 1}
        if read_json_or_none(self._store.alarms_file) != value:
            write_json(self._store.alarms_file, value)


def is_alarm(comparison: Mapping[str, Any]) -> bool:
    """Tell whether a comparison found a difference beyond chance that is large enough to matter."""
    return bool(comparison["rejected"]) and comparison["mmd"] >= comparison["at_least"]


def _described(
    comparison: Mapping[str, Any], other: str, digests: list[str], found: Comparison
) -> dict[str, Any]:
    facts = found.describe()
    kept = (
        "alpha",
        "mmd",
        "notes",
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
    }
    described["verdict"] = _verdict(found, large=is_alarm(described))
    return described


def _verdict(found: Comparison, *, large: bool) -> str | None:
    if found.rejected is None:
        return None
    if not found.rejected:
        return "no difference beyond chance"
    return "different" if large else "different, but by less than at_least"


def _columns(found: Comparison) -> list[dict[str, Any]]:
    """Return how far columns moved; one that was constant and is no more has no shift, and comes first."""
    shifts = [] if found.explanation is None else found.explanation.shifts
    return [
        {"error": shift.standard_error, "name": shift.feature, "shift": shift.shift}
        for shift in shifts[:_MOST_COLUMNS]
    ]
