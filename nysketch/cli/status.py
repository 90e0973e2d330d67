"""`nysketch status`: the state of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import command as sectioned
from nysketch.errors import in_shell

_SHOWN = 10


@sectioned(example="nysketch status store --json")
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE")
@common.as_json
@common.reporting
def command(store: Path, as_json: bool, quiet: bool) -> None:
    """Show the partitions of STORE, its last run, missing dates, drift, windows, models and disk use.

    This only reads the store and takes no lock, so it is safe during a run.
    """
    from nysketch.jobs.status import status
    from nysketch.jobs.store import Store

    del quiet
    found = status(Store.open(store))
    if as_json:
        _output.print_json(found)
        return
    _output.print_fields(_fields(found))
    if found["drift"]:
        click.echo("\nlatest comparisons")
        _output.print_table(
            ["partition", "with", "MMD", "error", "p-value", "verdict"],
            [_row(comparison) for comparison in found["drift"]],
        )


def _fields(found: dict[str, Any]) -> list[tuple[str, str]]:
    from nysketch.sources.selection import shorten

    dropped = f", {found['dropped_rows']:,} dropped" if found["dropped_rows"] else ""
    count, gaps = len(found["partitions"]), found["gaps"]
    fields = [
        ("store", f"{found['store']} ({found['name']}), {_output.size(found['bytes'])}"),
        ("partitions", f"{count:,}" + (f" from {found['first']} to {found['last']}" if count else "")),
        ("rows", f"{found['rows']:,}{dropped}"),
        ("missing", f"{len(gaps):,}: {_listed(gaps)}" if gaps else "none"),
    ]
    if found["not_watched"]:
        told = [f"{name} ({why})" for name, why in found["not_watched"].items()]
        fields.append(("not watched", in_shell(shorten(told))))
    if found["ignored"]:
        fields.append(("not read", f"{shorten(found['ignored'])}: no date in [inputs] paths matches"))
    fields += [
        ("note", f"{name}: {in_shell(note)}") for name in found["notes"] for note in found["notes"][name]
    ]
    if found["retired"]:
        fields.append(("retired", f"{found['retired']:,} earlier partitions"))
    if found["unfinished"]:
        fields.append(("unfinished", _listed(found["unfinished"])))
    for name, window in found["windows"].items():
        span = f"{window['partitions']} partitions, {window['first']} to {window['last']}"
        fields.append(
            (f"window {name}", f"{span}; {window['steps']} updates since it was last merged from scratch")
        )
    for name, model in found["models"].items():
        fields.append((f"model {name}", f"{model['kind']}, k = {model['k']}, on {model['window']}"))
    alarms = [f"{alarm['partition']} ({alarm['name']})" for alarm in found["alarms"]]
    fields.append(
        ("different", _listed(alarms) if alarms else "none (significantly, and by at_least or more)")
    )
    last = found["last_run"]
    if last is None:
        fields.append(("last run", "none has finished"))
    else:
        what = f"{last.get('started')}, exit code {last.get('exit_code')}, {last.get('seconds')} s"
        fields.append(("last run", f"{what}; {found['runs']:,} runs in total"))
        fields += [("  error", str(error)) for error in last.get("errors", [])]
        fields += [("  skipped", f"{name}: {why}") for name, why in dict(last.get("skipped", {})).items()]
    return fields


def _listed(names: list[str]) -> str:
    return ", ".join(names[-_SHOWN:]) + (
        f" and {len(names) - _SHOWN:,} before" if len(names) > _SHOWN else ""
    )


def _row(found: dict[str, Any]) -> list[str]:
    error, p = found["standard_error"], found["p_value"]
    return [
        found["partition"],
        f"{found['name']}: {found['other']}",
        f"{found['mmd']:.4g}",
        "" if error is None else f"{error:.2g}",
        "" if p is None else f"{p:.3g}",
        found["verdict"] or "not tested",
    ]
