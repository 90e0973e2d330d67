"""Looking at files: what a sketch, a basis or a model holds, and whether it is sound."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nysketch.basis.base import Basis
from nysketch.errors import NysketchError
from nysketch.files.format import load, load_with_metadata
from nysketch.files.kinds import MODEL, kind_of
from nysketch.models.files import load_model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.present import present
from nysketch.models.stored import AnyModel
from nysketch.sketches.describe import describe
from nysketch.sketches.sketch import Sketch


def describe_file(
    path: str | os.PathLike[str], *, measure: bool = False
) -> tuple[Sketch | Basis | AnyModel, dict[str, Any]]:
    """Return what is in a file, and the facts about it and its file, ready for JSON.

    Quality is measured for sketches and bases only, if at all: see sketches/describe.py.
    """
    if kind_of(path) == MODEL:
        model = load_model(path)
        return model, describe_model(model) | {"bytes": Path(path).stat().st_size, "path": os.fspath(path)}
    thing, metadata = load_with_metadata(path)
    return thing, describe(thing, measure=measure) | {
        "bytes": Path(path).stat().st_size,
        "format_version": metadata["format_version"],
        "path": os.fspath(path),
        "software": metadata["software"],
    }


def describe_model(model: AnyModel) -> dict[str, Any]:
    """Return what is in a model, ready for JSON, in the units of the data."""
    return {
        "clusters": _clusters(model),
        "columns": [
            {"name": c.name, "type": "number" if c.kind is None else c.kind.name, "width": c.width}
            for c in model.columns
        ],
        "covariance": None if isinstance(model, KMeansModel) else model.covariance_type,
        "facts": model.facts,
        "features": model.d,
        "k": model.k,
        "kind": model.kind,
    }


def _clusters(model: AnyModel) -> list[dict[str, Any]]:
    """Return the clusters by their labels; components also have standard deviations."""
    if model.encoded:
        found = zip(_centres(model), present(model), strict=True)
        return [centre | {"columns": cluster["columns"]} for centre, cluster in found]
    return _centres(model)


def _centres(model: AnyModel) -> list[dict[str, Any]]:
    if isinstance(model, KMeansModel):
        return [
            {"centre": centre.tolist(), "cluster": number, "share": float(share)}
            for number, (share, centre) in enumerate(zip(model.shares, model.centroids, strict=True))
        ]
    return [
        {
            "centre": centre.tolist(),
            "cluster": number,
            "deviation": np.sqrt(np.diag(covariance) if covariance.ndim > 1 else covariance).tolist(),
            "share": float(share),
        }
        for number, (share, centre, covariance) in enumerate(
            zip(model.weights, model.means, model.covariances, strict=True)
        )
    ]


@dataclass(frozen=True)
class Verified:
    """What was found in a file: a sketch, a basis or a model, or what is wrong with it."""

    path: Path
    found: Sketch | Basis | AnyModel | NysketchError

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        match self.found:
            case NysketchError():
                return {"error": str(self.found), "ok": False, "path": str(self.path)}
            case Sketch():
                digest: Any = self.found.basis.digest
            case Basis():
                digest = self.found.digest
            case _:
                digest = self.found.facts.get("basis_digest")
        return {"basis_digest": digest, "ok": True, "path": str(self.path)}


def verify_file(path: Path) -> Verified:
    """Read a file whole, and check that its contents fit together; a sketch also has a checksum."""
    try:
        return Verified(path, load_model(path) if kind_of(path) == MODEL else load(path))
    except NysketchError as error:
        return Verified(path, error)
