"""HDF5 files: a 2-D data set, or several 1-D ones as columns, in ranges that respect chunks.

A file from strangers may be hostile: it can link to other files, store data in other files, and declare
terabytes in a file of kilobytes. Only hard links are followed, and every refusal says why.

Chunks are decompressed whole. If the chunks that a row needs fit into memory together, they stay in HDF5's
cache for the batches to come. If they do not (tall and narrow ones), as many rows as memory allows are read
at once, since every read decompresses all of them again, and copied out batch by batch. Strings of variable
length are stored outside of the chunks and may have any length: they are read batch by batch.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import h5py
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError, option
from nysketch.kinds import Category, Text
from nysketch.sources.arrow import as_kept
from nysketch.sources.encoding import encode
from nysketch.sources.locations import Location
from nysketch.sources.protocol import PASS_BYTES, TEXT_ROWS, Batch, ReaderMemory, text_memory
from nysketch.sources.selection import TEXT, Field, names_of, shorten

_FRAGMENT_BYTES = 16 << 20
# HDF5 decompresses whole chunks: one of them is the least that can be held in memory.
_MAX_CHUNK_BYTES = 128 << 20
# What the cached chunks and the rows read at once may take together, unless a single chunk takes more.
_HELD_BYTES = 64 << 20
# About what rows read at once take that are no more than a batch (see passes/chunks.py).
_BATCH_BYTES, _BATCH_ROWS = 4 << 20, 2048
# gzip shrinks zeros about a thousandfold; beyond that the data are declared, not stored.
_MAX_RATIO = 2000
_MAX_OBJECTS = 10_000
# Of files that are not on this machine.
_BUFFER_BYTES = 1 << 18
# What a chunk holds of a string of variable length: its length and where it is. NumPy has pointers of 8.
_REFERENCE_BYTES = 16
# What h5py raises for damaged files, depending on which part is damaged.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError)


@dataclass(frozen=True)
class _Layout:
    """How the data sets of a table are stored: their rows, the largest chunk, and types."""

    fields: Mapping[str, Field]
    kept: Mapping[str, pa.DataType]
    rows: int
    row_bytes: int
    chunk_rows: int
    has_variable_strings: bool

    @classmethod
    def of(cls, datasets: Mapping[str, h5py.Dataset], keep: Sequence[str], location: Location) -> _Layout:
        """Return the layout of data sets that make up a table; those to `keep` pass through."""
        lengths = {name: dataset.shape[0] for name, dataset in datasets.items()}
        if len(set(lengths.values())) > 1:
            listed = shorten(f"{name} {rows:,}" for name, rows in lengths.items())
            raise SchemaError(f"{location}: data sets differ in length: {listed}")
        return cls(
            fields={name: _field(dataset) for name, dataset in datasets.items()},
            kept={name: _arrow_type(datasets[name], f"{location}, data set {name!r}") for name in keep},
            rows=next(iter(lengths.values())),
            row_bytes=max(sum(_row_bytes(dataset) for dataset in datasets.values()), 1),
            chunk_rows=max(d.chunks[0] if d.chunks else 1 for d in datasets.values()),
            has_variable_strings=any(_type(dataset)[0] == "O" for dataset in datasets.values()),
        )


@dataclass(frozen=True)
class _Cache:
    """HDF5's cache: of all chunks that a row needs, or of one chunk beside long reads.

    `beside_bytes` are for decompressing: a chunk as it is stored, and one that is not in the cache yet.
    """

    settings: Mapping[str, int]
    keeps_chunks: bool
    bytes: int
    beside_bytes: int
    long_read_bytes: int

    @classmethod
    def plan(cls, datasets: Sequence[h5py.Dataset]) -> _Cache:
        """Choose between the two by what fits into memory."""
        across = max(_chunks_across(dataset) for dataset in datasets)
        largest = max(_chunk_bytes(dataset) for dataset in datasets)
        needed = max(_chunks_across(dataset) * _chunk_bytes(dataset) for dataset in datasets)
        # Every open data set has a cache of its own.
        keeps_chunks = len(datasets) * needed <= _HELD_BYTES // 2
        size = needed if keeps_chunks else min(largest, _MAX_CHUNK_BYTES)
        return cls(
            # Chunks of the same hash push each other out: several slots for each.
            settings={"rdcc_nbytes": size, "rdcc_nslots": 4 * across + 521},
            keeps_chunks=keeps_chunks,
            bytes=len(datasets) * size if keeps_chunks else size,
            beside_bytes=largest + max(min(d.id.get_storage_size(), _chunk_bytes(d)) for d in datasets),
            long_read_bytes=max(_HELD_BYTES - size, _HELD_BYTES // 2),
        )


@dataclass(frozen=True)
class _Guard:
    """Opens a file from strangers, and refuses what is not stored in it unless `allow_external`."""

    location: Location
    allow_external: bool

    def open(self, cache: Mapping[str, int] | None = None) -> h5py.File:
        """Open the file, with settings of the cache of chunks."""
        try:
            return h5py.File(self.location.local_path or self._remote(), "r", **(cache or {}))
        except (OSError, pa.ArrowException) as error:
            what = "cannot read as HDF5 (truncated or damaged?)"
            raise self.location.trouble(what, error) from error

    def _remote(self) -> BinaryIO:
        # HDF5 asks for a few bytes here and there: one request for each would be slow.
        return io.BufferedReader(self.location.open_for_python(), _BUFFER_BYTES)

    def find(self, file: h5py.File, *, text: bool) -> list[str]:
        """Choose the only 2-D numeric data set, or else all 1-D ones if they are equally long.

        Where text is asked for, all 1-D ones of text if there are any: which one, is not chosen here.
        """
        found, links = dict(_walk(file)), []
        if not self.allow_external:
            links = [f"{name} (a link)" for name in file if not _is_hard(file, name)]
        tables = [name for name, (shape, kind) in found.items() if kind == "number" and len(shape) == 2]
        vectors = [name for name, (shape, kind) in found.items() if kind == "number" and len(shape) == 1]
        texts = [name for name, (shape, kind) in found.items() if kind == "text" and len(shape) == 1]
        if text and texts:
            tables, vectors = [], texts
        if len(tables) == 1:
            return tables
        if not tables and vectors and len({found[name][0] for name in vectors}) == 1:
            return vectors
        listed = shorten([f"{name} {shape}" for name, (shape, _) in found.items()] + links)
        if texts and not (tables or vectors):
            raise SchemaError(
                f'{self.location}: has no numeric data sets. String kernels (`kernel="spectrum"`) read '
                f"those of text: {shorten(texts)}"
            )
        raise SchemaError(
            f"{self.location}: ambiguous; choose a data set with `datasets`. There are: {listed or 'none'}"
        )

    def dataset(self, file: h5py.File, name: str) -> h5py.Dataset:
        """Return the data set `name`, reached by hard links only and stored in this very file."""
        where = f"{self.location}, data set {name!r}"
        node: Any = file
        for part in PurePosixPath("/", name).parts[1:]:
            link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
            if link is None:
                listed = shorten(known for known, _ in _walk(file))
                raise SchemaError(f"{where}: no such data set; there are: {listed or 'none'}")
            if not isinstance(link, h5py.HardLink):
                target = getattr(link, "filename", "") or getattr(link, "path", "")
                self._refuse(f"{where}: {part!r} is a link to {target!r}, not stored here")
            with self.damage(where):
                node = node[part]
        if not isinstance(node, h5py.Dataset):
            raise SchemaError(f"{where}: is a group, not a data set")
        if node.shape is None or node.ndim not in (1, 2) or 0 in node.shape[1:]:
            raise SchemaError(f"{where}: has shape {node.shape}; it must have 1 or 2 dimensions, and columns")
        if node.is_virtual:
            self._refuse(f"{where}: is a virtual data set, stored in other files")
        if node.external:
            self._refuse(f"{where}: is stored in another file, {node.external[0][0]!r}")
        if not self.allow_external:
            self._check_size(node, where)
        return node

    def _refuse(self, problem: str) -> None:
        if not self.allow_external:
            raise InputError(f"{problem}. If you trust this file, use `allow_external=True`")

    def _check_size(self, dataset: h5py.Dataset, where: str) -> None:
        declared = dataset.size * dataset.dtype.itemsize
        # What is stored cannot be more than the file holds, whatever the file says.
        stored = min(dataset.id.get_storage_size(), dataset.file.id.get_filesize())
        if declared > _MAX_RATIO * stored:
            raise InputError(
                f"{where}: declares shape {dataset.shape} ({declared:,} bytes) but stores only {stored:,} "
                "bytes. If this is intended, use `allow_external=True`"
            )
        chunk = _chunk_bytes(dataset)
        if chunk > _MAX_CHUNK_BYTES:
            raise InputError(
                f"{where}: has chunks of {chunk:,} bytes, each of which must fit in memory. Rewrite it with "
                f"smaller chunks (h5repack), or use `allow_external=True` and at least {_memory_for(chunk)}"
            )

    @contextmanager
    def damage(self, where: str = "") -> Iterator[None]:
        """Turn what h5py raises into an error that names the place."""
        try:
            yield
        except _DAMAGE as error:
            raise self.location.trouble("cannot read (truncated or damaged?)", error, where) from error


class HDF5File:
    """The data sets of one HDF5 file that make up a table."""

    def __init__(self, guard: _Guard, layout: _Layout, cache: _Cache) -> None:
        self.location, self.fields = guard.location, layout.fields
        self._guard, self._layout, self._cache = guard, layout, cache
        step = _aligned(_FRAGMENT_BYTES // layout.row_bytes, layout.chunk_rows)
        self._starts = range(0, layout.rows, step)
        self.fragment_rows = [min(step, layout.rows - start) for start in self._starts]

    @classmethod
    def open(
        cls,
        location: Location,
        datasets: Sequence[str],
        extra: str | None,
        *,
        allow_external: bool,
        text: bool = False,
        keep: Sequence[str] = (),
    ) -> HDF5File:
        """Find the data sets to read, and look at how they are stored."""
        guard = _Guard(location, allow_external)
        with guard.open() as file, guard.damage():
            names = [str(PurePosixPath("/", name)).lstrip("/") for name in datasets]
            names = names or guard.find(file, text=text)
            outside = [*filter(None, [extra]), *keep]  # the weights may lie outside the table
            names += [name for name in dict.fromkeys(outside) if name not in names]
            found = {name: guard.dataset(file, name) for name in names}
            return cls(guard, _Layout.of(found, keep, location), _Cache.plan(list(found.values())))

    def _open(self) -> h5py.File:
        return self._guard.open(self._cache.settings)

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory of one open reader: the cache, the rows read, a chunk that is not cached."""
        del names
        held = max(_BATCH_BYTES, _BATCH_ROWS * self._layout.row_bytes)
        if not self._cache.keeps_chunks:
            held = max(held, self._cache.long_read_bytes)
        return ReaderMemory.of(self._cache.bytes + self._cache.beside_bytes + held, str(self.location))

    def within(self, limit: int) -> HDF5File:
        """Return the file itself: a chunk takes what it takes."""
        del limit
        return self

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        start = self._starts[index]
        return f"{self.location}, rows {start}–{start + self.fragment_rows[index] - 1}"

    def list_width(self, name: str) -> int:
        """Return the width of a data set; it is always known here."""
        return self.fields[name].width or 0

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a data set of text takes, from its first strings."""
        with self._open() as file, self._guard.damage():
            first = self._guard.dataset(file, name)[:TEXT_ROWS]
        return text_memory(sum(map(len, first)) / max(len(first), 1))

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield the rows of one range."""
        names = names_of(columns, weights)
        for first, batch in self._arrays(index, names, batch_rows):
            weight_values = batch.pop() if weights is not None else None
            nulls = [0] * len(names)
            texts: dict[str, Mapping[float, str]] = {}
            for i, column in enumerate(columns):
                is_text = batch[i].dtype.kind in "OS"
                if column.text or (column.kind is not None and is_text):
                    batch[i] = self._decoded(batch[i], column.name, first)
                if isinstance(column.kind, Category | Text):
                    encoded = encode(pa.array(batch[i]), column, self.where(index))
                    batch[i], nulls[i] = encoded.values, encoded.nulls
                    texts |= {column.name: encoded.texts} if encoded.texts else {}
            yield Batch(batch, weight_values, nulls, texts)

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of data sets that pass through."""
        return pa.schema([(name, self._layout.kept[name]) for name in names])

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield other data sets of one range."""
        for first, batch in self._arrays(index, kept.names, batch_rows):
            columns = []
            for name, values in zip(kept.names, batch, strict=True):
                is_text = pa.types.is_string(self._layout.kept[name])
                columns.append(_as_arrow(self._decoded(values, name, first) if is_text else values))
            yield as_kept(pa.RecordBatch.from_arrays(columns, kept.names), kept, self.where(index))

    def _arrays(
        self, index: int, names: Sequence[str], batch_rows: int
    ) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """Yield the number of the first row, and the rows of each data set."""
        begin = self._starts[index]
        end = begin + self.fragment_rows[index]
        step, layout = batch_rows, self._layout
        if not self._cache.keeps_chunks and not layout.has_variable_strings:
            step = max(self._cache.long_read_bytes // layout.row_bytes, batch_rows)
        elif layout.chunk_rows <= batch_rows:
            step = _aligned(batch_rows, layout.chunk_rows)
        with self._open() as file:
            # An open data set keeps its cache: where there is none to spare, they are opened in turn.
            opened = [self._guard.dataset(file, name) for name in names] if self._cache.keeps_chunks else None
            for start in range(begin, end, step):
                datasets = opened or (self._guard.dataset(file, name) for name in names)
                with self._guard.damage(self.where(index)):
                    values = [dataset[start : min(start + step, end)] for dataset in datasets]
                first = start
                for batch in _cut(values, batch_rows):
                    rows = len(batch[0])
                    yield first, batch
                    first += rows
                del values  # before the next are read

    def _decoded(self, values: NDArray[Any], name: str, first: int) -> NDArray[Any]:
        """Return bytes as strings; ASCII is UTF-8 too, and what says so may be wrong."""
        texts = np.empty(len(values), object)
        try:
            texts[:] = [text.decode() for text in values.tolist()]
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.location}, data set {name!r}, rows {first}–{first + len(values) - 1}: "
                f"holds text that is not valid UTF-8: {error}"
            ) from error
        return texts


