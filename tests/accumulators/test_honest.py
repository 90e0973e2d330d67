"""Whatever honest passes, sums and differences end in can be saved and read again: no check is too strict."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import nysketch
from nysketch.errors import NysketchError, NysketchWarning
from tests.helpers import ARCHIVES

KERNELS = {
    "gaussian": {},
    "several": {"bandwidth": "0.1*median,median"},
    "laplacian-l1": {"kernel": "laplacian-l1"},
    "laplacian-l2": {"kernel": "laplacian-l2"},
    "matern32": {"kernel": "matern32"},
    "matern52": {"kernel": "matern52"},
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "polynomial"},
    "cubic": {"kernel": "polynomial", "degree": 3, "offset": 0.0},
    "degree 7": {"kernel": "polynomial", "degree": 7, "offset": 2.5},
    "cosine": {"kernel": "cosine"},
    "groups": {"groups": {"p": ["x0"], "q": ["x1"]}},
    "unlike groups": {
        "groups": {"p": ["x0"], "q": ["x1"], "r": ["x2"]},
        "kernel": {"p": "linear", "q": "gaussian", "r": "polynomial"},
        "pairs": True,
    },
    "fourier": {"features": "fourier"},
}

COLUMNS = {
    "normal": lambda random, n: random.normal(size=n),
    "far from 0": lambda random, n: 1e8 + random.normal(size=n),
    "tiny": lambda random, n: 1e-200 * random.normal(size=n),
    "huge": lambda random, n: 1e90 * random.normal(size=n),
    "counts": lambda random, n: random.poisson(0.3, n).astype(float),
    "rare": lambda random, n: (random.random(n) < 0.02) * 7.0,
    "long tail": lambda random, n: random.standard_cauchy(n) ** 3,
    "one far out": lambda random, n: np.where(np.arange(n) == n // 2, 1e13, random.normal(size=n)),
    "farther than cells": lambda random, n: np.where(np.arange(n) == n // 2, 1e250, random.normal(size=n)),
    "growing": lambda random, n: np.arange(n) / 7.0,
}


@st.composite
def recipes(draw):
    """Say what three columns hold, how to sketch them, and where to cut them."""
    rows = draw(st.sampled_from([30, 64, 150, 400]))
    options = {
        "blocks": draw(st.sampled_from([1, 3, 16])),
        "precision": draw(st.sampled_from(["float32", "float64"])),
        "sample_rows": draw(st.sampled_from([None, 0, 5])),
        "cells": draw(st.sampled_from([True, True, False])),
        "spans": draw(st.sampled_from([0, 2, 64])),
        "second_moments": draw(st.booleans()),
    }
    if options["cells"]:
        options["far_rows"] = draw(st.sampled_from([None, 0, 3]))
    return {
        "seed": draw(st.integers(0, 2**32)),
        "rows": rows,
        "kinds": draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=3, max_size=3)),
        "weights": draw(st.sampled_from([None, 0, 1, 11])),  # by how many powers of ten they differ
        "cuts": sorted(draw(st.lists(st.integers(1, rows - 1), min_size=2, max_size=2, unique=True))),
        "scale": draw(st.sampled_from(["standard", "robust", "none", "auto"])),
        "options": options,
    }


def table_of(recipe):
    random, rows = np.random.default_rng(recipe["seed"]), recipe["rows"]
    table = {f"x{i}": COLUMNS[kind](random, rows) for i, kind in enumerate(recipe["kinds"])}
    if recipe["weights"] is not None:
        span = recipe["weights"]
        table["w"] = 10.0 ** random.uniform(-span, span, rows) * (random.random(rows) < 0.9)
    return table


def require_kept(sketch):
    """Save and read a sketch: nothing is refused, and nothing is changed."""
    assert nysketch.from_bytes(nysketch.to_bytes(sketch)) == sketch


def part(table, rows):
    return {name: values[rows] for name, values in table.items()}


# What a basis or a pass says of numbers that are too large for it, before anything is written.
TOO_LARGE = ("too large", "values beyond", "cannot be summed", "between 1e-50 and 1e50")

# Without making failures smaller: each step of that is a dozen sketches.
quickly = settings(max_examples=10, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])


def test_zero_times_infinity_is_too_large():
    options = {"blocks": 16, "precision": "float32", "cells": False, "spans": 2, "second_moments": True}
    recipe = {
        "seed": 210012,
        "rows": 150,
        "kinds": ["rare", "one far out", "farther than cells"],
        "weights": 0,
        "cuts": [23, 98],
        "scale": "auto",
        "options": options,
    }
    with warnings.catch_warnings(), pytest.raises(NysketchError, match="too large for the kernel"):
        warnings.simplefilter("ignore", NysketchWarning)
        sketches_of(recipe, **KERNELS["unlike groups"])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@quickly
@given(recipe=recipes())
def test_honest_sketches_are_never_refused(kernel, recipe):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NysketchWarning)
        try:
            made = sketches_of(recipe, **KERNELS[kernel])
        except NysketchError as error:
            assert any(words in str(error) for words in TOO_LARGE), error
            return
        for found in made:
            blocks = found.tally.blocks
            if (blocks.rows >= 0).all() and (blocks.weight >= 0).all():
                require_kept(found)


def sketches_of(recipe, *, pairs=False, **how):
    """Sketch a table as a whole and in parts, and return sums and differences of these."""
    table, options, (first, second) = table_of(recipe), dict(recipe["options"]), recipe["cuts"]
    weights = None if recipe["weights"] is None else "w"
    if "groups" not in how:
        how["columns"] = ["x0", "x1", "x2"]
    # The pilot sees only the first rows: others may be farther out than all of them.
    pilot = part(table, slice(0, max(first, 20)))
    basis = nysketch.Basis.fit(pilot, landmarks=10, scale=recipe["scale"], **how)

    def sketch(*rows):
        piece = part(table, slice(*rows))
        return nysketch.sketch(piece, basis=basis, threads=1, weights=weights, pairs=pairs, **options)

    whole, a, b, c = sketch(None), sketch(0, first), sketch(first, second), sketch(second, None)
    parts = a + b + c
    nothing = whole - parts  # the same rows, cut otherwise
    return [
        *(whole, parts, parts - c, whole - a - b, a - a, nothing, (a - a) + b, parts - a - b - c),
        *(nothing + a, nothing + whole),
    ]


@pytest.mark.slow
@quickly
@given(
    st.lists(st.text("ab €", max_size=30), min_size=5, max_size=60),
    st.sampled_from(["spectrum", "subsequence"]),
)
def test_honest_sketches_of_text_are_never_refused(strings, kernel):
    table = {"t": [*strings, "abab"]}
    basis = nysketch.Basis.fit(table, kernel=kernel, length=2, landmarks=4)
    a, b = (nysketch.sketch({"t": part}, basis=basis, threads=1) for part in (strings, ["ab"] * 30))
    for found in (a, b, a + b, (a + b) - a, a - a, (a - a) + b):
        require_kept(found)


@pytest.mark.parametrize(
    "path", sorted(ARCHIVES.glob("v*/*.nysk")), ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_archives_are_never_refused(path):
    thing = nysketch.load(path)
    if isinstance(thing, nysketch.Sketch):
        for found in (thing, thing + thing, (thing + thing) - thing, thing - thing, (thing - thing) + thing):
            nysketch.to_bytes(found)
