"""What a sketch or basis holds, as plain values: for `info`, `export` and anybody else."""

from __future__ import annotations

from typing import Any

import numpy as np

from nysketch._support.intervals import Stretches, numbers
from nysketch.basis.base import Basis
from nysketch.basis.quality import Quality, from_description
from nysketch.provenance import Provenance, Whole
from nysketch.sketches.coverage import notes_on_drift
from nysketch.sketches.sketch import Sketch

# The rank takes an eigendecomposition of the kernel matrix: 0.2 s at 1000 landmarks, minutes at 10,000.
RANK_UP_TO = 4000


def describe(thing: Sketch | Basis, *, quality: bool = True) -> dict[str, Any]:
    """Return everything about a sketch or basis but its arrays, ready for JSON; `quality` takes a second."""
    facts = (
        _describe_basis(thing) | {"kind": "basis"} if isinstance(thing, Basis) else _describe_sketch(thing)
    )
    return facts | ({"quality": describe_quality(thing)} if quality else {})


def _describe_sketch(thing: Sketch) -> dict[str, Any]:
    provenance = thing.provenance.describe()
    facts = _describe_basis(thing.basis) | thing.tally.summary(thing.basis)
    facts |= {
        "inputs": provenance["inputs"],
        "kind": "sketch",
        "parts": _describe_held_parts(thing.provenance),
        "precision": thing.settings["precision"],
        "removed_inputs": provenance["removed"],
        "rows": thing.rows,
        "seed": thing.settings.get("seed"),
        "total_weight": thing.total_weight,
        "unlisted_inputs": provenance["unlisted"],
        "weights": thing.settings.get("weights"),
    }
    lower, upper = thing.column_ranges
    start = 0
    for column in facts["columns"]:
        stop = start + column["width"]
        column["min"] = _finite(lower[start:stop].min())
        column["max"] = _finite(upper[start:stop].max())
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
    basis = thing if isinstance(thing, Basis) else thing.basis
    if isinstance(thing, Sketch) and basis.m <= up_to:
        now = thing.quality(effective_dimension=effective_dimension)
        if now is not None:
            facts = now.describe() | {"measured_on": "sample"}
            changed = notes_on_drift(now, basis) if isinstance(now, Quality) else []
            return facts | ({"advice": [*changed, *facts["advice"]]} if changed else {})
    if "held_out" in basis.origin and (isinstance(thing, Basis) or thing.rows):
        return from_description(basis.origin["held_out"]).describe() | {"measured_on": "pilot"}
    return None


def _describe_basis(basis: Basis) -> dict[str, Any]:
    return {
        "basis_digest": basis.digest,
        "columns": [
            {"name": column.name, "type": "text" if column.text else "number", "width": column.width}
            for column in basis.columns
        ],
        "feature_map": basis.feature_map,
        "features": basis.d,
        "kernel": basis.kernel.describe(),
        "kernel_text": str(basis.kernel),
        "landmarks": basis.m,
        "origin": basis.origin,
        "rank": basis.rank if basis.m <= RANK_UP_TO else None,
        "scaling": basis.scaling,
    }


def _finite(value: float) -> float | None:
    """The range of no rows is empty; JSON has no infinities."""
    return float(value) if np.isfinite(value) else None
