"""`nysketch score`: how well a model fits data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.cli._common import execution, log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_INPUTS_SKIPPED
from nysketch.models.stored import AnyModel

if TYPE_CHECKING:
    from nysketch.models.score import Score
    from nysketch.sources.options import ReadOptions


@sectioned(
    common="weights nulls skip_unreadable threads as_json",
    example="nysketch score model.json 'logs/*.parquet' --nulls drop",
)
@click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))
@common.inputs
@common.files
@common.row_weights
@common.nulls_of_model
@reads_rows
@common.as_json
@common.reporting
def command(
    model_path: Path,
    inputs: list[str],
    reading: ReadOptions,
    nulls: str,
    engine: EngineChoice,
    memory: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure a MODEL on all rows of INPUTs in one pass.

    For k-means, this is the mean squared distance to the nearest centroid, in scaled units, with the bound
    that was certified from the sketch, if any. For mixtures, it is the mean log-likelihood in nats per row.
    """
    from nysketch.models.apply import room_to_apply
    from nysketch.models.files import load_model
    from nysketch.models.score import score
    from nysketch.sources.open import open_source

    model = load_model(model_path)
    source = open_source(inputs, reading.for_columns(model.columns), memory=memory)
    room = room_to_apply(memory, source, model, engine.planned_threads)
    with execution("score", engine, room.threads, source, quiet=quiet) as running:
        result = score(
            model,
            room.source,
            nulls=nulls,
            engine=running.engine,
            progress=running.progress,
        )
    log_skipped(source.skipped)
    facts = _facts(model, result)
    if as_json:
        _output.print_json(facts | {"skipped_inputs": list(map(str, source.skipped))})
    else:
        _output.print_fields(_lines(facts))
    return EXIT_INPUTS_SKIPPED if source.skipped else 0


def _facts(model: AnyModel, result: Score) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dropped_rows": result.dropped_rows,
        "kind": model.kind,
        "rows": result.rows,
        "shares": list(result.shares),
        "total_weight": result.total_weight,
    }
    if model.kind == "kmeans":
        return facts | {
            "certified_bound": model.number("certified_bound"),
            "mean_squared_distance": result.mean_cost,
            "mean_squared_distance_data_units": result.mean_squared_distance_data_units,
            "mean_squared_distance_se": result.standard_error,
            "sum_squared_distance": result.total_cost,
        }
    return facts | {
        "bic": result.bic,
        "log_likelihood": -result.total_cost,
        "mean_log_likelihood": -result.mean_cost,
        "mean_log_likelihood_se": result.standard_error,
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines to print."""
    dropped = f", {facts['dropped_rows']:,} dropped" if facts["dropped_rows"] else ""
    lines = [("rows", f"{facts['rows']:,}{dropped}")]
    if facts["kind"] == "kmeans":
        mean, error = facts["mean_squared_distance"], facts["mean_squared_distance_se"]
        lines.append(("mean squared distance", f"{mean:.6g} ± {error:.2g}, in scaled units"))
        if facts["certified_bound"] is not None:
            lines.append(("certified bound", f"{facts['certified_bound']:.6g}"))
        if facts["mean_squared_distance_data_units"] is not None:
            lines.append(("in data units", f"{facts['mean_squared_distance_data_units']:.6g}"))
        lines.append(("sum", f"{facts['sum_squared_distance']:.10g}"))
    else:
        mean, error = facts["mean_log_likelihood"], facts["mean_log_likelihood_se"]
        lines.append(("mean log-likelihood", f"{mean:.6g} ± {error:.2g} nats per row"))
        lines.append(("log-likelihood", f"{facts['log_likelihood']:.10g}"))
        if facts["bic"] is not None:
            lines.append(("BIC", f"{facts['bic']:.10g}"))
    shown = ", ".join(f"{share:.3g}" for share in facts["shares"][:20])
    more = f" and {len(facts['shares']) - 20} more" if len(facts["shares"]) > 20 else ""
    return [*lines, ("shares", shown + more)]
