"""From what a file holds to a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from nysketch import __version__
from nysketch._types import Floats
from nysketch.models.base import COMMON_KEYS, KEYS_OF_KINDS, SCHEMA_VERSION_OF_KINDS
from nysketch.models.columns import columns_of
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
    if version > SCHEMA_VERSION_OF_KINDS:
        raise ValueError(
            f"it has schema version {version}, and nysketch {__version__} reads up to "
            f"{SCHEMA_VERSION_OF_KINDS}. Upgrade nysketch"
        )
    encoded = version == SCHEMA_VERSION_OF_KINDS
    if encoded and not all(name in description for name in KEYS_OF_KINDS):
        raise ValueError("the kinds of its columns are missing")
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
    if encoded:
        own = (*own, *KEYS_OF_KINDS)
        values["fill"] = _fill(description["fill"])
    return kind(
        columns=columns_of(
            description["columns"],
            description["column_widths"],
            description["column_kinds"] if encoded else None,
        ),
        facts={key: value for key, value in description.items() if key not in (*COMMON_KEYS, *own)},
        **values,
    )


def _fill(value: Any) -> Floats:
    """Return the numbers that missing values get, NaN where there are none."""
    if not isinstance(value, list) or not all(x is None or type(x) in (int, float) for x in value):
        raise ValueError("fill holds values that are not finite numbers")
    return np.array([np.nan if x is None else x for x in value], np.float64)


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
