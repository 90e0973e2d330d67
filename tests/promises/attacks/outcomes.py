"""What becomes of a mutated file, and commands that run in this process to find out."""

import contextlib
import io
import logging
from dataclasses import dataclass

import click

from nysketch import cli
from nysketch.errors import NysketchError

REFUSED, ACCEPTED, UNCHANGED, FAILED = "refused", "accepted", "unchanged", "failed"


@dataclass(frozen=True)
class Outcome:
    """One mutation: what was changed, what became of it, and why.

    "refused" is a NysketchError of the right class, "accepted" a correct result, "unchanged" a mutation that
    changed nothing. "failed" is everything else, and so is an exception that a kind does not catch.
    """

    mutation: str
    result: str
    detail: str = ""


@contextlib.contextmanager
def _log_as_it_was():
    """Put the log back, which commands send to stderr."""
    log = logging.getLogger("nysketch")
    before = log.level, log.handlers, log.propagate
    try:
        yield
    finally:
        log.setLevel(before[0])
        log.handlers, log.propagate = before[1:]


def command(*args):
    """Run a command in this process: exit code, stdout and what it said. A bug ends in its exception."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _log_as_it_was():
        try:
            code = cli.group.main([str(arg) for arg in args], standalone_mode=False, prog_name="nysketch")
        except NysketchError as error:
            return error.exit_code, out.getvalue(), str(error)
        except click.ClickException as error:
            return error.exit_code, out.getvalue(), error.format_message()
        except click.exceptions.Exit as error:
            code = error.exit_code
    return code or 0, out.getvalue(), err.getvalue()
