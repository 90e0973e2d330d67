"""Independence of groups of columns with kinds: a category and a number, two categories, mixed groups."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2_contingency

import nysketch

pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
KINDS = {"a": "category", "b": "category", "ts": "hour"}
OPTIONS = {"kinds": KINDS, "nulls": "keep", "threads": 1, "blocks": 4, "cells": False, "spans": 0}


def table(seed, rows, *, strength=0.0, missing=0.05):
    """`b`, `x` and `ts` depend on `a` by so much."""
    random = np.random.default_rng(seed)
    a = random.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    b = np.where(random.random(rows) < strength, a % 3, random.choice(3, rows))
    hours = np.where(random.random(rows) < strength, 6 * a, random.integers(0, 24, rows))

    def with_nulls(values):
        return pa.array(values, mask=random.random(rows) < missing)

    return pa.table({
        "a": with_nulls(np.array(list("abcd"))[a]),
        "b": with_nulls(np.array(list("xyz"))[b]),
        "x": with_nulls(random.normal(size=rows) + strength * (a - 1)),
        "ts": with_nulls(random.integers(0, 999, rows) * 86_400 + hours * 3600).cast(pa.timestamp("s")),
    })  # fmt: skip


def features(data, basis):
    """Make features of a table row by row, by the words of the design."""
    out = []
    for column in basis.columns:
        kind, values = column.kind, data[column.name].to_pylist()
        if column.name in "ab":
            codes = [kind.missing if v is None else kind.code_of.get(v, kind.other) for v in values]
            out.append(np.eye(kind.features)[codes])
        elif column.name == "x":
            known = [[kind.neutral, 1.0] if v is None else [v, 0.0] for v in values]
            out.append(np.array(known)[:, : kind.features])
        else:
            angles = [None if v is None else 2 * np.pi * v.hour / 24 for v in values]
            rows = [[*kind.neutral, 1.0] if t is None else [np.cos(t), np.sin(t), 0.0] for t in angles]
            out.append(np.array(rows)[:, : kind.features])
    return (np.concatenate(out, axis=1) - basis.center) / basis.scale


def v_statistic(kernel, rows):
    """The squared HSIC, by its definition."""
    grams = kernel.factors(rows, rows)
    crossed = np.prod([gram.mean(axis=1) for gram in grams], axis=0).mean()
    return np.prod(grams, axis=0).mean() + np.prod([gram.mean() for gram in grams]) - 2 * crossed


GROUPS = {
    "a category and a number": {"p": ["a"], "q": ["x"]},
    "two categories": {"p": ["a"], "q": ["b"]},
    "mixed groups": {"p": ["x", "a"], "q": ["ts", "b"]},
    "three groups": {"p": ["ts"], "q": ["b", "a"], "r": ["x"]},
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_hsic_is_the_v_statistic_of_features(groups):
    data = table(1, 150, strength=0.7)
    options = OPTIONS | {"kinds": {c: k for c, k in KINDS.items() if any(c in g for g in groups.values())}}
    made = nysketch.sketch(
        data, groups=groups, landmarks=150, sampling="uniform", precision="float64", pairs=True, **options
    )
    rows = features(data, made.basis)
    found = nysketch.independence(made, permutations=0)
    truth = v_statistic(made.basis.kernel, rows)
    # Landmarks are rows, but for some with the codes of other and missing values: they span nearly all.
    assert found.hsic_at_landmarks**2 == pytest.approx(truth, rel=0.02)
    for part in ([0], [1]):
        own = made.basis.of_groups(part)
        numbers = made.basis.landmarks[:, made.basis.numbers_of(part)]
        assert own.transform(numbers) == pytest.approx(
            made.basis.scaled_landmarks[:, made.basis.features_of(part)]
        )


@pytest.mark.parametrize("groups", [*GROUPS.values()][:3], ids=[*GROUPS][:3])
def test_dependence_is_found(groups):
    kinds = {c: k for c, k in KINDS.items() if any(c in g for g in groups.values())}
    made = nysketch.sketch(
        table(2, 1500, strength=0.4), groups=groups, landmarks=60, **OPTIONS | {"kinds": kinds}
    )
    assert nysketch.independence(made, permutations=200).p_value < 0.02


def p_values(groups, runs, rows, **options):
    kinds = {c: k for c, k in KINDS.items() if any(c in g for g in groups.values())}
    ours, classical = [], []
    for seed in range(runs):
        data = table(100 + seed, rows, **options)
        made = nysketch.sketch(data, groups=groups, landmarks=40, **OPTIONS | {"kinds": kinds})
        ours.append(nysketch.independence(made, permutations=99, seed=seed).p_value)
        classical.append(chi2_contingency(contingency(data)).pvalue)
    return np.array(ours), np.array(classical)


def contingency(data):
    """Count pairs of values; missing ones are a value."""
    counts = Counter(zip(data["a"].to_pylist(), data["b"].to_pylist(), strict=True))
    return [[counts[a, b] for b in {b for _, b in counts}] for a in {a for a, _ in counts}]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [*GROUPS.values()][:3], ids=[*GROUPS][:3])
def test_the_level_is_kept(groups):
    ours, _ = p_values(groups, 60, 300)
    low, high = binom.interval(0.999, 60, 0.05)
    assert low <= (ours <= 0.05).sum() <= high


@pytest.mark.slow
def test_two_categories_are_as_dependent_as_chi_squared_says():
    """Between no power and all of it."""
    ours, classical = p_values(GROUPS["two categories"], 40, 400, strength=0.15)
    found, theirs = (ours <= 0.05).mean(), (classical <= 0.05).mean()
    assert 0.2 < theirs < 0.95
    assert found > theirs - 0.15
