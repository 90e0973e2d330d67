"""Sketch files by name: paths, globs, and directories of *.nysk files."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nysketch.errors import InputError, UsageError, WrongKindError
from nysketch.files.kinds import STORE, kind_of, what_to_do


def sketch_files(inputs: Sequence[str], *, but: Path | None = None) -> list[Path]:
    """Return the files that paths, globs and directories of sketches name, in a stable order.

    A file may be named twice, but a glob or directory must not bring it a second time; nor do they bring
    the file `but`, which has another part in the command.
    """
    files: list[tuple[str, str]] = []  # with their real paths
    brought: dict[str, str] = {}  # real path → the glob or directory
    for text in inputs:
        try:
            matches = [
                (name, os.path.realpath(name))
                for name in _matches(text)
                if name == text or but is None or os.path.realpath(name) != os.path.realpath(but)
            ]
        except (OSError, ValueError) as error:
            raise InputError(f"{text}: cannot look it up: {error}") from error
        if not matches:
            raise InputError(f"{text}: no sketches besides {but}")
        files += matches
        brought |= {real: text for name, real in matches if name != text}
    times = Counter(real for _, real in files)
    for name, real in files:
        if times[real] > 1 and real in brought:
            raise UsageError(f"{name}: given twice; {brought[real]} includes it")
    return [Path(name) for name, _ in files]


def _matches(text: str) -> list[str]:
    path = Path(text)
    is_directory = bool(text) and path.is_dir()
    if is_directory and kind_of(path) == STORE:  # the *.nysk files in it are no sketches of partitions
        raise WrongKindError(what_to_do(path, "sketch") or "")
    if not is_directory and (path.exists() or not glob.has_magic(text)):
        return [text]
    pattern = os.fspath(Path(glob.escape(text), "*.nysk")) if is_directory else text
    # Path.glob takes no absolute patterns, and finds hidden files.
    matches = [name for name in sorted(glob.glob(pattern, recursive=True)) if not Path(name).is_dir()]  # noqa: PTH207
    if not matches:
        what = "no *.nysk files in this directory" if is_directory else "no files match"
        raise InputError(f"{text}: {what}")
    return matches
