"""Names of the files beside an output: lock, temporary file, checkpoint; no longer than names may be."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

# What nearly all file systems allow, in bytes.
_USUAL_MOST = 255
_DIGITS = 16


def beside(output: Path, before: str, after: str) -> Path:
    """Return the file called as `output`, with something before and after; the middle is cut if need be."""
    name = f"{before}{output.name}{after}"
    most = _longest_name(output.parent)
    if len(os.fsencode(name)) > most:
        whole = os.fsencode(output.name)
        room = most - len(os.fsencode(before + after)) - _DIGITS - 1
        start = whole[:room].decode(errors="ignore")
        # The digest keeps names apart that begin alike.
        name = f"{before}{start}~{hashlib.sha256(whole).hexdigest()[:_DIGITS]}{after}"
    return output.with_name(name)


def checkpoint_path(output: Path) -> Path:
    """Return where the checkpoint of an output is."""
    return beside(output, "", ".checkpoint")


def lock_path(output: Path) -> Path:
    """Return the file that is locked while `output` is written; for a link, while what it leads to is."""
    return beside(Path(os.path.realpath(output)) if output.is_symlink() else output, ".", ".lock")


def _longest_name(folder: Path) -> int:
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError):
        return _USUAL_MOST
