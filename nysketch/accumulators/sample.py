"""RowSample: a bounded uniform sample of all rows, which can be added and subtracted like the sums.

Every row has a key, a hash of its input and its number in it (tiles/hashing.py). The sample is all rows
whose key is at most `bound`, and the bound is as large as `capacity` rows allow. Which rows these are does
not depend on who read them when; of two samples, all rows below the smaller bound are a sample of the
union; and the rows of a part can be found by key and content, and taken away.

Numbers are kept scaled, relative to the middle of the landmarks, and in float32: the sample says how good a
sketch is, it does not store data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nysketch._support.string_arrays import text_arrays, text_from_arrays
from nysketch._types import Arrays, Floats, Rows
from nysketch.accumulators.grids import LARGEST_WEIGHT
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, RunningValue, Statistic
from nysketch.basis.base import Basis
from nysketch.basis.quality import MEASURED_STRINGS

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.chunk import Chunk
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation

LARGEST_KEY = 2**63 - 1

# What float32 may do to a row, relative to it.
_ROUNDING = 1e-6

# Numbers that are scaled together: 2 MiB, which the cache nearly holds.
_VALUES_AT_A_TIME = 1 << 18

# So many rows tell a mean residual to 2 %, and take 80 kB of the file at 10 features; of wide rows a
# smaller sample must do.
DEFAULT_ROWS = 2000
_DEFAULT_BYTES = 8 << 20
_FEWEST = 200


# So many rows tell what chance does far better than anybody needs; and of so few, all are there.
DEFAULT_SHUFFLED_ROWS = 50_000


def default_sample_rows(d: int, *, text: bool = False) -> int:
    """Return how many rows of d features to keep, or strings that take as much as d numbers."""
    return int(np.clip(_DEFAULT_BYTES // (4 * d), _FEWEST, MEASURED_STRINGS if text else DEFAULT_ROWS))


def default_shuffled_rows(d: int) -> int:
    """Return how many rows of d features to keep for permutations: fewer if they are wide."""
    return min(DEFAULT_SHUFFLED_ROWS, _DEFAULT_BYTES // (4 * d + 8))


def rows_to_sample(options: PassOptions, d: int, *, text: bool, features: str, groups: int) -> int:
    """Return how many rows to sample, of d numbers each: to measure quality by, and to permute."""
    # Who wants Fourier features may want them for holding no rows.
    usual = 0 if features == "fourier" else default_sample_rows(d, text=text)
    rows = usual if options.sample_rows is None else options.sample_rows
    if groups < 2 or not options.shuffles:
        return rows
    return max(rows, default_shuffled_rows(d) if options.shuffle_rows is None else options.shuffle_rows)


@dataclass(frozen=True, eq=False)
class RowSample(Statistic):
    """The rows with the smallest keys, in the order of their keys."""

    keys: NDArray[np.int64]
    rows: Rows  # rows × features, in float32 if not said otherwise; or strings
    weights: Floats | None
    bound: int
    capacity: int

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return the sample of no rows, with room for as many as suit the basis."""
        rows = rows_to_sample(
            options,
            basis.row_width,
            text=basis.text,
            features=basis.feature_map,
            groups=len(basis.groups),
        )
        return cls.empty(rows, basis.d, text=basis.text, weighted=options.weighted)

    @classmethod
    def empty(cls, capacity: int, d: int, *, text: bool, weighted: bool, dtype: Any = np.float32) -> Self:
        """Return the sample of no rows."""
        rows: Rows = np.empty(0, object) if text else np.empty((0, d), dtype)
        return cls(np.empty(0, np.int64), rows, np.empty(0) if weighted else None, LARGEST_KEY, capacity)

    @classmethod
    def of(
        cls,
        keys: NDArray[np.int64],
        rows: Rows,
        weights: Floats | None,
        *,
        bound: int,
        capacity: int,
        dtype: Any = np.float32,
    ) -> Self:
        """Sample rows: all that have a key up to `bound`."""
        if rows.dtype != object:
            largest = float(np.finfo(dtype).max)
            rows = rows if rows.dtype == dtype else np.clip(rows, -largest, largest).astype(dtype)
        return cls(keys, rows, weights, bound, capacity)._sorted_and_cut()

    def __len__(self) -> int:
        return len(self.keys)

    def scaled(self, middle: Floats) -> Rows:
        """Return the rows as they were before they were moved to the middle; strings never were."""
        return self.rows if self.rows.dtype == object else self.rows.astype(np.float64) + middle

    def _cut(self) -> Self:
        """Drop rows beyond the bound, and lower it until no more than `capacity` rows are left."""
        bound, count = self.bound, int(np.searchsorted(self.keys, self.bound, side="right"))
        if count > self.capacity:
            # Below the first that does not fit: of rows with equal keys, all or none are in the sample.
            bound = int(self.keys[self.capacity]) - 1
            count = int(np.searchsorted(self.keys, bound, side="right"))
        return self._only(slice(count), bound)

    def _only(self, which: Any, bound: int) -> Self:
        weights = None if self.weights is None else self.weights[which]
        return type(self)(self.keys[which], self.rows[which], weights, bound, self.capacity)

    @classmethod
    def union(cls, samples: Sequence[Self]) -> Self:
        """Return the sample of all rows that any of them represents."""
        weights = None
        if all(sample.weights is not None for sample in samples):
            weights = np.concatenate([sample.weights for sample in samples])
        return cls(
            np.concatenate([sample.keys for sample in samples]),
            np.concatenate([sample.rows for sample in samples]),
            weights,
            min(sample.bound for sample in samples),
            min(sample.capacity for sample in samples),
        )._sorted_and_cut()

    def __add__(self, other: Self) -> Self:
        return self.union([self, other])

    def __sub__(self, other: Self) -> Self:
        """Take away the rows of `other`: those of them that are in this sample are in theirs, too."""
        # A row counted twice and subtracted once stays.
        theirs = Counter(other._identities())
        kept = []
        for row in self._identities():
            kept.append(not theirs[row])
            theirs[row] -= not kept[-1]
        left = self._only(np.array(kept, bool), self.bound)
        bound, capacity = min(self.bound, other.bound), min(self.capacity, other.capacity)
        return type(self)(left.keys, left.rows, left.weights, bound, capacity)._cut()

    def _sorted_and_cut(self) -> Self:
        """Sort by key; rows of equal keys by content, so that the order of merging has no effect.

        Keys are equal where a file was counted twice, or for tables in memory that begin alike.
        """
        result = self._only(np.argsort(self.keys, kind="stable"), self.bound)
        if (np.diff(result.keys) == 0).any():
            rows = list(result._identities())
            result = result._only(sorted(range(len(rows)), key=rows.__getitem__), self.bound)
        return result._cut()

    def _identities(self) -> Iterator[tuple[int, Any, float]]:
        """Yield what tells rows apart."""
        contents = self.rows if self.rows.dtype == object else (row.tobytes() for row in self.rows)
        weights = np.ones(len(self)) if self.weights is None else self.weights
        return zip(self.keys.tolist(), contents, weights.tolist(), strict=True)

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return its limits."""
        return {"sample": self.limits()}

    def limits(self) -> dict[str, int]:
        """Return everything but the arrays."""
        return {"bound": self.bound, "capacity": self.capacity}

    def arrays(self, name: str = "sample") -> Arrays:
        """Return what the sketch file stores."""
        if not self.capacity:
            return {}
        arrays: Arrays = {f"{name}.keys": self.keys}
        rows = f"{name}.rows"
        arrays |= text_arrays(rows, self.rows) if self.rows.dtype == object else {rows: self.rows}
        return arrays if self.weights is None else arrays | {f"{name}.weights": self.weights}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `describe` and `arrays` returned; files of format version 1 have no sample."""
        limits = description.get("sample", {"bound": LARGEST_KEY, "capacity": 0})
        return cls.from_arrays(limits, arrays, basis.d, text=basis.text, weighted=weighted)

    @classmethod
    def from_arrays(
        cls,
        limits: dict[str, Any],
        arrays: Arrays,
        d: int,
        *,
        text: bool,
        weighted: bool,
        name: str = "sample",
        dtype: Any = np.float32,
    ) -> Self:
        """Rebuild from what `limits` and `arrays` returned; raise ValueError if it can be no sample."""
        bound, capacity = limits["bound"], limits["capacity"]
        if any(type(n) is not int or not 0 <= n <= LARGEST_KEY for n in (bound, capacity)):
            raise ValueError(f"the limits of its rows {name!r} are impossible")
        if not capacity:
            empty = cls.empty(0, d, text=text, weighted=weighted, dtype=dtype)
            return cls(empty.keys, empty.rows, empty.weights, bound, 0)
        keys = arrays[f"{name}.keys"]
        rows = text_from_arrays(f"{name}.rows", arrays) if text else arrays[f"{name}.rows"]
        weights = arrays[f"{name}.weights"] if weighted else None
        if keys.dtype != np.int64 or keys.ndim != 1 or len(keys) > capacity:
            raise ValueError(f"{name}.keys are impossible")
        # Not by differences: of hostile integers, these overflow.
        if len(keys) and (keys[0] < 0 or keys[-1] > bound or (keys[1:] < keys[:-1]).any()):
            raise ValueError(f"{name}.keys are out of order")
        if not text and (rows.dtype != dtype or rows.shape != (len(keys), d) or not np.isfinite(rows).all()):
            raise ValueError(f"{name}.rows are impossible")
        if text and len(rows) != len(keys):
            raise ValueError(f"{name}.rows do not match their keys")
        if weights is not None and (
            weights.dtype != np.float64
            or weights.shape != keys.shape
            or not (np.isfinite(weights) & (weights >= 0)).all()
        ):
            raise ValueError(f"{name}.weights are impossible")
        return cls(keys, rows, weights, bound, capacity)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be some of these rows; their form was checked before."""
        if self.weights is not None and (self.weights > LARGEST_WEIGHT).any():
            raise ValueError("sample.weights are impossible")
        # Rows that were subtracted may still be there, if they were read from another file.
        if not tally.exact:
            return
        if len(self) > tally.rows:
            raise ValueError("it has more sampled rows than rows")
        if self.rows.dtype == object or not len(self):
            return
        ranges = tally.ranges
        ends = basis.scaled_ends(ranges.lower, ranges.upper) - basis.middle
        smallest = float(np.finfo(self.rows.dtype).tiny)
        slack = _ROUNDING * (np.abs(ends) + np.abs(basis.middle)) + smallest
        largest = float(np.finfo(self.rows.dtype).max)  # farther rows were cut off
        lowest, highest = (ends[0] - slack[0]).clip(max=largest), (ends[1] + slack[1]).clip(min=-largest)
        if ((self.rows < lowest) | (self.rows > highest)).any():
            raise ValueError("its sampled rows are outside its column ranges")

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return the number of rows."""
        return {"sampled_rows": len(self)}

    def settings(self) -> dict[str, Any]:
        """Return the rows there is room for, as an option."""
        return {"sample_rows": self.capacity}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of the rows, with keys and orders besides them."""
        sampled = rows_to_sample(options, size.d, text=size.text, features=size.features, groups=size.groups)
        sample = (4 * size.d + 24) * (sampled if size.rows is None else min(sampled, size.rows))
        return Memory(fixed=4 * sample, per_thread=3 * sample, stored=sample)

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what samples the rows of chunks."""
        return lambda chunk_rows: _Collector(self, basis, chunk_rows)

    def running(self, basis: Basis, options: PassOptions) -> RunningValue:
        """Return a running total that starts from this."""
        return RunningValue(self)


