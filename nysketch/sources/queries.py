"""Queries: tables that are computed anew whenever they are read, by DuckDB, polars or pyarrow.

They are read as streams are (arrow.py), in fragments that carry their rows, so that a result of any size
takes little memory; and as often as needed: once for the landmarks, once for the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol, Self

import pyarrow as pa

from nysketch._support.notices import log
from nysketch.columns import Column
from nysketch.errors import InputError
from nysketch.provenance import Input
from nysketch.sources.arrow import HeldFragment, StreamSource, list_width
from nysketch.sources.protocol import Fragment, key_of_rows
from nysketch.sources.selection import Selection

# Rows that a database hands over at a time.
_BATCH_ROWS = 1 << 14


class Query(Protocol):
    """A query of any library: `name` is how messages call it."""

    name: str

    def schema(self) -> pa.Schema:
        """Return the columns, without reading rows."""
        ...

    def count(self) -> int:
        """Return the number of rows."""
        ...

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Run the query, and yield these columns of its rows."""
        ...


class DuckDBRelation:
    """A relation of DuckDB, which it runs again each time."""

    name = "DuckDB relation"

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def schema(self) -> pa.Schema:
        """Return the columns, from a result of no rows."""
        return self._reader(self._relation.limit(0)).schema

    def count(self) -> int:
        """Let DuckDB count the rows."""
        return int(self._relation.aggregate("count(*)").fetchall()[0][0])

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield record batches as DuckDB computes them."""
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        yield from self._reader(self._relation.project(", ".join(quoted)))

    @staticmethod
    def _reader(relation: Any) -> pa.RecordBatchReader:
        # The second is what older releases call it.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        return read(_BATCH_ROWS)


class PolarsLazyFrame:
    """A lazy frame of polars, collected in batches by its streaming engine."""

    name = "LazyFrame"

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def schema(self) -> pa.Schema:
        """Return the columns, from a result of no rows."""
        return pa.table(self._frame.limit(0).collect()).schema

    def count(self) -> int:
        """Let polars count the rows."""
        import polars

        return int(self._frame.select(polars.len()).collect(engine="streaming").item())

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches as polars computes them; releases before 1.34 have the whole result in memory."""
        from polars import selectors

        wanted = self._frame.select(selectors.by_name(*names))
        if not hasattr(wanted, "collect_batches"):
            log.warning("this release of polars collects a LazyFrame at once, in memory: 1.34 has batches")
            yield from pa.table(wanted.collect(engine="streaming")).to_batches()
            return
        for frame in wanted.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
            yield from pa.table(frame).to_batches()


class ArrowDataset:
    """A data set of pyarrow."""

    name = "Dataset"

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def schema(self) -> pa.Schema:
        """Return the columns that it says it has."""
        return self._dataset.schema

    def count(self) -> int:
        """Let pyarrow count the rows."""
        return int(self._dataset.count_rows())

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches in the order of the files."""
        yield from self._dataset.to_batches(columns=list(names), batch_size=_BATCH_ROWS)


def query_of(data: object) -> Query | None:
    """Return the query that an object is; None if it is none. No library is imported to find out."""
    for kind in type(data).__mro__:
        library = kind.__module__.partition(".")[0]
        if kind.__name__ == "DuckDBPyRelation" and library in ("duckdb", "_duckdb"):
            return DuckDBRelation(data)
        if kind.__name__ == "LazyFrame" and library == "polars":
            return PolarsLazyFrame(data)
        if kind.__name__ == "Dataset" and kind.__module__ == "pyarrow._dataset":
            return ArrowDataset(data)
    return None


class QuerySource(StreamSource):
    """The rows of a query, in the order in which it gives them.

    A query without an order may give its rows in another one each time. Then sums at a given basis are the
    same, but not which rows become landmarks or are sampled, nor which blocks they are in: a warning says so
    when it is noticed. The key of its only input is that of the rows that came first when it was run first.
    """

    rereadable = True

    def __init__(self, query: Query, selection: Selection, widths: Mapping[str, int]) -> None:
        self._query = query
        self._keys: dict[int, int] = {}  # of the fragments that were read before
        self._warned = False
        with _reading(query.name):
            schema = query.schema()
        super().__init__(schema, (), selection, query.name, widths)

    def __getstate__(self) -> dict[str, Any]:
        """Return what workers need: fragments carry their rows, and connections stay where they are."""
        return self.__dict__ | {"_query": None, "_batches": ()}

    @cached_property
    def rows(self) -> int:  # type: ignore[override]
        """How many rows the query has: it is run for that."""
        with _reading(self._name):
            return self._query.count()

    def fragments(self) -> Iterator[Fragment]:
        """Run the query, and yield fragments as it delivers rows."""
        with _reading(self._name):
            self._batches, self._seen = self._query.batches(self._names), 0
            for fragment in super().fragments():
                self._compare(fragment)
                yield fragment
        if self._seen != self.rows:
            raise InputError(
                f"{self._name}: gave {self._seen:,} rows, and {self.rows:,} when they were counted. "
                "Did the data change, or is it a random sample? Store the rows first"
            )

    def without(self, left_out: Mapping[str, str]) -> Self:
        """Return a source of the same rows that leaves out more columns, for these reasons."""
        fewer = super().without(left_out)
        fewer._keys = {}  # of other columns
        fewer._read_these_columns()
        return fewer

    def with_kinds(self, columns: Sequence[Column]) -> Self:
        """Return a source of the same rows that reads its columns by the kinds which these have."""
        other = super().with_kinds(columns)
        other._keys = {}  # of other numbers
        other._read_these_columns()
        return other

    def rows_of_inputs(self) -> dict[int, int]:
        """Return the number of rows by the key of the only input; its first rows are read, if none were."""
        if self._key is None:
            next(iter(self.fragments()), None)
        return {} if self._key is None else {self._key: self.rows}

    def _compare(self, fragment: Fragment) -> None:
        """Warn if a fragment begins with other rows than when the query was run before."""
        assert isinstance(fragment, HeldFragment)
        key = key_of_rows(self.read(fragment, fragment.rows))
        if self._keys.setdefault(fragment.number, key) != key and not self._warned:
            self._warned = True
            log.warning(
                "%s: its rows come in another order each time, so that landmarks, samples and blocks differ "
                "from run to run. Sort them (ORDER BY) for a result that can be repeated",
                self._name,
            )

    def _list_width(self, column: str) -> int:
        """Return the length of the first list in a column."""
        with _reading(self._name):
            for batch in self._query.batches([column]):
                if width := list_width(batch.column(0)):
                    return width
        return 0

    def inputs(self) -> tuple[Input, ...]:
        """Return what the query is called and how many rows it has."""
        return (Input(self._name, self.rows),)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn errors of the library that runs the query into ours."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb", "polars", "pyarrow"):
            raise
        raise InputError(f"{name}: cannot be read: {error}") from error
