"""Feather files (Arrow IPC with a footer): one record batch is one fragment.

Arrow trusts what it reads from such files: offsets that point outside a list would be followed. So
batches are validated before anything looks into them; and pyarrow.dataset, which does not, is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from nysketch.basis import Column
from nysketch.errors import InputError
from nysketch.sources.arrow import as_batch, fields_of, list_width
from nysketch.sources.base import Batch, Field
from nysketch.sources.location import Location


class FeatherFile:
    """One Feather file."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._schema = pa.schema([])
        with self._open() as reader:
            self._schema = reader.schema
            count = reader.num_record_batches
        # The footer does not tell the rows of a batch; the narrowest column does.
        sizes = [_bits(field.type) for field in self._schema]
        probe = [self._schema[min(range(len(sizes)), key=sizes.__getitem__)].name] if sizes else []
        with self._open(probe) as reader:
            self.fragment_rows = [reader.get_batch(i).num_rows for i in range(count)]

    @contextmanager
    def _open(self, names: Sequence[str] = (), where: str = "") -> Iterator[pa.RecordBatchFileReader]:
        """Open the file to read the named columns, and turn what goes wrong into our error."""
        fields = sorted(self._schema.get_field_index(name) for name in names)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        try:
            with self.location.open() as file:
                yield pa.ipc.open_file(file, options=options)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{where or self.location}: cannot read as Feather (truncated or damaged?): {error}"
            ) from error

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._schema, str(self.location))

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, record batch {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        with self._open([name]) as reader:
            for index in range(len(self.fragment_rows)):
                width = list_width(_valid_batch(reader, index).column(name))
                if width is not None:
                    return width
        return 0

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield the rows of one record batch."""
        names = [*(column.name for column in columns), *filter(None, [weights])]
        with self._open(names, self.where(index)) as reader:
            whole = _valid_batch(reader, index)
            for start in range(0, len(whole), batch_rows):
                yield as_batch(whole.slice(start, batch_rows), columns, weights, self.where(index))


def _valid_batch(reader: pa.RecordBatchFileReader, index: int) -> pa.RecordBatch:
    batch = reader.get_batch(index)
    batch.validate(full=True)
    return batch


def _bits(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:  # of variable width
        return 1 << 20
