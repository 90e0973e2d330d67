"""`nysketch verify`: are these files complete and undamaged?"""

from __future__ import annotations

import logging

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.errors import NysketchError
from nysketch.files.find import sketch_files

log = logging.getLogger("nysketch")


@click.command(epilog="\b\nExample: nysketch verify archive/*.nysk")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@common.as_json
@common.reporting
def command(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Read FILEs whole and check their checksums and that their parts fit together.

    A FILE may also be a glob, or a directory of *.nysk files.
    All files are checked; the exit code is that of the first bad one (5 for damage, 3 for unreadable).
    """
    from nysketch.basis.base import Basis
    from nysketch.files.format import load

    exit_code = 0
    results = []
    for path in sketch_files(paths):
        try:
            thing = load(path)
        except NysketchError as error:
            exit_code = exit_code or error.exit_code
            results.append({"error": str(error), "ok": False, "path": str(path)})
            log.error("%s", error)
            continue
        basis = thing if isinstance(thing, Basis) else thing.basis
        kind = "basis" if isinstance(thing, Basis) else f"sketch of {thing.rows:,} rows"
        results.append({"basis_digest": basis.digest, "ok": True, "path": str(path)})
        if not (quiet or as_json):
            _output.echo(f"{path}: ok, {kind}, basis {basis.digest[:16]}")
    if as_json:
        _output.print_json({"files": results, "ok": exit_code == 0})
    return exit_code
