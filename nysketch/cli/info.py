"""`nysketch info`: the contents and the quality of a sketch or basis file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import INPUT, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import in_shell

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.sketches.sketch import Sketch


@sectioned(example="nysketch info today.nysk --against january.nysk")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@option(
    "--against",
    section=INPUT,
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Check whether the landmarks of this sketch or basis still cover the rows of FILE.",
)
@common.as_json
@common.reporting
def command(path: Path, against: Path | None, as_json: bool, quiet: bool) -> None:
    """Show the rows, columns, kernel, landmarks, quality and inputs of a sketch or basis FILE."""
    del quiet
    from nysketch.files.inspection import describe_file

    thing, facts = describe_file(path)
    if against is not None:
        facts["against"] = {"path": str(against)} | _coverage(path, thing, against)
    if as_json:
        _output.print_json(facts)
    else:
        _print(facts)


def _coverage(path: Path, new: Sketch | Basis, against: Path) -> dict[str, Any]:
    from nysketch.basis.base import Basis
    from nysketch.errors import IncompatibleError, InputError, UsageError
    from nysketch.files.format import load
    from nysketch.sketches.coverage import coverage

    if isinstance(new, Basis):
        raise UsageError(f"{path} is a basis file, without rows; --against needs a sketch")
    try:
        return coverage(new, load(against)).describe()
    except (IncompatibleError, InputError) as error:
        raise type(error)(f"{path} against {against}: {error}") from error


def _print(facts: dict[str, Any]) -> None:
    from nysketch.accumulators.tally import STATISTICS

    text = facts["columns"][0]["type"] == "text"
    rank = "not computed (many landmarks)" if facts["rank"] is None else facts["rank"]
    fields: list[tuple[str, Any]] = [
        ("file", f"{facts['path']} ({facts['kind']}, {_output.size(facts['bytes'])}, {facts['software']})")
    ]
    if facts["kind"] == "sketch":
        dropped = f" ({facts['dropped_rows']:,} more dropped)" if facts["dropped_rows"] else ""
        weight = f", total weight {facts['total_weight']:g} ({facts['weights']})" if facts["weights"] else ""
        fields += [
            ("rows", f"{facts['rows']:,}{dropped}{weight}"),
            (
                "blocks",
                f"{facts['blocks']}, seed {facts['seed']}, {facts['precision']} kernel values",
            ),
        ]
        lines = [kind.info_line(facts) for kind in STATISTICS]
        fields += [(line[0], in_shell(line[1])) for line in lines if line is not None]
    fields += [
        ("features", facts["features"]),
        _functions(facts),
        ("kernel", facts["kernel_text"] + ("" if text else f", {facts['scaling']} scaling")),
        ("rank", rank),
        ("basis", facts["basis_digest"][:16]),
    ]
    _output.print_fields(fields)
    _print_quality(facts)
    bounds = facts.get("ranges") == "bounds"
    _print_columns(facts["columns"], " (ranges are bounds: rows were subtracted)" if bounds else "")
    if facts["kind"] == "sketch":
        _print_inputs(facts)


def _functions(facts: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of features, how they were chosen, and which rows of the data the file contains."""
    origin = facts["origin"]
    if facts["feature_map"] == "fourier":
        return "fourier", f"{facts['landmarks']} features, {origin.get('frequencies', 'other')} frequencies"
    how = f", {origin['sampling']}" if "sampling" in origin else ""
    sampled = " and a sample of rows" if facts.get("sampled_rows") else ""
    sampled += " and the farthest rows" if (facts.get("cells") or {}).get("far_rows") else ""
    whose = "centres of the data" if origin.get("sampling") == "kmeans" else "rows of the data"
    return "landmarks", f"{facts['landmarks']}{how} ({whose}{sampled}: treat this file like a sample of them)"


