"""The section of a report on models: clusters over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nysketch._types import Floats
from nysketch.models.base import Model
from nysketch.models.present import in_words
from nysketch.models.present import present as described_clusters
from nysketch.models.stored import AnyModel
from nysketch.plotting.charts import NARROW, WIDE, Series, heat_map, lines
from nysketch.plotting.landmark_map import word_for
from nysketch.plotting.projection import middles
from nysketch.plotting.scales import number, plural, share, signed
from nysketch.report.cluster_tracking import Track, same_features, tracks
from nysketch.report.contents import Contents
from nysketch.report.html import Section, Table, figure, folded, heading, paragraph

# Clusters with lines of their own; the others are few rows each, and still in the table.
_MOST_CLUSTERS, _NARROW_CLUSTERS = 8, 5
_MOST_FEATURES = 14
_MOST_MODELS = 6
_STRONG = 2.0
_LARGE = 0.01
# Columns of a table of centres; wider data is for the model file.
_MOST_TABLE = 40


def models(contents: Contents) -> Section:
    """Return shares and centres of the clusters of every model over time."""
    section = Section("models", "Clusters")
    if not contents.models:
        section.body.append(paragraph("No models yet, or the job defines none."))
        return section
    shown = list(contents.models.items())
    for which, (name, found) in enumerate(shown[:_MOST_MODELS]):
        section.body += _model(name, found, which, contents.model_partitions.get(name, len(found)))
    if len(shown) > _MOST_MODELS:
        rest = ", ".join(name for name, _ in shown[_MOST_MODELS:])
        section.body.append(paragraph(f"Not shown: {rest}.", "about"))
    return section


def _model(name: str, found: list[tuple[str, AnyModel]], which: int, versions: int) -> list[str]:
    kept = same_features([model for _, model in found])
    found = found[-kept:]
    names = [partition for partition, _ in found]
    newest = found[-1][1]
    word = word_for(newest)
    kind = "Gaussian mixture" if word == "component" else "k-means"
    followed = tracks([model for _, model in found])
    shown = followed[:_MOST_CLUSTERS]
    window = f", of which the latest {len(names)} are shown" if versions > len(names) else ""
    body = [
        heading(f"{name}: {plural(newest.k, word)} ({kind})"),
        paragraph(
            f"Refreshed {plural(versions, 'time')}{window}, last with {names[-1]}. Numbers identify each "
            f"{word} over time; 1 is currently the largest.",
            "about",
        ),
    ]
    if len(followed) > len(shown):
        body.append(paragraph(f"Pictures show the {len(shown)} largest of {len(followed)}.", "about"))
    if len(names) > 1:
        body.append(_shares(name, names, shown, word, which))
    body.append(_centres(name, newest, followed, word, which))
    if len(names) > 1:
        body.append(_moves(name, names, shown, newest, word, which))
    return body


def _labels(word: str, number_of: int) -> str:
    return f"{word} {number_of + 1}"


def _shares(name: str, names: list[str], shown: list[Track], word: str, which: int) -> str:
    series = [
        Series(
            _labels(word, i),
            track.shares,
            colour=i,
            notes=[
                f"{n}: {_labels(word, i)}, {_percent(s)}" for n, s in zip(names, track.shares, strict=True)
            ],
        )
        for i, track in enumerate(shown)
    ]
    last = ", ".join(f"{word} {i + 1} {_percent(track.shares[-1])}" for i, track in enumerate(shown))
    wide, narrow = (
        lines(
            names,
            [_short(one, width) for one in series],
            title=f"Shares of the {word}s of {name} over time",
            description=f"With {names[-1]}: {last}.",
            width=width,
            words=_percent,
        )
        for width in (WIDE, NARROW)
    )
    rows = [[names[at], *(_percent(t.shares[at]) for t in shown)] for at in range(len(names) - 1, -1, -1)]
    numbers = Table(["partition", *(_labels(word, i) for i in range(len(shown)))], rows)
    return figure(f"shares-{which}", wide, narrow, caption="Share of rows.", numbers=numbers)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.3g} %"


def _short(one: Series, width: float) -> Series:
    """Return the series for a narrow picture: its name shorter, no notes, which need a pointer."""
    if width >= WIDE:
        return one
    return replace(one, name=one.name.split()[-1], notes=())


def _centres(name: str, newest: AnyModel, followed: list[Track], word: str, which: int) -> str:
    """Draw the newest centres as deviations from the middle of the data, and list them in its units."""
    present = [
        (i, centre, track.shares[-1])
        for i, track in enumerate(followed)
        if (centre := track.centres[-1]) is not None
    ]
    places = np.array([centre for _, centre, _ in present])
    parts_of = np.array([part or 0.0 for _, _, part in present])
    middle = places[0] + parts_of @ (places - places[0])
    deviations = (places - middle) / newest.scale
    features = newest.features
    order = np.argsort(-np.abs(deviations).max(axis=0), kind="stable")[:_MOST_FEATURES].tolist()
    parts = []
    for width, most in ((WIDE, _MOST_CLUSTERS), (NARROW, _NARROW_CLUSTERS)):
        parts.append(
            heat_map(
                [features[f] for f in order],
                [(f"{word} {i + 1}" if width >= WIDE else str(i + 1)) for i, _, _ in present[:most]],
                [[float(d) for d in deviations[:most, f]] for f in order],
                title=f"Centres of the {word}s of {name}",
                description="; ".join(
                    f"{word} {i + 1}: "
                    + ", ".join(f"{features[f]} {signed(float(deviations[at, f]))}" for f in order[:4])
                    for at, (i, _, _) in enumerate(present[:most])
                ),
                words=signed,
                width=width,
                largest=_STRONG,
            )
        )
    table = _by_column(newest, present, word) if newest.encoded else _by_feature(features, present, word)
    left_out = len(features) - len(order)
    caption = "Current centres relative to the mean of all rows, in scaled units" + (
        f"; {plural(left_out, 'column')} with smaller differences not shown." if left_out else "."
    )
    body = figure(f"centres-{which}", parts[0], parts[1], caption=caption)
    return body + folded("Centres in data units", table)


_Present = list[tuple[int, Floats, float | None]]


def _by_feature(features: list[str], present: _Present, word: str) -> Table:
    few = features[:_MOST_TABLE]
    rows = [
        [f"{word} {i + 1}", share(part or 0.0), *(number(float(v), 4) for v in centre[: len(few)])]
        for i, centre, part in present
    ]
    return Table(["", "share", *few], rows)


def _by_column(newest: AnyModel, present: _Present, word: str) -> Table:
    """Say of each cluster what its rows have in each column, in the column's own terms."""
    described = described_clusters(newest)
    rows = []
    for i, centre, part in present:
        own = int(np.argmin(((middles(newest) - centre) ** 2).sum(axis=1)))
        columns = described[own]["columns"][:_MOST_TABLE]
        rows.append([f"{word} {i + 1}", share(part or 0.0), *(in_words(column) for column in columns)])
    names = [column["name"] for column in described[0]["columns"][:_MOST_TABLE]]
    texts = tuple(range(2, len(names) + 2))
    return Table(["", "share", *names], rows, (0, *texts), texts)


