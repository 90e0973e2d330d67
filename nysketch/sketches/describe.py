"""What a sketch or basis holds, as plain values: for `info`, `export` and anybody else."""

from __future__ import annotations

from typing import Any

import numpy as np

from nysketch._support.intervals import Stretches, numbers
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import Quality, from_origin
from nysketch.basis.rules import landmarks_by_rule
from nysketch.kinds import Category, Kind, Number, Text, Time
from nysketch.provenance import Provenance, Whole
from nysketch.sketches.columns_table import columns_table
from nysketch.sketches.coverage import notes_on_drift
from nysketch.sketches.losses import without_reassurance
from nysketch.sketches.sketch import Sketch

# The rank takes an eigendecomposition of the kernel matrix: 0.2 s at 1000 landmarks, minutes at 10,000.
RANK_UP_TO = 4000
# Values of a vocabulary that are named.
_VALUES = 5


def describe(thing: Sketch | Basis, *, quality: bool = True, measure: bool = False) -> dict[str, Any]:
    """Return everything about a sketch or basis but its arrays, ready for JSON.

    Its rank and quality are those that were stored when its basis was made. To `measure` them now takes the
    eigenvectors of the kernel matrix and the kernel values of all pairs of sampled rows: a second.
    """
    facts = (
        _describe_basis(thing) | {"kind": "basis"} if isinstance(thing, Basis) else _describe_sketch(thing)
    )
    facts["rank"] = _rank(thing if isinstance(thing, Basis) else thing.basis, measure=measure)
    up_to = RANK_UP_TO if measure else 0
    return facts | ({"quality": describe_quality(thing, up_to=up_to)} if quality else {})


def _describe_sketch(thing: Sketch) -> dict[str, Any]:
    provenance = thing.provenance.describe()
    facts = _describe_basis(thing.basis) | thing.tally.summary(thing.basis)
    facts |= {
        "inputs": provenance["inputs"],
        "kind": "sketch",
        "landmarks_rule": landmarks_by_rule(thing.rows) if facts["feature_map"] == "nystrom" else None,
        "parts": _describe_held_parts(thing.provenance),
        "precision": thing.settings["precision"],
        "removed_inputs": provenance["removed"],
        "robust": thing.settings.get("robust"),
        "rows": thing.rows,
        "seed": thing.settings.get("seed"),
        "total_weight": thing.total_weight,
        "unlisted_inputs": provenance["unlisted"],
        "weights": thing.settings.get("weights"),
    }
    lower, upper = thing.column_ranges
    start = 0
    for column, kind in zip(facts["columns"], [c.kind for c in thing.basis.columns], strict=True):
        stop = start + column["width"]
        column["min"] = _end(kind, lower[start:stop].min())
        column["max"] = _end(kind, upper[start:stop].max())
        start = stop
    return facts


def describe_parts(whole: Whole, parts: Stretches) -> dict[str, Any]:
    """Return which parts of which whole."""
    return {"of": whole.of, "parts": list(numbers(parts)), "whole": whole.digest, "whole_name": whole.name}


def _describe_held_parts(provenance: Provenance) -> list[dict[str, Any]]:
    """Return the parts that a sketch holds of each whole, those it lacks and those it has twice."""
    missing, doubled = dict(provenance.missing_parts()), dict(provenance.doubled_parts())
    return [
        {
            "doubled": list(numbers(doubled.get(whole, ()))),
            "held": list(numbers(held)),
            "inputs": stored["inputs"],
            "missing": list(numbers(missing.get(whole, ()))),
            "of": whole.of,
            "unlisted_inputs": whole.unlisted,
            "whole": whole.digest,
        }
        for (whole, held), stored in zip(
            provenance.parts, provenance.describe().get("parts", ()), strict=True
        )
    ]


def describe_quality(
    thing: Sketch | Basis, *, up_to: int = RANK_UP_TO, effective_dimension: bool = True
) -> dict[str, Any] | None:
    """Return how good it is, measured on the rows of a sketch, or else on those held out for its basis.

    Measuring takes the more, the more landmarks there are: beyond `up_to` there will be no new measurement.
    """
    facts = _quality_of(thing, up_to=up_to, effective_dimension=effective_dimension)
    if facts is not None:
        facts["advice"] = without_reassurance(facts["advice"], thing)
    return facts


def _quality_of(thing: Sketch | Basis, *, up_to: int, effective_dimension: bool) -> dict[str, Any] | None:
    basis = thing if isinstance(thing, Basis) else thing.basis
    if isinstance(thing, Sketch) and basis.m <= up_to:
        now = thing.quality(effective_dimension=effective_dimension)
        if now is not None:
            facts = now.describe() | {"measured_on": "sample"}
            changed = notes_on_drift(now, basis) if isinstance(now, Quality) else []
            return facts | ({"advice": [*changed, *facts["advice"]]} if changed else {})
    if "held_out" in basis.origin and (isinstance(thing, Basis) or thing.rows):
        then = from_origin(basis.origin)
        if isinstance(thing, Sketch) and isinstance(then, Quality):
            return then.describe() | {"advice": then.advice_for(thing.rows), "measured_on": "pilot"}
        return then.describe() | {"measured_on": "pilot"}
    return None


def _rank(basis: Basis, *, measure: bool) -> int | None:
    """Return the rank, or None where it is neither stored nor to be computed."""
    if not isinstance(basis, NystromBasis):
        return basis.rank
    if measure:
        return basis.rank if basis.m <= RANK_UP_TO else None
    stored = basis.origin.get("held_out", {})
    return stored["rank"] if stored.get("landmarks") == basis.m else None


def _describe_basis(basis: Basis) -> dict[str, Any]:
    return {
        "basis_digest": basis.digest,
        "columns": [
            {
                "about": facts.about,
                "kind": facts.kind,
                "name": column.name,
                "share": facts.share,
                "type": "text" if column.text else "number",
                "width": column.width,
            }
            | _describe_kind(column.kind)
            for column, facts in zip(basis.columns, columns_table(basis), strict=False)
        ],
        "feature_map": basis.feature_map,
        "features": basis.d,
        "kernel": basis.kernel.describe(),
        "kernel_text": str(basis.kernel),
        "landmarks": basis.m,
        "origin": basis.origin,
        "scaling": basis.scaling,
    }


def _describe_kind(kind: Kind | None) -> dict[str, Any]:
    """Return what people know a kind by; the most frequent values of a vocabulary are its first."""
    match kind:
        case None:
            return {}
        case Category():
            first = list(kind.values[:_VALUES])
            return {"most_frequent": first, "type": kind.name, "vocabulary": len(kind.values)}
        case Time():
            return {"parts": list(kind.parts), "type": kind.name}
        case Number():
            return {"transform": kind.transform, "type": kind.name}
    return {"type": kind.name}


def _end(kind: Kind | None, value: float) -> Any:
    """Return an end of a range; codes of categories have none."""
    if kind is None or not np.isfinite(value):
        return _finite(value)
    return None if isinstance(kind, Category | Text) else kind.value(value)


def _finite(value: float) -> float | None:
    """The range of no rows is empty; JSON has no infinities."""
    return float(value) if np.isfinite(value) else None
