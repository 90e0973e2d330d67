"""Exponential, cosine, sine and maximum, branch-free, so that loops over them vectorise.

They become part of the compiled loops of other modules, whose kept machine code does not notice when this
file changes: delete `__pycache__` then, as scripts/test does.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# 2**f on [-½, ½], least-squares fit of the relative error at Chebyshev nodes: 8e-8 at most.
_C0, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (1.00000007, 0.69314695, 0.24022122, 0.05550743, 0.00967546, 0.0013267)
)
_ROUND = np.float32(12582912.0)  # 1.5 · 2**23: adding it leaves the nearest integer in the low bits
_MANTISSA_BITS = np.int32(23)

LOWEST = np.float32(-126.0)  # below it float32 has no normal numbers


def _reinterpret(source: Any, target: Any) -> Any:
    """Return a function that takes the bits of a number for those of another type."""

    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), codegen

    return cast


_float_bits, _bits_float = _reinterpret(types.float32, types.int32), _reinterpret(types.int32, types.float32)
_double_bits, _bits_double = (
    _reinterpret(types.float64, types.int64),
    _reinterpret(types.int64, types.float64),
)


@numba.njit(inline="always")
def exp2(t):
    """2**t for float32 |t| ≤ 126, to 2.3e-7."""
    shifted = t + _ROUND
    f = t - (shifted - _ROUND)
    p = ((((_C5 * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _C0
    return _bits_float(np.int32(_float_bits(p) + (_float_bits(shifted) << _MANTISSA_BITS)))


# The same in float64: Taylor's series of 2**f, whose first term left out is 2e-16 at |f| = ½.
_TAYLOR = tuple(float(np.log(2.0) ** k / math.factorial(k)) for k in range(13))
_ROUND_DOUBLE = 1.5 * 2.0**52
_DOUBLE_MANTISSA_BITS = np.int64(52)

LOWEST_DOUBLE = -1022.0


@numba.njit(inline="always")
def exp2_double(t):
    """2**t for float64 |t| ≤ 1022, to the last digit or two."""
    shifted = t + _ROUND_DOUBLE
    f = t - (shifted - _ROUND_DOUBLE)
    p = _TAYLOR[12]
    p = p * f + _TAYLOR[11]
    p = p * f + _TAYLOR[10]
    p = p * f + _TAYLOR[9]
    p = p * f + _TAYLOR[8]
    p = p * f + _TAYLOR[7]
    p = p * f + _TAYLOR[6]
    p = p * f + _TAYLOR[5]
    p = p * f + _TAYLOR[4]
    p = p * f + _TAYLOR[3]
    p = p * f + _TAYLOR[2]
    p = p * f + _TAYLOR[1]
    p = p * f + _TAYLOR[0]
    return _bits_double(np.int64(_double_bits(p) + (_double_bits(shifted) << _DOUBLE_MANTISSA_BITS)))


# sin(2πg) / g as a polynomial in g², for g up to ¼: as good as float32.
_S0, _S1, _S2, _S3, _S4 = (np.float32(c) for c in (6.2831855, -41.341682, 81.60253, -76.581696, 39.759613))
_QUARTER, _HALF = np.float32(0.25), np.float32(0.5)


@numba.njit(inline="always")
def _sine_up_to_a_quarter(g):
    u = g * g
    return ((((_S4 * u + _S3) * u + _S2) * u + _S1) * u + _S0) * g


@numba.njit(inline="always")
def cosine_of_turns(f):
    """Return cos(2πf) for float32 |f| ≤ ½, to 2e-7."""
    return _sine_up_to_a_quarter(_QUARTER - abs(f))


@numba.njit(inline="always")
def sine_of_turns(f):
    """Return sin(2πf) for float32 |f| ≤ ½, to 2e-7."""
    size = abs(f)
    folded = min(size, _HALF - size)
    return _sine_up_to_a_quarter(folded if f >= 0 else -folded)


@intrinsic
def _maximum(typing_context: Any, a: Any, b: Any) -> Any:
    """Call the processor's maximum."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        function = builder.module.declare_intrinsic("llvm.maxnum", [kind], ir.FunctionType(kind, [kind] * 2))
        return builder.call(function, args, fastmath=("nnan", "nsz"))

    return types.float32(types.float32, types.float32), codegen


@numba.njit(inline="always")
def larger(a, b):
    """Return the larger of two float32 numbers; `max` looks for NaN, and loops over it do not vectorise."""
    return _maximum(a, b)  # type: ignore[call-arg]
