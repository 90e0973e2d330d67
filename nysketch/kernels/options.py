"""From what the user asked for to a kernel: names, bandwidths fitted to pilot rows, groups of columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Rows
from nysketch.errors import UsageError
from nysketch.kernels.bandwidths import AUTO, MEDIAN, auto_bandwidths, median_distance
from nysketch.kernels.base import Kernel
from nysketch.kernels.dot import Cosine, Linear, Polynomial
from nysketch.kernels.product import Group, Product
from nysketch.kernels.radial import Gaussian, GaussianSum, LaplacianL1, LaplacianL2, Matern32, Matern52
from nysketch.kernels.strings import Spectrum, Subsequence

_OF_DISTANCE = {kind.name: kind for kind in (Gaussian, LaplacianL1, LaplacianL2, Matern32, Matern52)}
_UNBOUNDED = (Linear.name, Polynomial.name)
_WITH_BANDWIDTH = (*_OF_DISTANCE, Polynomial.name)
TEXT_KERNELS = (Spectrum.name, Subsequence.name)
KERNELS = (*_WITH_BANDWIDTH, Linear.name, Cosine.name, *TEXT_KERNELS)


@dataclass(frozen=True)
class KernelOptions:
    """A kernel as asked for.

    `kernel` and `bandwidth` are for all groups, or mappings from their names ("" is the default of those not
    named). A bandwidth is a number, "median", or "0.5*median"; several of them, separated by commas,
    make a mean of Gaussians. "auto" is the median and, for a Gaussian kernel of all columns, finer ones if
    rows lie in clumps far below it; groups and other kernels have but one. `groups` are the names of column
    groups and of their columns.
    """

    kernel: str | Mapping[str, str] = Gaussian.name
    bandwidth: str | Mapping[str, str] = AUTO
    degree: int = 2
    offset: float = 1.0
    length: int = 3
    decay: float = 0.5
    groups: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        for option in (self.kernel, self.bandwidth):
            if isinstance(option, Mapping):
                for name in option:
                    if name and name not in (self.groups or {}):
                        raise UsageError(f"{name}={option[name]}: `groups` has no {name!r}")
        for group in self.groups or {"": ()}:
            name, bandwidth = self._of(group)
            if name not in KERNELS:
                raise UsageError(f"`kernel` must be one of {', '.join(KERNELS)}, not {name!r}")
            if name in TEXT_KERNELS and self.groups:
                raise UsageError(f"the {name} kernel takes one text column, not groups of columns")
            terms = parse_bandwidth(bandwidth)
            if len(terms) > 1 and name != Gaussian.name:
                raise UsageError(f"several bandwidths need the gaussian kernel, not {name}")
            if name not in _WITH_BANDWIDTH and bandwidth not in (AUTO, MEDIAN):
                raise UsageError(f"the {name} kernel has no bandwidth")
        # The parameters are checked by those that have them, whatever the bandwidth will be.
        Polynomial(1.0, self.degree, self.offset)
        Subsequence(self.length, self.decay)

    @property
    def text(self) -> bool:
        """Whether the kernel is one of strings."""
        return not self.groups and self._of("")[0] in TEXT_KERNELS

    def _of(self, group: str) -> tuple[str, str]:
        """Return kernel and bandwidth of a group."""
        return _for_group(self.kernel, group, Gaussian.name), _for_group(self.bandwidth, group, AUTO)

    def bounded(self, widths: Mapping[str, int]) -> NDArray[np.bool_]:
        """Tell for each feature whether its kernel has a bound, however far out a row is."""
        if not self.groups:
            return np.full(sum(widths.values()), self._of("")[0] not in _UNBOUNDED)
        parts = [
            np.full(sum(widths[column] for column in columns), self._of(name)[0] not in _UNBOUNDED)
            for name, columns in self.groups.items()
        ]
        return np.concatenate(parts)

    def fit(self, rows: Rows, widths: Mapping[str, int], seed: int) -> Kernel:
        """Return the kernel for scaled pilot rows; `widths` are those of their columns, in order."""
        if not self.groups:
            return self._fit_one("", rows, seed)
        parts, start = [], 0
        for name, columns in self.groups.items():
            stop = start + sum(widths[column] for column in columns)
            parts.append(Group(name, start, stop, self._fit_one(name, rows[:, start:stop], seed)))
            start = stop
        return Product(tuple(parts))

    def _fit_one(self, group: str, rows: Rows, seed: int) -> Kernel:
        name, text = self._of(group)
        if name == Linear.name:
            return Linear()
        if name == Cosine.name:
            return Cosine()
        if name == Spectrum.name:
            return Spectrum(self.length)
        if name == Subsequence.name:
            return Subsequence(self.length, self.decay)
        if text == AUTO and name == Gaussian.name and not self.groups:
            found = auto_bandwidths(rows, seed)
            return GaussianSum(found) if len(found) > 1 else Gaussian(found[0])
        metric = LaplacianL1.metric if name == LaplacianL1.name else Gaussian.metric
        terms = parse_bandwidth(text)
        median = median_distance(rows, seed, metric=metric) if any(term.of_median for term in terms) else 1.0
        widths = tuple(term.factor * (median if term.of_median else 1.0) for term in terms)
        if name == Polynomial.name:
            return Polynomial(widths[0], self.degree, self.offset)
        return GaussianSum(widths) if len(widths) > 1 else _OF_DISTANCE[name](widths[0])


def _for_group(option: str | Mapping[str, str], group: str, default: str) -> str:
    if isinstance(option, str):
        return option
    return option.get(group, option.get("", default))


@dataclass(frozen=True)
class _Bandwidth:
    factor: float
    of_median: bool


def parse_bandwidth(text: str) -> list[_Bandwidth]:
    """Read `median`, `2.5`, `0.5*median`, or several of these separated by commas.

    `auto` is read as `median`: whether that suffices is decided when there are rows.
    """
    if text == AUTO:
        text = MEDIAN
    return [_parse_term(term.strip()) for term in text.split(",")]


def _parse_term(term: str) -> _Bandwidth:
    match = re.fullmatch(r"(?:(?P<factor>[^*]+)\*)?median|(?P<number>[^*]+)", term)
    factor = None if match is None else match["number"] or match["factor"] or "1"
    try:
        value = float(factor) if factor is not None else -1.0
    except ValueError:
        value = -1.0
    if match is None or not 1e-50 < value < 1e50:
        raise UsageError(
            "`bandwidth` must be 'auto', 'median', a positive number, a multiple such as '0.5*median', or "
            f"several of these separated by commas; not {term!r}"
        )
    return _Bandwidth(value, of_median=match["number"] is None)


def kernel_from_description(description: Mapping[str, Any]) -> Kernel:
    """Rebuild a kernel from what `describe` returned; raise ValueError or a kin if it is none."""
    name = description["name"]
    if name in _OF_DISTANCE:
        return _OF_DISTANCE[name](_number(description["bandwidth"]))
    if name == "gaussian-sum":
        return GaussianSum(tuple(_number(value) for value in description["bandwidths"]))
    if name == Polynomial.name:
        bandwidth, offset = _number(description["bandwidth"]), _number(description["offset"])
        return Polynomial(bandwidth, _whole(description["degree"]), offset)
    if name == Linear.name:
        return Linear()
    if name == Cosine.name:
        return Cosine()
    if name == Spectrum.name:
        return Spectrum(_whole(description["length"]))
    if name == Subsequence.name:
        return Subsequence(_whole(description["length"]), _number(description["decay"]))
    if name == Product.name:
        return Product(tuple(_group(part) for part in description["groups"]))
    raise ValueError(f"unknown kernel {name!r}: written by a newer nysketch?")


def _group(description: Mapping[str, Any]) -> Group:
    start, stop = description["features"]
    if description["kernel"]["name"] in (Product.name, *TEXT_KERNELS):
        raise ValueError("a group cannot have such a kernel")
    kernel = kernel_from_description(description["kernel"])
    return Group(str(description["name"]), _whole(start), _whole(stop), kernel)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise ValueError("a parameter of its kernel is not a number")
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("a parameter of its kernel is not an integer")
    return value
