"""From what a file holds to a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from nysketch import __version__
from nysketch._types import Floats
from nysketch.columns import Column, feature_names
from nysketch.models.base import COMMON_KEYS, SCHEMA_VERSION
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel

AnyModel = KMeansModel | MixtureModel


def from_description(description: Any) -> AnyModel:
    """Rebuild a model from what `describe` returned; raise ValueError where something is wrong with it."""
    if not isinstance(description, dict) or not all(name in description for name in COMMON_KEYS):
        raise ValueError("it is not the description of a model")
    version = description["schema_version"]
    if type(version) is not int or version < 1:
        raise ValueError("its schema version is not a number")
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"it has schema version {version}, and nysketch {__version__} reads up to {SCHEMA_VERSION}. "
            "Upgrade nysketch"
        )
    kinds = [kind for kind in (KMeansModel, MixtureModel) if kind.kind == description["kind"]]
    if not kinds or not isinstance(description["software"], str):
        raise ValueError("it is an unknown kind of model")
    kind = kinds[0]
    own = ("scale", *kind.arrays, *kind.settings)
    for name in own:
        if name not in description:
            raise ValueError(f"{name} are missing")
    values: dict[str, Any] = {name: _numbers(name, description[name]) for name in ("scale", *kind.arrays)}
    values |= {name: _text(name, description[name]) for name in kind.settings}
    return kind(
        columns=_columns(description["columns"], description["column_widths"]),
        facts={key: value for key, value in description.items() if key not in (*COMMON_KEYS, *own)},
        **values,
    )


def _columns(features: Any, widths: Any) -> tuple[Column, ...]:
    """Return the columns that have these features."""
    if not isinstance(features, list) or not isinstance(widths, list):
        raise ValueError("its columns are not a list")
    if not all(type(width) is int and 0 < width <= len(features) for width in widths):
        raise ValueError("its columns have impossible widths")
    starts = np.cumsum([0, *widths]).tolist()
    if starts[-1] != len(features):
        raise ValueError("its columns contradict their stated widths")
    columns = []
    for start, width in zip(starts, widths, strict=False):
        name = _text("columns", features[start])
        columns.append(Column(name if width == 1 else name.removesuffix("[0]"), width))
    if feature_names(columns) != features:
        raise ValueError("its columns contradict their stated names")
    return tuple(columns)


def _numbers(name: str, value: Any) -> Floats:
    """Return nested lists as an array; NumPy would also read numbers from text."""
    try:
        array = np.array(value)
    except ValueError as error:
        raise ValueError(f"{name} has rows of different lengths") from error
    if not isinstance(value, list) or array.dtype.kind not in "if":
        raise ValueError(f"{name} holds values that are not finite numbers")
    return array.astype(np.float64)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} holds values that are not text")
    return value
