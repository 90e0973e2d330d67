"""The matrix product of a tile: rows times landmarks, every number by the same sequence of roundings.

BLAS does not promise that a scalar product is rounded alike wherever its row and its landmark are in their
matrices, and OpenBLAS (0.3.31) does not do so. Its float32 kernels for AVX2 add up in another order at some
places of a tile, from 8 features on, in half of the shapes tried; its float64 kernels for AVX-512 do at
m = 500. The same row then has other last bits in another batch.

Here every number is ((x₀z₀ + x₁z₁) + x₂z₂) + …, rounded once per term where the processor has a fused
multiply-add, whatever the height of the tile and however the work is cut. OpenBLAS happens to round like this
in float32 on AVX-512 (m ≥ 8, up to 448 features) and in float64 on AVX2 (m ≥ 2, up to 256): there, the bits
are the same.

The loops are those of K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM
Trans. Math. Softw. 34 (2008): the sums of a block of rows and landmarks stay in registers, and the landmarks
of a block lie together. GFlop/s in float32 on one core of an EPYC (Zen 5), tiles as in sizes.py, best of 160
runs; both with AVX2 (OPENBLAS_CORETYPE=Haswell), then both with AVX-512 (SkylakeX):

    m      d    OpenBLAS   here    OpenBLAS   here
    1000   2          60     87         120    107
    1000   10        101    133         206    216
    1000   50        124    141         214    265
    500    10        102    132         207    211
    130    10        100    124         204    195
    4000   10         93    134         192    209
    1000   200       130    140         233    275
    200    1000      136    139         245    269

With AVX2, whole passes with Gaussian kernels took 0.80 to 0.97 times as long as with OpenBLAS; with AVX-512,
0.84 to 1.02 times, because at d = 2 the exponential takes most of the time. Worst were a linear kernel with
AVX-512 at m = 1000, d = 2, 1.1 times as long, and Gaussian kernels at m = 5, 1.17 times: a register holds
more numbers than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numpy.typing import NDArray

from nysketch._support.jit import compiled


def _register_bytes() -> int:
    """Return the width of vector registers. A wrong guess would cost speed only."""
    chosen = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    features = (get_host_cpu_features() if chosen is None else chosen).split(",")
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


_REGISTER_BYTES = _register_bytes()
# The rows of a block. With three strips of landmarks, their sums take 12 of 16 registers, or with AVX-512 24
# of 32; 4 rows were a fifth slower there at m = 1000, d = 10.
_ROWS = 8 if _REGISTER_BYTES == 64 else 4
# Features at a time, so that the landmarks of a block stay in the first-level cache: without, 4,000 features
# took 1.5 times as long. Sums continue from where they are in the tile, which leaves their bits alone.
_DEPTH = 256


@dataclass(frozen=True)
class Marks:
    """What sums begin with, instead of 0: a number for each category in which a row and a column differ.

    `differs` tells for each code of each category, one after the other, which columns have another one.
    Of ten categories of 50 values and 1,000 landmarks, bits take 65 kB, and as long as 1.5 products of ten
    numbers. Tables of float32, added to the tile after the product, took 2 MB, and as long as ten.
    """

    differs: NDArray[np.bool_]  # codes × columns
    numbers: NDArray[Any]  # one for each category


class _Elements:
    """The addresses of the elements of an array, in the code of an intrinsic."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self._builder = builder
        self._pointer = array.data.type
        self._start = builder.bitcast(array.data, cgutils.voidptr_t)
        self._strides = cgutils.unpack_tuple(builder, array.strides)
        self.shape = cgutils.unpack_tuple(builder, array.shape)

    def at(self, *indices: Any) -> Any:
        """Return the address of an element; indices left out are 0."""
        address = self._start
        for index, stride in zip(indices, self._strides, strict=False):
            address = self._builder.gep(address, [self._builder.mul(index, stride)])
        return self._builder.bitcast(address, self._pointer)


