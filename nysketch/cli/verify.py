"""`nysketch verify`: checksums and consistency of sketch files, and of models."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import command as sectioned
from nysketch.errors import NysketchError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.models.stored import AnyModel
    from nysketch.sketches.sketch import Sketch

log = logging.getLogger("nysketch")


@sectioned(example="nysketch verify archive/*.nysk")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", shell_complete=common.complete_files)
@common.as_json
@common.reporting
def command(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Check that FILEs are complete, undamaged and consistent.

    A FILE may also be a glob, or a directory of *.nysk files. All files are checked. The exit code is that of
    the first bad one: 5 if it is damaged, 3 if it cannot be read or is something else. Models are checked,
    too; they have no checksum.
    """
    from nysketch.models.inspection import verify_file

    exit_code = 0
    results = []
    for path in sketch_files(paths):
        verified = verify_file(path)
        thing, facts = verified.found, verified.describe()
        results.append(facts)
        if isinstance(thing, NysketchError):
            exit_code = exit_code or thing.exit_code
            log.error("%s", thing)
        elif not (quiet or as_json):
            _output.echo(f"{path}: ok, {_in_words(thing)}")
    if as_json:
        _output.print_json({"files": results, "ok": exit_code == 0})
    return exit_code


def _in_words(thing: Sketch | Basis | AnyModel) -> str:
    from nysketch.basis.base import Basis
    from nysketch.sketches.sketch import Sketch

    if isinstance(thing, Basis):
        return f"basis, basis {thing.digest[:16]}"
    if isinstance(thing, Sketch):
        return f"sketch of {thing.rows:,} rows, basis {thing.basis.digest[:16]}"
    return f"model ({thing.kind}), k = {thing.k}, {thing.d} feature{'s' if thing.d > 1 else ''}"
