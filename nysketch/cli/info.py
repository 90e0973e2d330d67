"""`nysketch info`: the contents of a sketch, a basis or a model, and the quality of a sketch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch._support.html_repr import counted
from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import INPUT, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import in_shell
from nysketch.kinds.words import in_words

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.models.stored import AnyModel
    from nysketch.sketches.sketch import Sketch

# What is shown of a model; --json has all of it.
_MOST_CLUSTERS, _MOST_FEATURES = 20, 8
# Characters of a value of a category.
_VALUE_CHARACTERS = 24


@sectioned(example="nysketch info today.nysk --against january.nysk")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@option(
    "--against",
    section=INPUT,
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Check whether the landmarks of this sketch or basis still cover the rows of FILE.",
)
@option(
    "--quality",
    section=INPUT,
    is_flag=True,
    help="Measure rank and quality now, on the sampled rows of the sketch. Default: as measured when the "
    "basis was made.",
)
@common.as_json
@common.reporting
def command(path: Path, against: Path | None, quality: bool, as_json: bool, quiet: bool) -> None:
    """Show the contents of FILE: a sketch, a basis or a model.

    Of a sketch or basis: rows, columns, kernel, landmarks, quality and inputs. Of a model: its clusters or
    components, with their shares and their centres in the units of the data.
    """
    del quiet
    from nysketch.models.inspection import describe_file

    thing, facts = describe_file(path, measure=quality)
    if against is not None:
        facts["against"] = {"path": str(against)} | _coverage(path, thing, against)
    if as_json:
        _output.print_json(facts)
    elif "clusters" in facts:
        _print_model(facts)
    else:
        _print(facts)


def _coverage(path: Path, new: Sketch | Basis | AnyModel, against: Path) -> dict[str, Any]:
    from nysketch.basis.base import Basis
    from nysketch.errors import IncompatibleError, InputError, UsageError
    from nysketch.files.format import load
    from nysketch.sketches.coverage import coverage
    from nysketch.sketches.sketch import Sketch

    if not isinstance(new, Sketch):
        kind = "basis" if isinstance(new, Basis) else "model"
        raise UsageError(f"{path} is a {kind} file, without rows; --against needs a sketch")
    try:
        return coverage(new, load(against)).describe()
    except (IncompatibleError, InputError) as error:
        raise type(error)(f"{path} against {against}: {error}") from error


def _print(facts: dict[str, Any]) -> None:
    from nysketch.accumulators.tally import STATISTICS

    text = _is_text(facts["columns"])
    rank = "not computed; see --quality" if facts["rank"] is None else facts["rank"]
    fields: list[tuple[str, Any]] = [
        ("file", f"{facts['path']} ({facts['kind']}, {_output.size(facts['bytes'])}, {facts['software']})")
    ]
    if facts["kind"] == "sketch":
        dropped = f" ({facts['dropped_rows']:,} more dropped)" if facts["dropped_rows"] else ""
        weight = f", total weight {facts['total_weight']:g} ({facts['weights']})" if facts["weights"] else ""
        fields += [
            ("rows", f"{facts['rows']:,}{dropped}{weight}"),
            *_dropped_for(facts["dropped_by_column"]),
            *_unknown(facts["unknown_by_column"]),
            *_excluded(facts["robust"]),
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
        ("kernel", facts["kernel_text"] + ("" if text else f", {_scaling(facts)}")),
        ("rank", rank),
        ("basis", facts["basis_digest"][:16]),
    ]
    _output.print_fields(fields)
    _print_quality(facts)
    bounds = facts.get("ranges") == "bounds"
    left_out = facts["origin"].get("left_out", {})
    _print_columns(facts["columns"], " (ranges are bounds: rows were subtracted)" if bounds else "")
    if left_out:
        click.echo("\nleft out")
        _output.print_table(["name", "why"], [[name, why] for name, why in list(left_out.items())[:30]])
        if len(left_out) > 30:
            _output.echo(f"  and {len(left_out) - 30:,} more")
    if facts["kind"] == "sketch":
        _print_inputs(facts)


def _dropped_for(found: dict[str, dict[str, int]]) -> list[tuple[str, str]]:
    """Name the columns that cost most rows."""
    told = [f"{name} in {n['rows']:,} rows ({n['alone']:,} alone)" for name, n in list(found.items())[:3]]
    more = f" and {counted(len(found) - 3, 'more column')}" if len(found) > 3 else ""
    return [("dropped for", ", ".join(told) + more)] if told else []


def _unknown(found: dict[str, dict[str, int]]) -> list[tuple[str, str]]:
    """Name the columns that have most missing and most unseen values."""
    fields = []
    for what in ("missing", "unseen"):
        counts = sorted(((n[what], name) for name, n in found.items() if n[what]), key=lambda one: -one[0])
        told = [f"{name} in {count:,} rows" for count, name in counts[:3]]
        more = f" and {counted(len(counts) - 3, 'more column')}" if len(counts) > 3 else ""
        fields += [(f"{what} values", ", ".join(told) + more)] if told else []
    return fields


def _scaling(facts: dict[str, Any]) -> str:
    wild = [one["column"] for one in facts["origin"].get("wild", []) if one["left_out"]]
    more = f" and {counted(len(wild) - 3, 'more column')}" if len(wild) > 3 else ""
    without = f" without the wild values of {', '.join(wild[:3])}{more}" if wild else ""
    return f"{facts['scaling']} scaling{without}"


def _excluded(robust: Any) -> list[tuple[str, str]]:
    """Say which blocks were left out of a robust sum; of a file, that may be anything."""
    if not isinstance(robust, dict) or not isinstance(robust.get("left_out"), list):
        return []
    what = counted(len(robust["left_out"]), "outlying block")
    rows = robust.get("rows_left_out")
    of_rows = f" with {counted(rows, 'row')}" if isinstance(rows, int) else ""
    return [("excluded", f"{what}{of_rows}, by a median of means")]


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
        _output.echo(f"  unknown: {_why_unknown(facts)}")
        if facts.get("landmarks_rule"):
            _output.echo(f"  theory: {_theory(facts['landmarks_rule'], None)}")
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
                f"{quality['projection_error']:.2g} ± {quality['projection_error_se']:.1g} of "
                f"{quality['landmarks']:,} landmarks; sampling error {quality['sampling_error']:.2g} of "
                f"{quality['of_rows']:,} rows",
            ),
        ]
        if dimension is not None:
            at_least = "at least " if quality["of_rows"] > quality["rows"] else ""
            fields.append(("effective dimension", f"{at_least}{dimension:,.0f} at λ = 1/n"))
        fields.append(("theory", _theory(quality["landmarks_rule"], quality["landmarks_theorem"])))
        fields.append(("kernel values", f"mean {quality['mean_kernel']:.3g} between different rows"))
        _output.print_fields([(f"  {name}", value) for name, value in fields])
    for sentence in [] if quality is None else quality["advice"]:
        _output.echo_message(f"  {sentence}")
    if quality is not None and quality["measured_on"] == "pilot" and facts.get("sampled_rows"):
        _output.echo("  The rows of this sketch were not measured; --quality does that")
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


def _theory(rule: int, theorem: int | None) -> str:
    """Say how many landmarks theory asks for, and from how many on its bound holds."""
    holds = "" if theorem is None else f"; its bound holds from {theorem:,} on"
    return f"√n log √n = {rule:,} landmarks, if they are uniform{holds}"


def _why_unknown(facts: dict[str, Any]) -> str:
    if facts.get("sampled_rows"):
        return "it was not measured when the basis was made; see --quality"
    return "the file has no sample of rows to measure it on"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_short(item)}" for name, item in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _print_columns(columns: list[dict[str, Any]], remark: str) -> None:
    shown = columns[:30]
    text = _is_text(columns)
    click.echo(f"\ncolumns{remark}")
    if any(c["type"] != "number" or c["share"] is not None for c in columns) and not text:
        _print_kinds(shown)
    elif "min" in columns[0]:
        _output.print_table(
            ["name", "width", "shortest" if text else "min", "longest" if text else "max"],
            [[c["name"], str(c["width"]), _number(c["min"]), _number(c["max"])] for c in shown],
        )
    else:
        _output.print_table(["name", "width"], [[c["name"], str(c["width"])] for c in shown])
    if len(columns) > len(shown):
        _output.echo(f"  and {len(columns) - len(shown):,} more")


def _is_text(columns: list[dict[str, Any]]) -> bool:
    """Tell whether rows are strings, and not places of texts."""
    return bool(columns[0]["type"] == "text" and columns[0]["width"] == 1)


def _print_kinds(columns: list[dict[str, Any]]) -> None:
    """Print columns of which some have kinds: how much each counts, its range, and what it is known by."""
    from nysketch.sketches.columns_table import percent

    ranges = "min" in columns[0]
    rows = [
        [
            c["name"],
            c["kind"],
            "" if c["share"] is None else percent(c["share"]),
            *([_number(c["min"]), _number(c["max"])] if ranges else []),
            "; ".join(filter(None, [c["about"], _values(c)])),
        ]
        for c in columns
    ]
    head = ["name", "kind", "share", *(["min", "max"] if ranges else []), "about"]
    _output.print_table(head, rows, words=(1, len(head) - 1))
    click.echo("  share: of the mean squared distance of two rows")


def _values(column: dict[str, Any]) -> str:
    """Name the most frequent values of a vocabulary."""
    if "vocabulary" not in column:
        return ""
    named = [in_words(value, _VALUE_CHARACTERS) for value in column["most_frequent"]]
    more = column["vocabulary"] - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def _number(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else f"{value:.6g}"


def _print_inputs(facts: dict[str, Any]) -> None:
    _print_list("inputs", facts["inputs"], facts["unlisted_inputs"])
    for parts in facts["parts"]:
        _print_list(_parts(parts), parts["inputs"], parts["unlisted_inputs"])
    _print_list("subtracted, but not among the inputs", facts["removed_inputs"])


def _print_model(facts: dict[str, Any]) -> None:
    from nysketch.columns import Column, feature_names

    mixture = facts["kind"] == "gmm"
    noun = "component" if mixture else "cluster"
    many = f"{facts['k']} {noun}{'s' if facts['k'] > 1 else ''}"
    shape = f", {facts['covariance']} covariances" if mixture else ""
    fields = [
        ("file", f"{facts['path']} (model, {_output.size(facts['bytes'])})"),
        ("kind", "Gaussian mixture" if mixture else "k-means"),
        (f"{noun}s", f"{many} of {facts['features']} feature{'s' if facts['features'] > 1 else ''}{shape}"),
    ]
    stored = facts["facts"]  # of a file: any of them may be missing, or anything
    for name in ("rows", "decoder", "judged_by", *_MEASURED):
        value = stored.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            shown = (
                f"{value:,}"
                if isinstance(value, int)
                else f"{value:.6g}"
                if isinstance(value, float)
                else value
            )
            fields.append((name.replace("_", " "), shown))
    _output.print_fields(fields)
    notes = stored.get("notes")
    for note in notes if isinstance(notes, list) else []:
        _output.echo_message(f"  {note}")
    if "columns" in facts["clusters"][0]:
        _output.print_clusters(facts["clusters"], noun)
        return
    names = feature_names([Column(column["name"], column["width"]) for column in facts["columns"]])
    click.echo(f"\n{noun}s, in the units of the data{' (mean ± standard deviation)' if mixture else ''}")
    shown_clusters, shown_names = facts["clusters"][:_MOST_CLUSTERS], names[:_MOST_FEATURES]
    _output.print_table(
        [noun, "share", *shown_names],
        [[str(each["cluster"]), f"{each['share']:.3g}", *_centre(each)] for each in shown_clusters],
    )
    more = [
        f"{count:,} more {what}"
        for count, what in (
            (facts["k"] - len(shown_clusters), f"{noun}s"),
            (len(names) - len(shown_names), "features"),
        )
        if count
    ]
    if more:
        _output.echo(f"  … {' and '.join(more)}: see --json")


_MEASURED = (
    "mean_squared_distance",
    "certified_bound",
    "mean_log_likelihood",
    "certified_log_likelihood",
    "not_certified",
)


def _centre(cluster: dict[str, Any]) -> list[str]:
    """Return the centre in the first features, of a component with its spread."""
    centre = [f"{value:.4g}" for value in cluster["centre"][:_MOST_FEATURES]]
    if "deviation" not in cluster:
        return centre
    return [f"{value} ± {spread:.2g}" for value, spread in zip(centre, cluster["deviation"], strict=False)]


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
