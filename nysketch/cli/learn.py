"""`nysketch learn kmeans` and `nysketch learn gmm`: saved sketches → a model, without the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.cli._common import log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.types import GROUPS
from nysketch.cli._sections import MODEL, OUTPUT, Command, option
from nysketch.errors import EXIT_INPUTS_SKIPPED, UsageError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.learning.sweep import Sweep
    from nysketch.learning.to_file import Learned
    from nysketch.sources.options import ReadOptions


class _Numbers(click.ParamType):  # type: ignore[type-arg]
    """A number, or a range of them: 10, or 2:20."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Read them from text."""
        if isinstance(value, range):
            return value
        first, colon, last = str(value).partition(":")
        try:
            numbers = range(int(first), (int(last) if colon else int(first)) + 1)
        except ValueError:
            numbers = range(0)
        if not numbers or numbers[0] < 1:
            self.fail(f"{value!r} is neither a number, such as 10, nor a range, such as 2:20", param, ctx)
        return numbers


# What both kinds of learning take.
_shared = common.stack(
    click.argument(
        "sketches", nargs=-1, metavar="SKETCH...", required=True, shell_complete=common.complete_files
    ),
    option(
        "-k",
        "ks",
        section=MODEL,
        type=_Numbers(),
        required=True,
        metavar="K|K:K",
        help="Number of clusters or components. A range 2:20 tries all, prints a table and keeps the best.",
    ),
    common.output,
    option(
        "--format",
        aliases=["--to"],
        section=OUTPUT,
        type=click.Choice(["json", "parquet", "npz"]),
        help="Format of the model file. Default: by the suffix of the output.",
    ),
    option(
        "--decoder",
        section=MODEL,
        metavar="METHOD",
        type=click.Choice(["auto", "cells", "quadrature", "clomp", "shift"]),
        default="auto",
        show_default=True,
        help="How to learn: from the cells (cells), from the kernel sums alone (quadrature, clomp, shift), "
        "or the best choice for the sketch (auto).",
    ),
    option(
        "--trials",
        section=MODEL,
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of random starts. Default: 20; at most 8 for clomp and shift.",
    ),
    common.seed,
    option(
        "--robust",
        section=MODEL,
        type=GROUPS,
        is_flag=False,
        flag_value="auto",
        metavar="auto|Q",
        help="Exclude outlying blocks (median of means over Q groups; auto: all blocks). Tolerates fewer "
        "than Q/2 corrupted rows.",
    ),
    option(
        "--refine",
        section=MODEL,
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Refine the model by N exact passes over the rows of --data.",
    ),
    option(
        "--data",
        section=MODEL,
        multiple=True,
        metavar="INPUT",
        shell_complete=common.complete_files,
        help="Data for --refine: a file, directory or glob. Repeat it for several.",
    ),
    common.files,
    common.weights("Column of row weights in --data. Default: as in the sketch."),
    common.nulls_of_model,
    common.threads,
    common.memory,
    common.writes_output,
)


@click.group(
    name="learn",
    epilog="\b\nExample: nysketch learn kmeans data.nysk -k 10 -o model.json",
)
def command() -> None:
    """Learn k-means centroids or a Gaussian mixture from sketches, without the data.

    Several sketches are merged first. The model is in the units of the data.
    """


_COMMON = "trials refine data seed if_exists as_json"


@command.command(
    cls=Command,
    common=f"ks output {_COMMON}",
    epilog="\b\nExample: nysketch learn kmeans monday.nysk tuesday.nysk -k 2:20 -o model.json",
)
@_shared
def kmeans(**request: Any) -> int:
    """Learn K centroids from the sketches SKETCH….

    Distances are Euclidean, in the scaled units of the sketch. The result includes an estimate of the mean
    squared distance of all rows to their nearest centroid and, if the sketch has cells, a certified upper
    bound. For a range of K, the model with the largest Calinski-Harabasz index is kept.
    """
    return _learn(None, **request)


@command.command(
    cls=Command,
    common=f"ks output covariance {_COMMON}",
    epilog="\b\nExample: nysketch learn gmm data.nysk -k 10 --covariance full -o model.json",
)
@option(
    "--covariance",
    section=MODEL,
    metavar="SHAPE",
    type=click.Choice(["spherical", "diag", "full"]),
    default="diag",
    show_default=True,
    help="Covariance of the components: spherical (in scaled units), diag or full.",
)
@_shared
def gmm(covariance: str, **request: Any) -> int:
    """Learn a mixture of K Gaussians from the sketches SKETCH….

    The result includes the mean log-likelihood, in nats per row, on the sampled rows of the sketch. For a
    range of K, the model with the smallest BIC on these rows is kept.
    """
    return _learn(covariance, **request)


