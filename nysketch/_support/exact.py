"""Sums that do not depend on the order of their terms, bit for bit.

Floating-point addition is not associative, so a sum over a million fragments usually depends on which
thread finished first. Here every term is first rounded to a fixed grid (a power of two far below its
own precision); sums of grid points are then exact in pairs of float64 (`high + low`, 106 bits), and
exact addition is associative and commutative. Any number of threads, any order of merging, and
subtraction after addition give the same bits, with no bookkeeping at all.

The pair is canonical: `high` is the float64 nearest to the sum and `low` is what is left. Sums stay
exact up to 2**105 times the grid; beyond that they merely stay accurate to 1e-30.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch._types import Arrays, Floats


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Knuth's error-free transformation: a + b = total + error, exactly. For arrays and for numbers."""
    total = a + b
    b_seen = total - a
    error = (a - (total - b_seen)) + (b - b_seen)
    return total, error


@dataclass(frozen=True, eq=False)
class ExactSum:
    """An array of exact sums, as canonical pairs of float64."""

    high: Floats
    low: Floats

    @classmethod
    def zeros(cls, shape: int | tuple[int, ...]) -> ExactSum:
        """Return the neutral element."""
        return cls(np.zeros(shape), np.zeros(shape))

    @classmethod
    def of(cls, terms: Floats, *, grid_exponent: int) -> ExactSum:
        """Round `terms` to multiples of 2**grid_exponent: what makes adding them exact."""
        # A term beyond 2**(52 + grid_exponent) is on the grid already, and rint leaves it alone.
        # Adding 0.0 turns -0.0 into 0.0, so that equal sums have equal bytes.
        rounded = np.ldexp(np.rint(np.ldexp(terms, -grid_exponent)), grid_exponent) + 0.0
        return cls(rounded, np.zeros_like(rounded))

    def __add__(self, other: ExactSum) -> ExactSum:
        total, error = two_sum(self.high, other.high)
        high, low = two_sum(total, error + (self.low + other.low))
        return ExactSum(high + 0.0, low + 0.0)

    def __neg__(self) -> ExactSum:
        return ExactSum(0.0 - self.high, 0.0 - self.low)

    def __sub__(self, other: ExactSum) -> ExactSum:
        return self + -other

    def total(self) -> ExactSum:
        """Sum over the first axis, exactly."""
        result = ExactSum.zeros(self.high.shape[1:])
        for high, low in zip(self.high, self.low, strict=True):
            result = result + ExactSum(np.asarray(high), np.asarray(low))
        return result

    def arrays(self, name: str) -> Arrays:
        """Return what a file stores: `low` in the smallest type that holds it, or not at all if it is 0."""
        arrays: Arrays = {name: self.high}
        if self.low.any():
            with np.errstate(over="ignore"):  # sums of kernels without a bound
                short = self.low.astype(np.float32)
            arrays[f"{name}.low"] = short if np.array_equal(short, self.low) else self.low
        return arrays

    @classmethod
    def from_arrays(cls, name: str, arrays: Arrays) -> ExactSum:
        """Rebuild from what `arrays` returned."""
        high = arrays[name]
        low = arrays.get(f"{name}.low")
        low = np.zeros_like(high) if low is None else low.astype(np.float64)
        if low.shape != high.shape:
            raise ValueError(f"{name} has shape {high.shape}, its low part {low.shape}")
        return cls(high, low)

    def check(self, name: str) -> None:
        """Raise ValueError unless these are finite sums in canonical form, as a file may hold anything."""
        if self.high.dtype != np.float64 or not np.isfinite(self.high).all():
            raise ValueError(f"{name} holds values that are not finite numbers")
        with np.errstate(over="ignore"):  # a hostile low part
            if not np.array_equal(self.high + self.low, self.high):
                raise ValueError(f"{name} is not in canonical form")
