"""Looking at sketch files: what one holds, and whether it is sound."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nysketch.basis.base import Basis
from nysketch.errors import NysketchError
from nysketch.files.format import load, load_with_metadata
from nysketch.sketches.describe import describe
from nysketch.sketches.sketch import Sketch


def describe_file(path: str | os.PathLike[str]) -> tuple[Sketch | Basis, dict[str, Any]]:
    """Return what is in a file, and the facts about it and its file, ready for JSON."""
    thing, metadata = load_with_metadata(path)
    return thing, describe(thing) | {
        "bytes": Path(path).stat().st_size,
        "format_version": metadata["format_version"],
        "path": os.fspath(path),
        "software": metadata["software"],
    }


@dataclass(frozen=True)
class Verified:
    """What was found in a file: a sketch or basis, or what is wrong with it."""

    path: Path
    found: Sketch | Basis | NysketchError

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        if isinstance(self.found, NysketchError):
            return {"error": str(self.found), "ok": False, "path": str(self.path)}
        basis = self.found if isinstance(self.found, Basis) else self.found.basis
        return {"basis_digest": basis.digest, "ok": True, "path": str(self.path)}


def verify_file(path: Path) -> Verified:
    """Read a file whole, and check its checksum and that its contents fit together."""
    try:
        return Verified(path, load(path))
    except NysketchError as error:
        return Verified(path, error)
