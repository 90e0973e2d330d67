"""From what a file holds to a basis."""

from __future__ import annotations

from typing import Any

from nysketch._support.string_arrays import text_from_arrays
from nysketch._types import Arrays
from nysketch.basis.base import Basis
from nysketch.basis.fourier import FourierBasis
from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import Column
from nysketch.kernels import kernel_from_description


def basis_from_parts(description: dict[str, Any], arrays: Arrays) -> Basis:
    """Rebuild a basis from what `describe` and `arrays` returned."""
    columns = tuple(
        Column.from_description(*entry, arrays=_under(f"basis.kinds.{i}.", arrays))
        for i, entry in enumerate(description["columns"])
    )
    common: dict[str, Any] = {
        "columns": columns,
        "scaling": str(description["scaling"]),
        "center": arrays["basis.center"],
        "scale": arrays["basis.scale"],
        "kernel": kernel_from_description(description["kernel"]),
        "origin": dict(description["origin"]),
    }
    basis: Basis
    if "frequencies" in description:
        draw = str(description["frequencies"])
        basis = FourierBasis(**common, frequencies=arrays["basis.frequencies"], draw=draw)
        shapes = [basis.frequencies.shape[1:]]
    elif columns[0].text:
        basis = NystromBasis(**common, landmarks=text_from_arrays("basis.landmarks", arrays))
        shapes = []
    else:
        basis = NystromBasis(**common, landmarks=arrays["basis.landmarks"])
        shapes = []
        if basis.landmarks.shape[1:] != (basis.width,):
            raise ValueError(f"landmarks of shape {basis.landmarks.shape} do not match {basis.width} numbers")
    shapes += [basis.center.shape, basis.scale.shape]
    if any(shape != (basis.d,) for shape in shapes):
        raise ValueError(f"arrays of shapes {shapes} do not match {basis.d} features")
    return basis


def _under(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin so, without the beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