def _learn(
    covariance: str | None,
    *,
    sketches: tuple[str, ...],
    ks: range,
    output: Path,
    format: str | None,
    decoder: str,
    trials: int | None,
    seed: int,
    robust: int | str | None,
    refine: int,
    data: tuple[str, ...],
    reading: ReadOptions,
    nulls: str,
    threads: int | None,
    memory: int,
    overwrite: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    from nysketch.learning.to_file import Refinement, learn_to_file

    started = time.perf_counter()
    if bool(refine) != bool(data):
        missing = "--data, the rows to read" if refine else "--refine, the number of passes"
        raise UsageError(f"{'--refine' if refine else '--data'} needs {missing}")
    refinement = None
    if refine:
        refinement = Refinement(list(data), refine, reading, nulls, threads, memory)
    with (
        _output.progress_bar("learn", " starts", quiet=quiet) as learning,
        _output.progress_bar("refine", " rows", quiet=quiet) as refining,
    ):
        learned = learn_to_file(
            sketch_files(sketches),
            output,
            ks,
            format=format,
            refinement=refinement,
            overwrite=overwrite,
            lock_wait=lock_wait,
            refining=refining,
            covariance=covariance,
            decoder=decoder,
            trials=trials,
            seed=seed,
            robust=robust,
            progress=_counting(learning),
        )
    log_skipped(learned.unreadable)
    seconds = time.perf_counter() - started
    _report(learned, output, seconds, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if learned.unreadable else 0


def _counting(bar: Callable[[int, int | None], None]) -> Callable[[str, int], None]:
    """Show all starts, of any decoder and k, as one growing number: their total is unknown."""
    done = 0

    def progress(what: str, number: int) -> None:
        nonlocal done
        del what, number
        done += 1
        bar(done, None)

    return progress


def _report(learned: Learned, output: Path, seconds: float, *, as_json: bool, quiet: bool) -> None:
    from nysketch.models.mixture import MixtureModel
    from nysketch.models.present import present

    model, result = learned.model, learned.sweep
    facts = model.facts
    if as_json:
        _output.print_json(
            {
                "bytes": output.stat().st_size,
                "criterion": result.criterion if len(result.models) > 1 else None,
                "k": model.k,
                "kind": model.kind,
                "output": str(output),
                "seconds": round(seconds, 3),
                "skipped_inputs": list(learned.unreadable),
                "sweep": result.table() if len(result.models) > 1 else None,
                **{name: facts[name] for name in _SHOWN if name in facts},
                **({"clusters": present(model)} if model.encoded else {}),
            }
        )
        return
    if quiet:
        return
    if len(result.models) > 1:
        _print_sweep(result)
    what = f"{model.covariance_type} Gaussians" if isinstance(model, MixtureModel) else "centroids"
    _output.echo(
        f"{output}: {model.k} {what if model.k > 1 else what.removesuffix('s')} of {model.d} features from "
        f"{facts['rows']:,} rows, by {facts['decoder']}, in {seconds:.1f} s"
    )
    _output.print_fields(_lines(model))
    if model.encoded:
        _output.print_clusters(present(model), "cluster" if model.kind == "kmeans" else "component")


_SHOWN = (
    "bic",
    "candidates",
    "certified_bound",
    "certified_bound_data_units",
    "certified_log_likelihood",
    "decoder",
    "judged_by",
    "mean_log_likelihood",
    "mean_log_likelihood_se",
    "mean_squared_distance",
    "not_certified",
    "not_estimated",
    "notes",
    "objective",
    "refined_passes",
    "robust",
    "rows",
)
_JUDGED_BY = {
    "cells": "estimated from cells",
    "data": "measured on the data",
    "fit": "computed from the fit, rather too good: the sketch has neither cells nor a sample",
    "sample": "measured on sampled rows",
}


def _lines(model: Any) -> list[tuple[str, str]]:
    facts, by = model.facts, _JUDGED_BY[model.facts["judged_by"]]
    if model.kind == "kmeans":
        distance, bound = facts["mean_squared_distance"], facts["certified_bound"]
        lines = [
            (
                "mean squared distance",
                f"none: {facts['not_estimated']}"
                if distance is None
                else f"{distance:.6g} in scaled units, {by}",
            ),
            (
                "certified bound",
                f"none: {facts['not_certified']}"
                if bound is None
                else f"{bound:.6g}, an upper bound for the mean over all rows",
            ),
        ]
        shares = model.shares
    else:
        error, likelihood = facts.get("mean_log_likelihood_se"), facts["mean_log_likelihood"]
        doubt = "" if error is None else f" ± {error:.2g}"
        certified = facts["certified_log_likelihood"]
        lines = [
            (
                "mean log-likelihood",
                f"none: {facts['not_estimated']}"
                if likelihood is None
                else f"{likelihood:.6g}{doubt} nats per row, {by}",
            ),
            (
                "certified",
                f"none: {facts['not_certified']}" if certified is None else f"at least {certified:.6g}",
            ),
        ]
        shares = model.weights
    if facts.get("robust") is not None:
        lines.append(("excluded", _left_out(facts["robust"])))
    shown = ", ".join(f"{share:.3g}" for share in shares[:12])
    return [*lines, ("shares", shown + (f" and {len(shares) - 12} more" if len(shares) > 12 else ""))]


def _left_out(robust: dict[str, Any]) -> str:
    kind = "random blocks" if robust["blocks"] == "random" else "spans of consecutive rows"
    numbers = robust["left_out"]
    if not numbers:
        return f"no {kind}: none is outlying"
    listed = f" ({', '.join(map(str, numbers[:12]))}{' …' if len(numbers) > 12 else ''})"
    return f"{len(numbers)} {kind}{listed} with {robust['rows_left_out']:,} rows, some of them corrupted"


def _print_sweep(result: Sweep) -> None:
    table = result.table()
    names = [name for name in table[0] if name != "k"]
    _output.print_table(
        ["k", *(name.replace("_", " ") for name in names), ""],
        [
            [
                str(entry["k"]),
                *("–" if entry[name] is None else f"{entry[name]:.6g}" for name in names),
                "best" if entry["k"] == result.best.k else "",
            ]
            for entry in table
        ],
    )