class _Vectors:
    """Loads, stores and multiplies registers of numbers, in the code of an intrinsic."""

    def __init__(self, context: Any, builder: Any, number: Any) -> None:
        self._builder = builder
        self._bytes = number.bitwidth // 8
        self.lanes = _REGISTER_BYTES // self._bytes
        self.kind = ir.VectorType(context.get_value_type(number), self.lanes)
        # Fused where the processor can do it. Elsewhere `llvm.fma` would be a function call per number.
        self._multiply_add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(self.kind, [self.kind] * 3),
            f"llvm.fmuladd.v{self.lanes}f{number.bitwidth}",
        )

    def load(self, address: Any) -> Any:
        return self._builder.load(self._pointer(address), align=self._bytes)

    def store(self, vector: Any, address: Any) -> None:
        self._builder.store(vector, self._pointer(address), align=self._bytes)

    def repeat(self, address: Any) -> Any:
        """Return a register full of the number at an address."""
        undefined, first = ir.Constant(self.kind, ir.Undefined), ir.IntType(32)(0)
        vector = self._builder.insert_element(undefined, self._builder.load(address), first)
        positions = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self._builder.shuffle_vector(vector, undefined, positions)

    def add_where(self, bits: Any, number: Any, total: Any) -> Any:
        """Return the sum where bits are set, and elsewhere the total."""
        mask = self._builder.bitcast(
            self._builder.trunc(bits, ir.IntType(self.lanes)), ir.VectorType(ir.IntType(1), self.lanes)
        )
        return self._builder.select(mask, self._builder.fadd(total, number), total)

    def multiply_add(self, a: Any, b: Any, total: Any) -> Any:
        return self._builder.call(self._multiply_add, [a, b, total])

    def _pointer(self, address: Any) -> Any:
        return self._builder.bitcast(address, self.kind.as_pointer())