def _print_quality(facts: dict[str, Any]) -> None:
    quality = facts["quality"]
    click.echo("\nquality")
    if quality is None:
        _output.echo("  unknown: the file has no sample of rows to measure it on")
    elif "kernel_error" not in quality:
        whose = "" if quality["measured_on"] == "sample" else ", when the basis was made"
        quantiles = ", ".join(
            f"{name} {quality['residual_quantiles'][name]:.3g}" for name in ("median", "95%", "99%", "max")
        )
        dimension = quality["effective_dimension"]
        fields = [
            ("measured on", f"a sample of {quality['rows']:,} of {quality['of_rows']:,} rows{whose}"),
            (
                "residual",
                f"mean {quality['mean_residual']:.3g} (mean norm {quality['mean_norm']:.3g}); {quantiles}",
            ),
            (
                "projection error",
                f"{quality['projection_error']:.2g} ± {quality['projection_error_se']:.1g}; "
                f"sampling error {quality['sampling_error']:.2g}",
            ),
        ]
        fields.append(("kernel values", f"mean {quality['mean_kernel']:.3g} between different rows"))
        if dimension is not None:
            at_least = "at least " if quality["of_rows"] > quality["rows"] else ""
            fields.append(("effective dimension", f"{at_least}{dimension:,.0f} at λ = 1/n"))
        _output.print_fields([(f"  {name}", value) for name, value in fields])
    for sentence in [] if quality is None else quality["advice"]:
        _output.echo_message(f"  {sentence}")
    report = facts["origin"].get("sampling_report", {})
    if report:
        _output.echo(f"  {facts['origin']['sampling']} on the pilot sample: {_short(report)}")
    for tried in facts["origin"].get("auto", []):
        _output.echo(
            f"  tried {tried['landmarks']} landmarks: projection error {tried['projection_error']:.2g} "
            f"± {tried['projection_error_se']:.1g}, sampling error {tried['sampling_error']:.2g}"
        )
    if "against" in facts:
        _output.echo(f"  against {facts['against']['path']}: {in_shell(facts['against']['advice'])}")


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_short(item)}" for name, item in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _print_columns(columns: list[dict[str, Any]], remark: str) -> None:
    shown = columns[:30]
    text = columns[0]["type"] == "text"
    click.echo(f"\ncolumns{remark}")
    if "min" in columns[0]:
        _output.print_table(
            ["name", "width", "shortest" if text else "min", "longest" if text else "max"],
            [[c["name"], str(c["width"]), _number(c["min"]), _number(c["max"])] for c in shown],
        )
    else:
        _output.print_table(["name", "width"], [[c["name"], str(c["width"])] for c in shown])
    if len(columns) > len(shown):
        _output.echo(f"  and {len(columns) - len(shown):,} more")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _print_inputs(facts: dict[str, Any]) -> None:
    _print_list("inputs", facts["inputs"], facts["unlisted_inputs"])
    for parts in facts["parts"]:
        _print_list(_parts(parts), parts["inputs"], parts["unlisted_inputs"])
    _print_list("subtracted, but not among the inputs", facts["removed_inputs"])


def _parts(parts: dict[str, Any]) -> str:
    """Name the parts of some inputs that the sketch has, and those that are missing."""
    from nysketch._support.intervals import in_words, stretched

    held, missing, doubled = (stretched(parts[name]) for name in ("held", "missing", "doubled"))
    lacking = f"; missing: {in_words(missing, parts['of'])}" if missing else ""
    twice = f"; more than once: {in_words(doubled, parts['of'])}" if doubled else ""
    return f"{in_words(held, parts['of'])} of these inputs{lacking}{twice}"


def _print_list(title: str, inputs: list[dict[str, Any]], unlisted: int = 0) -> None:
    if not inputs:
        return
    click.echo(f"\n{title}")
    rows = [
        [
            item["path"] + (f" ({item['times']} times)" if item["times"] > 1 else ""),
            f"{item['rows']:,} rows",
            "" if item["bytes"] is None else _output.size(item["bytes"]),
        ]
        for item in inputs[:20]
    ]
    _output.print_table(["path", "rows", "size"], rows)
    more = len(inputs) - len(rows) + unlisted
    if more:
        _output.echo(f"  and {more:,} more")
