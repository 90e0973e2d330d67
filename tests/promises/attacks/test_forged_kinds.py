"""Files with kinds of columns whose checksums are right and whose contents are not: refused."""

import json

import numpy as np
import pytest

import nysketch
from nysketch.errors import CorruptSketchError
from tests.helpers import ARCHIVES, canonical, seal, unseal

MIXED = (ARCHIVES / "v8" / "mixed.sketch.nysk").read_bytes()
WEIGHTED = (ARCHIVES / "v8" / "weighted.sketch.nysk").read_bytes()


def parts(content):
    """Return metadata and arrays, to be changed."""
    _, metadata, arrays = unseal(content)
    return metadata, {name: array.copy() for name, array in arrays.items()}


def kind(column, **changes):
    """Change what a column says of its kind."""

    def change(metadata, arrays):
        metadata["basis"]["columns"][column][2] |= changes

    return change


def array(name, function):
    def change(metadata, arrays):
        arrays[name] = function(arrays[name])

    return change


def set_at(name, place, value):
    def change(metadata, arrays):
        arrays[name][place] = value

    return change


def without(name):
    def change(metadata, arrays):
        del arrays[name]

    return change


def twice(metadata, arrays):
    """Let the first two values of the vocabulary be the same."""
    ends = arrays["basis.kinds.0.values.ends"]
    text = arrays["basis.kinds.0.values"][: ends[0]]
    rest = arrays["basis.kinds.0.values"][ends[1] :]
    arrays["basis.kinds.0.values"] = np.concatenate([text, text, rest])
    arrays["basis.kinds.0.values.ends"] = np.concatenate(
        [[ends[0], 2 * ends[0]], ends[2:] - ends[1] + 2 * ends[0]]
    )


def columns(change):
    def changed(metadata, arrays):
        metadata["basis"]["columns"] = change(metadata["basis"]["columns"])

    return changed


_, ARRAYS = parts(MIXED)
KNOTS = next(name for name in ARRAYS if name.endswith(".knots"))
SIZE = int(KNOTS.split(".")[2])
META = parts(MIXED)[0]["basis"]["columns"]
NAMES = [entry[0] for entry in META]
CITY, PRICE, TS = (NAMES.index(name) for name in ("city", "price", "ts"))
OWN = int(np.argmax(ARRAYS["cells.rows"]))

FORGERIES = {
    "codes beyond the vocabulary": set_at("basis.landmarks", (0, CITY), 99.0),
    "codes between": set_at("basis.landmarks", (0, CITY), 0.5),
    "codes missing": set_at("basis.landmarks", (0, CITY), np.nan),
    "landmarks infinite": set_at("basis.landmarks", (0, PRICE), np.inf),
    "landmarks NaN": set_at("basis.landmarks", (0, NAMES.index("x")), np.nan),
    "landmarks of features": array("basis.landmarks", lambda a: np.hstack([a, a])),
    "landmarks huge": set_at("basis.landmarks", (0, SIZE), 1e308),
    "vocabulary of another size": kind(CITY, values=2),
    "vocabulary without size": kind(CITY, values=None),
    "vocabulary missing": without("basis.kinds.0.values"),
    "vocabulary ends missing": without("basis.kinds.0.values.ends"),
    "vocabulary twice": twice,
    "vocabulary no text": array("basis.kinds.0.values", lambda a: np.full_like(a, 255)),
    "vocabulary ends beyond": array("basis.kinds.0.values.ends", lambda a: a + 100),
    "vocabulary ends falling": array("basis.kinds.0.values.ends", lambda a: a[::-1].copy()),
    "knots that do not increase": array(KNOTS, lambda a: np.zeros_like(a)),
    "knots falling": array(KNOTS, lambda a: a[:, ::-1].copy()),
    "knots NaN": array(KNOTS, lambda a: a * np.nan),
    "knots flat": array(KNOTS, lambda a: a.ravel()),
    "knots of one row": array(KNOTS, lambda a: a[:1]),
    "knots integers": array(KNOTS, lambda a: np.arange(a.size).reshape(a.shape)),
    "knots missing": without(KNOTS),
    "rank without knots": kind(PRICE, transform="rank"),
    "transform unknown": kind(PRICE, transform="cube"),
    "transform a number": kind(PRICE, transform=3),
    "missing a number": kind(PRICE, missing=1),
    "neutral infinite": kind(PRICE, neutral=1e999),
    "neutral text": kind(PRICE, neutral="0"),
    "neutral missing": kind(PRICE, neutral=None),
    "parts unknown": kind(TS, parts=["hour", "minute"]),
    "parts twice": kind(TS, parts=["hour", "hour", "elapsed"]),
    "parts none": kind(TS, parts=[]),
    "parts a number": kind(TS, parts=3),
    "neutral of fewer parts": kind(TS, neutral=[0.0]),
    "neutral of times text": kind(TS, neutral=["a"] * 5),
    "kind unknown": kind(CITY, kind="colour"),
    "kind a list": kind(CITY, kind=["category"]),
    "kind missing": columns(lambda found: [[*entry[:2], {}] for entry in found]),
    "kind of two numbers": columns(lambda found: [[entry[0], 2, *entry[2:]] for entry in found]),
    "a kind more": columns(lambda found: [*found, found[0]]),
    "no kinds": columns(lambda found: [entry[:2] for entry in found]),
    "center of a category": array("basis.center", lambda a: a + 1.0),
    "scales of a category differ": array("basis.scale", lambda a: a * np.arange(1, len(a) + 1)),
    "values missing": without("cells.values"),
    "values NaN": array("cells.values", lambda a: a * np.nan),
    "values negative": array("cells.values", lambda a: -a),
    "values of halves": array("cells.values", lambda a: a / 2),
    "values too many": array("cells.values", lambda a: a * 1000),
    "values everywhere": array("cells.values", lambda a: np.ones_like(a)),
    "values too wide": array("cells.values", lambda a: np.hstack([a, a])),
    "values float32": array("cells.values", lambda a: a.astype(np.float32)),
    "sums of all features": array("cells.sums", lambda a: np.hstack([a, a])),
    "ranges beyond codes": set_at("columns.upper", CITY, 1e300),
}
# What nothing contradicts, or no harm comes from.
HARMLESS = {"ranges beyond codes"}


def forged(content, change):
    metadata, arrays = parts(content)
    change(metadata, arrays)
    return seal(json.dumps(metadata, sort_keys=True, separators=(",", ":")), arrays)


def test_what_is_sealed_again_is_the_same():
    metadata, arrays = parts(MIXED)
    assert seal(canonical(metadata), arrays) == MIXED


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_kinds_are_refused(name):
    content = forged(MIXED, FORGERIES[name])
    if name in HARMLESS:
        nysketch.from_bytes(content)
        return
    with pytest.raises(CorruptSketchError):
        nysketch.from_bytes(content)


@pytest.mark.parametrize("factor", [-1.0, 1e6, np.nan])
def test_forged_weights_of_values_are_refused(factor):
    content = forged(WEIGHTED, array("cells.values", lambda a: a * factor))
    with pytest.raises(CorruptSketchError):
        nysketch.from_bytes(content)