def _block(n_strips: int) -> Any:
    """Return a compiled function that multiplies _ROWS rows, from `row` on, with strips, from `strip` on.

    It adds the features from `start` to `stop` to what is in the tile, or to what marks say if `start` is 0.
    """

    def write(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        rows, strips, tile, places, differs, numbers = (
            _Elements(context, builder, signature.args[k], args[k]) for k in (0, 2, 6, 7, 8, 9)
        )
        row, strip, start, stop = args[1], args[3], args[4], args[5]
        integer = context.get_value_type(types.intp)
        vectors = _Vectors(context, builder, signature.args[0].dtype)
        rows_here = [builder.add(row, integer(i)) for i in range(_ROWS)]
        strips_here = [builder.add(strip, integer(s)) for s in range(n_strips)]
        # The last strip ends where the tile ends, and may begin inside the one before.
        last = builder.sub(tile.shape[1], integer(vectors.lanes))
        columns = [builder.mul(s, integer(vectors.lanes)) for s in strips_here]
        columns = [builder.select(builder.icmp_signed("<", c, last), c, last) for c in columns]
        cells = [
            (i, s, tile.at(rows_here[i], columns[s]), cgutils.alloca_once(builder, vectors.kind))
            for i in range(_ROWS)
            for s in range(n_strips)
        ]
        with builder.if_else(builder.icmp_signed("==", start, integer(0))) as (begin, go_on):
            with begin:
                for _, _, _, total in cells:
                    builder.store(ir.Constant(vectors.kind, [0.0] * vectors.lanes), total)
                with cgutils.for_range(builder, numbers.shape[0]) as marks:
                    number = vectors.repeat(numbers.at(marks.index))
                    codes = [builder.load(places.at(i, marks.index)) for i in rows_here]
                    codes = [builder.sext(code, integer) for code in codes]
                    for i, s, _, total in cells:
                        bits = builder.load(differs.at(codes[i], strips_here[s]))
                        builder.store(vectors.add_where(bits, number, builder.load(total)), total)
            with go_on:
                for _, _, target, total in cells:
                    builder.store(vectors.load(target), total)
        with cgutils.for_range(builder, stop, start) as loop:
            x = [vectors.repeat(rows.at(i, loop.index)) for i in rows_here]
            z = [vectors.load(strips.at(s, loop.index)) for s in strips_here]
            for i, s, _, total in cells:
                builder.store(vectors.multiply_add(x[i], z[s], builder.load(total)), total)
        for _, _, target, total in cells:
            vectors.store(builder.load(total), target)
        return context.get_dummy_value()

    @intrinsic
    def block(
        typing_context: Any, rows: Any, row: Any, strips: Any, strip: Any, start: Any, stop: Any, tile: Any,
        places: Any, differs: Any, numbers: Any,
    ) -> Any:  # fmt: skip
        assert rows.dtype == strips.dtype == tile.dtype == numbers.dtype
        assert places.dtype == types.int32 and differs.dtype == types.uint16
        assert strips.layout == tile.layout == "C"
        integers = (types.intp, types.intp, types.intp)
        return types.void(rows, types.intp, strips, *integers, tile, places, differs, numbers), write

    return block


_one_strip, _two_strips, _three_strips = _block(1), _block(2), _block(3)


@compiled()
def _multiply(rows, strips, m, tile, places, differs, numbers):
    """Write the products of all rows and strips, block by block, to a tile of `m` columns."""
    n, count = len(tile), len(strips)
    if places.shape != (n, len(numbers)) or (len(numbers) > 0 and differs.shape[1] != count):
        raise ValueError("the marks of rows and columns do not match")
    # Blocks do not look where they write.
    if rows.shape != (n, strips.shape[1]) or tile.shape[1] != m or n % _ROWS != 0:
        raise ValueError("rows, matrix and tile of a product do not match")
    # Three strips at a time. At the end, twice two rather than three and one: the last strip must share a
    # block with the one that it overlaps, for the sums of both to continue from the same numbers.
    pairs = 0 if count == 1 else -count % 3
    threes = (count - 2 * pairs) // 3
    for start in range(0, rows.shape[1], _DEPTH):
        stop = min(start + _DEPTH, rows.shape[1])
        if count == 1:
            for i in range(0, n, _ROWS):
                _one_strip(rows, i, strips, 0, start, stop, tile, places, differs, numbers)
            continue
        for strip in range(0, 3 * threes, 3):
            for i in range(0, n, _ROWS):
                _three_strips(rows, i, strips, strip, start, stop, tile, places, differs, numbers)
        for strip in range(3 * threes, count, 2):
            for i in range(0, n, _ROWS):
                _two_strips(rows, i, strips, strip, start, stop, tile, places, differs, numbers)


class TileProduct:
    """Multiplies tiles of rows with one matrix of columns: landmarks, or frequencies.

    Shared by threads, never written.
    """

    def __init__(self, matrix: NDArray[Any], marks: Marks | None = None) -> None:
        depth, self._m = matrix.shape
        lanes = _REGISTER_BYTES // matrix.itemsize
        self._padded = max(self._m, lanes)
        padded = np.zeros((depth, self._padded), matrix.dtype)
        padded[:, : self._m] = matrix
        # Strips have as many columns as a register has numbers; the last one ends with the matrix.
        last = self._padded - lanes
        starts = [*range(0, last, lanes), last]
        self._strips = np.stack([padded[:, at : at + lanes] for at in starts])
        if marks is None:
            marks = Marks(np.zeros((0, self._m), bool), np.zeros(0))
        differs = np.zeros((len(marks.differs), self._padded), np.uint16)
        differs[:, : self._m] = marks.differs
        bits = np.left_shift(1, np.arange(lanes)).astype(np.uint16)
        self._differs = np.column_stack([differs[:, at : at + lanes] @ bits for at in starts])
        self._numbers = marks.numbers.astype(matrix.dtype)

    def __call__(
        self, rows: NDArray[Any], tile: NDArray[Any], places: NDArray[np.int32] | None = None
    ) -> None:
        """Write `rows @ matrix` to the tile, which must be contiguous and some multiple of 8 rows high.

        `places` says which of the marks each row has, one of every category.
        """
        if places is None:
            places = np.zeros((len(tile), 0), np.int32)
        marks = places, self._differs, self._numbers
        if self._padded == self._m:
            _multiply(rows, self._strips, self._m, tile, *marks)
        else:
            padded = np.empty((len(tile), self._padded), tile.dtype)
            _multiply(rows, self._strips, self._padded, padded, *marks)
            tile[:] = padded[:, : self._m]