def _moves(name: str, names: list[str], shown: list[Track], newest: Model, word: str, which: int) -> str:
    series = [Series(_labels(word, i), track.moved(newest.scale), colour=i) for i, track in enumerate(shown)]
    # A handful of rows far out may be a cluster, and anywhere else tomorrow: it does not decide the scale.
    large = [
        value
        for track, one in zip(shown, series, strict=True)
        for part, value in zip(track.shares, one.values, strict=True)
        if value is not None and (part or 0.0) >= _LARGE
    ]
    most = 1.2 * max(large) if any(large) else None
    beyond = most is not None and any(v is not None and v > most for one in series for v in one.values)
    last = ", ".join(f"{one.name} {number(one.values[-1])}" for one in series if one.values[-1] is not None)
    wide, narrow = (
        lines(
            names,
            [_short(one, width) for one in series],
            title=f"Movement of the centres of {name}",
            description=f"By {names[-1]}: {last} standard deviations.",
            width=width,
            height=180,
            most=most,
        )
        for width in (WIDE, NARROW)
    )
    rows = [[names[at], *(number(one.values[at]) for one in series)] for at in range(len(names) - 1, -1, -1)]
    return figure(
        f"moves-{which}",
        wide,
        narrow,
        caption=f"Distance of each centre from its position with {names[0]}, in scaled units."
        + (f" A {word} with less than {share(_LARGE)} of the rows is off the scale." if beyond else ""),
        numbers=Table(["partition", *(one.name for one in series)], rows),
    )