class GatheredSample:
    """The sample of a fragment, gathered from those of its chunks."""

    def __init__(self, empty: RowSample) -> None:
        self._sample, self._more = empty, list[RowSample]()

    @property
    def bound(self) -> int:
        """No larger keys need to be added."""
        return self._sample.bound

    def add(self, part: RowSample) -> None:
        """Add the sample of a chunk."""
        self._more.append(part)
        if sum(map(len, self._more)) > self._sample.capacity:  # soon there are few in a chunk
            self.united()

    def united(self) -> RowSample:
        """Return the sample of all chunks so far."""
        self._sample, self._more = RowSample.union([self._sample, *self._more]), []
        return self._sample


class ChunkSampler:
    """Samples the rows of chunks; each thread has its own, for its buffers."""

    def __init__(self, basis: Basis, capacity: int, chunk_rows: int) -> None:
        self._basis, self._capacity = basis, capacity
        self._found, self._keys = np.empty(chunk_rows, np.int64), np.empty(chunk_rows, np.int64)

    def __call__(self, chunk: Chunk, key: int, bound: int) -> RowSample:
        """Return a sample of the rows of a chunk of the input `key`, of those with keys up to `bound`."""
        from nysketch.tiles.hashing import find_sample

        basis, capacity = self._basis, self._capacity
        # Without the user's seed: the same row must be found again when its file is subtracted.
        seed = np.uint64(key)
        count = find_sample(chunk.row_in_input, chunk.keep, seed, bound, self._found, self._keys)
        found, keys = self._found[:count], self._keys[:count]
        if count > capacity:  # at first, all of them: no need to look at the others
            bound = int(np.partition(keys, capacity)[capacity]) - 1
            found, keys = found[keys <= bound], keys[keys <= bound]
        taken = None if chunk.weights is None else chunk.weights[found]
        kept = chunk.rows[found]
        if not basis.text:
            kept = self._kept(kept)
        return RowSample.of(keys.copy(), kept, taken, bound=bound, capacity=capacity)

    def _kept(self, rows: Floats) -> NDArray[np.float32]:
        """Return rows as the sample has them, made a few at a time, which the cache holds."""
        basis, step = self._basis, max(_VALUES_AT_A_TIME // self._basis.d, 1)
        kept = np.empty((len(rows), basis.d), np.float32)
        largest = float(np.finfo(np.float32).max)
        with np.errstate(over="ignore"):
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                scaled = basis.transform(rows[part])
                scaled -= basis.middle
                kept[part] = np.clip(scaled, -largest, largest, out=scaled)
        return kept


class _Collector:
    def __init__(self, empty: RowSample, basis: Basis, chunk_rows: int) -> None:
        self._empty = empty
        self._of_chunk = ChunkSampler(basis, empty.capacity, chunk_rows)

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._limit = LARGEST_KEY if limit is None else limit
        self._sample = GatheredSample(self._empty)

    def add(self, chunk: EvaluatedChunk) -> None:
        if self._empty.capacity:
            bound = min(self._limit, self._sample.bound)
            self._sample.add(self._of_chunk(chunk.chunk, chunk.key, bound))

    def finish(self) -> RowSample:
        return self._sample.united()