def _cut(values: list[NDArray[Any]], batch_rows: int) -> Iterator[list[NDArray[Any]]]:
    """Yield batches of the rows: copies if there are several, since one view would keep all in memory."""
    rows = len(values[0])
    if rows <= batch_rows:
        yield list(values)
        return
    for start in range(0, rows, batch_rows):
        yield [array[start : start + batch_rows].copy() for array in values]


def _aligned(rows: int, chunk_rows: int) -> int:
    """Return the largest multiple of the chunk's rows that is at most `rows`, but at least one chunk."""
    return max(chunk_rows, rows // chunk_rows * chunk_rows, 1)


def _item_bytes(dataset: h5py.Dataset) -> int:
    return _REFERENCE_BYTES if dataset.dtype.kind == "O" else int(dataset.dtype.itemsize)


def _row_bytes(dataset: h5py.Dataset) -> int:
    return _item_bytes(dataset) * int(math.prod(dataset.shape[1:]))


def _chunk_bytes(dataset: h5py.Dataset) -> int:
    return _item_bytes(dataset) * int(math.prod(dataset.chunks)) if dataset.chunks else 0


def _memory_for(chunk: int) -> str:
    """Name the option that is enough for a pass over chunks of so many bytes, which may not compress."""
    gigabytes = (2 * chunk + _MAX_CHUNK_BYTES + PASS_BYTES) / 1e9
    return option("memory", f"{math.ceil(10 * gigabytes) / 10:g}GB")


def _chunks_across(dataset: h5py.Dataset) -> int:
    return -(-dataset.shape[1] // dataset.chunks[1]) if dataset.chunks and dataset.ndim == 2 else 1


def _kind(dataset: h5py.Dataset) -> str:
    """Say whether a data set holds number, text or something else."""
    kind = _type(dataset)[0]
    if kind in "biuf":
        return "number"
    return "text" if kind in "SO" and h5py.check_string_dtype(dataset.dtype) else "else"


def _type(dataset: h5py.Dataset) -> tuple[str, str]:
    """Return the kind of the type, as NumPy abbreviates it, and its name; HDF5 has types NumPy has not."""
    try:
        return dataset.dtype.kind, str(dataset.dtype)
    except TypeError:
        return "?", "unknown type"


def _field(dataset: h5py.Dataset) -> Field:
    text = f"{_type(dataset)[1]} {dataset.shape}"
    if _kind(dataset) != "number":
        is_text = _kind(dataset) == "text" and dataset.ndim == 1
        automatic = "category" if is_text else ""
        return Field(text, width=0, left_out=TEXT if is_text else text, text=is_text, automatic=automatic)
    return Field(text, width=1 if dataset.ndim == 1 else dataset.shape[1])


def _arrow_type(dataset: h5py.Dataset, where: str) -> pa.DataType:
    """Return the Arrow type of a data set that passes through."""
    kind = _kind(dataset)
    if kind == "text" and dataset.ndim == 1:
        return pa.string()
    if kind == "else" or dataset.dtype.itemsize > 8:
        raise SchemaError(f"{where}: has type {_type(dataset)[1]}, which cannot be kept")
    number = pa.from_numpy_dtype(dataset.dtype.newbyteorder("="))
    return number if dataset.ndim == 1 else pa.list_(number, dataset.shape[1])


def _as_arrow(values: NDArray[Any]) -> pa.Array:
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    flat = pa.array(native.reshape(-1))
    return flat if native.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, native.shape[1])


def _is_hard(group: h5py.Group, name: str) -> bool:
    return isinstance(group.get(name, getlink=True), h5py.HardLink)


def _walk(file: h5py.File) -> Iterator[tuple[str, tuple[tuple[int, ...], str]]]:
    """Yield name, shape and kind of the data sets reachable by hard links."""
    pending = [("", file)]
    seen: set[tuple[int, int]] = set()
    while pending and len(seen) < _MAX_OBJECTS:  # groups upon groups cannot keep us for ever
        path, group = pending.pop(0)
        for name in group:
            if not _is_hard(group, name):
                continue
            node = group[name]
            info = h5py.h5o.get_info(node.id)
            if (info.fileno, info.addr) in seen:
                continue  # hard links can make circles
            seen.add((info.fileno, info.addr))
            if isinstance(node, h5py.Group):
                pending.append((f"{path}{name}/", node))
            elif isinstance(node, h5py.Dataset) and node.shape is not None:
                yield f"{path}{name}", (node.shape, _kind(node))
