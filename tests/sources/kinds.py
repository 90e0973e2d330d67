"""The same table as every kind of source there is: KINDS maps a name to a function (table, folder) → data.

TEXT_KINDS does so for a table of one column of text.
"""

import io
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse


def matrix(table):
    return np.column_stack([column.to_numpy() for column in table.columns])


def parquet(table, folder):
    pq.write_table(table, folder / "one.parquet", row_group_size=170)
    return str(folder / "one.parquet")


def parts(table, folder, pattern="part-{}.parquet"):
    paths = []
    for i, start in enumerate(range(0, len(table), 300)):
        path = folder / "parts" / pattern.format(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(start, 300), path, row_group_size=170)
        paths.append(str(path))
    return paths


def directory(table, folder):
    parts(table, folder)
    (folder / "parts" / "_SUCCESS").touch()
    (folder / "parts" / ".part-0.parquet.crc").write_bytes(b"crc")
    (folder / "parts" / "part-0.parquet.tmp").write_bytes(b"half written")
    return folder / "parts"


def glob(table, folder):
    parts(table, folder)
    return str(folder / "parts" / "part-*.parquet")


def hive(table, folder):
    parts(table, folder, "year=200{}/part.parquet")
    return str(folder / "parts")


def uri(table, folder):
    return "file://" + parquet(table, folder)


def feather(table, folder):
    pyarrow.feather.write_feather(table, folder / "one.feather", chunksize=170)
    return str(folder / "one.feather")


def csv(table, folder):
    pyarrow.csv.write_csv(table, folder / "one.csv")
    return str(folder / "one.csv")


def hdf5_chunked(table, folder):
    with h5py.File(folder / "chunked.h5", "w") as file:
        file.create_dataset("x", data=matrix(table), chunks=(96, 2), compression="gzip")
    return str(folder / "chunked.h5")


def hdf5_contiguous(table, folder):
    with h5py.File(folder / "contiguous.h5", "w") as file:
        file.create_dataset("x", data=matrix(table))
    return str(folder / "contiguous.h5")


def hdf5_vectors(table, folder):
    with h5py.File(folder / "vectors.h5", "w") as file:
        for i, name in enumerate(table.column_names):
            file.create_dataset(name, data=table[name].to_numpy(), chunks=(50 + 14 * i,))
    return str(folder / "vectors.h5")


def numpy_array(table, folder):
    return matrix(table)


def arrow_table(table, folder):
    return table


class OnlyCapsule:
    """An object that offers an Arrow stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def capsule(table, folder):
    return OnlyCapsule(pa.Table.from_batches(table.to_batches(max_chunksize=90)))


def reader(table, folder):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=333))


def arrays(table, folder):
    return iter(np.array_split(matrix(table), 7))


def record_batches(table, folder):
    return iter(table.to_batches(max_chunksize=11))


def stdin(table, folder):
    return "-"


def as_stdin(table):
    """Return what to put in the place of sys.stdin."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=170)
    return SimpleNamespace(buffer=io.BytesIO(sink.getvalue()))


def pandas_frame(table, folder):
    return pytest.importorskip("pandas").DataFrame(
        {name: table[name].to_pylist() for name in table.column_names}
    )


def pandas_series(table, folder):
    return pandas_frame(table, folder).iloc[:, 0]


def polars_frame(table, folder):
    return pytest.importorskip("polars").from_arrow(table)


def polars_series(table, folder):
    return polars_frame(table, folder).to_series()


def lazy_frame(table, folder):
    return pytest.importorskip("polars").scan_parquet(parquet(table, folder))


def relation(table, folder):
    return pytest.importorskip("duckdb").connect().read_parquet(parquet(table, folder))


def dataset(table, folder):
    return pyarrow.dataset.dataset(parts(table, folder))


def dict_of_arrays(table, folder):
    return {name: table[name].to_numpy() for name in table.column_names}


def dict_of_lists(table, folder):
    return table.to_pydict()


def list_of_rows(table, folder):
    return matrix(table).tolist()


def list_of_tuples(table, folder):
    return tuple(map(tuple, matrix(table).tolist()))


def sparse_matrix(table, folder):
    return scipy.sparse.csr_matrix(matrix(table))


def sparse_array(table, folder):
    return scipy.sparse.coo_array(matrix(table))


def hdf5_fixed(table, folder):
    encoded = np.array([text.encode() for text in table[0].to_pylist()])
    with h5py.File(folder / "fixed.h5", "w") as file:
        file.create_dataset(table.column_names[0], data=encoded, chunks=(96,), compression="gzip")
    return str(folder / "fixed.h5")


def numpy_objects(table, folder):
    return table[0].to_numpy()


def numpy_strings(table, folder):
    return np.array(table[0].to_pylist())[:, None]


def numpy_batches(table, folder):
    return iter(np.array_split(numpy_objects(table, folder), 7))


FILES = (
    parquet,
    parts,
    directory,
    glob,
    hive,
    uri,
    feather,
    csv,
    hdf5_chunked,
    hdf5_contiguous,
    hdf5_vectors,
)
ROWS = (list_of_rows, list_of_tuples, sparse_matrix, sparse_array)
FRAMES = (pandas_frame, polars_frame, dict_of_arrays, dict_of_lists)
QUERIES = (lazy_frame, relation, dataset)
REREADABLE = (*FILES, numpy_array, arrow_table, *ROWS, *FRAMES, *QUERIES)
STREAMS = (capsule, reader, arrays, record_batches, stdin)
KINDS = {make.__name__: make for make in (*REREADABLE, *STREAMS)}

TEXT_FILES = (parquet, parts, directory, glob, hive, uri, feather, csv, hdf5_vectors, hdf5_fixed)
SERIES = (pandas_series, polars_series)
TEXT_REREADABLE = (*TEXT_FILES, numpy_objects, numpy_strings, arrow_table, *FRAMES, *SERIES, *QUERIES)
TEXT_STREAMS = (capsule, reader, numpy_batches, record_batches, stdin)
TEXT_KINDS = {make.__name__: make for make in (*TEXT_REREADABLE, *TEXT_STREAMS)}
