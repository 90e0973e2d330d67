"""Mixed tables for tests: numbers, categories and times with holes, as rows of numbers and as tables."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.kinds import Category, Number, Time
from nysketch.kinds.number import rank_knots

DAY = 86_400.0
PLAIN, LIST = Column("plain"), Column("list", 2)


def columns(*names, values=4):
    """Return columns of these names, whose kinds are fitted but for their neutral places."""
    knots = rank_knots(np.random.default_rng(9).exponential(size=200), 11)
    known = {
        "plain": PLAIN,
        "list": LIST,
        "holes": Column("holes", kind=Number(missing=True)),
        "log": Column("log", kind=Number("log")),
        "rank": Column("rank", kind=Number("rank", missing=True, knots=knots)),
        "city": Column("city", kind=Category(tuple(f"c{i}" for i in range(values)))),
        "flag": Column("flag", kind=Category(("false", "true"))),
        "zip": Column("zip", kind=Category(tuple(f"{i:05}" for i in range(10 * values)))),
        "hour": Column("hour", kind=Time(("hour",))),
        "when": Column("when", kind=Time(("hour", "weekday", "yearday", "elapsed"), missing=True)),
    }
    return [known[name] for name in names]


def numbers(random, n, columns):
    """Return n rows of numbers that such columns may have."""
    out = []
    for column in columns:
        kind = column.kind
        if isinstance(kind, Category):
            shares = 1.0 / np.arange(1, kind.features + 1)
            out.append(random.choice(kind.features, n, p=shares / shares.sum()).astype(float))
        elif isinstance(kind, Time):
            out.append(1.7e9 + np.floor(random.uniform(0, 400 * DAY, n)))
        elif column.width > 1:
            out += list(random.normal(1e3, 1, (column.width, n)))
        else:
            out.append(random.normal(0, 1, n) ** (3 if column.name in ("log", "rank") else 1))
        if kind is not None and not isinstance(kind, Category) and kind.missing:
            out[-1][random.random(n) < 0.2] = np.nan
    return np.column_stack(out)


def basis_of(rows, columns, m=30, **options):
    """Return a basis of these columns, whose landmarks (if it has any) are some of the rows."""
    if options.get("features") != "fourier":
        options = {"sampling": "uniform", **options}
    return basis_from_rows(rows, columns, m=m, **options)


def slow_features(column, value):
    """Return the features of a value of a column, in the data's units, by Python's own dates and maths."""
    kind, gone = column.kind, bool(np.isnan(value))
    if kind is None:
        return [float(value)]
    if isinstance(kind, Category):
        codes = [0.0] * (len(kind.values) + 2)
        codes[int(value)] = 1.0
        return codes
    if isinstance(kind, Number):
        if gone:
            place = kind.neutral
        elif kind.transform == "log":
            place = np.sign(value) * np.log(1 + abs(value))
        else:
            place = float(kind.transformed(np.array([value]))[0])
        return [place, *([float(gone)] if kind.missing else [])]
    features = list(kind.neutral) if gone else []
    if not gone:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value)
        midnight = moment.replace(hour=0, minute=0, second=0)
        year = (midnight - midnight.replace(month=1, day=1)).days
        turns = {
            "hour": (moment - midnight).total_seconds() / DAY,
            "weekday": moment.weekday() / 7,
            "yearday": year / 365.2425,
        }
        for part in kind.parts:
            if part == "elapsed":
                features.append(value / DAY)
            else:
                features += [np.cos(2 * np.pi * turns[part]), np.sin(2 * np.pi * turns[part])]
    return [*features, *([float(gone)] if kind.missing else [])]


def slow_scaled(basis, rows):
    """Return the scaled features of rows, value by value."""
    owners = [column for column in basis.columns for _ in range(column.width)]
    features = [
        [x for column, value in zip(owners, row, strict=True) for x in slow_features(column, value)]
        for row in rows.tolist()
    ]
    return (np.array(features) - basis.center) / basis.scale


def table(random, n):
    """Return a table with every kind of column, and weights."""
    city = np.array(["Köln", "", "a\tb", "東京", "née", "x" * 40], object)[random.choice(6, n)]
    city[random.random(n) < 0.1] = None
    seconds = 1_700_000_000 + random.integers(0, 500 * 86_400, n)
    price = np.exp(random.normal(0, 2, n))
    price[random.random(n) < 0.2] = np.nan
    return pa.table(
        {
            "city": pa.array(city, pa.string()),
            "price": pa.array(price, from_pandas=True),
            "x": random.normal(size=n),
            "flag": random.random(n) < 0.3,
            "ts": pa.array(seconds.astype("datetime64[s]")),
            "zip": pa.array(random.integers(0, 30, n)),
            "w": random.uniform(0.5, 2, n),
        }
    )


KINDS = {"city": "category", "price": "log", "flag": "category", "ts": "hour,weekday", "zip": "category"}
