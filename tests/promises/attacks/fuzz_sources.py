"""Mutated tables: Parquet, Feather, HDF5 and CSV, each sketched in a process of its own with a memory limit.

Libraries in C++ may end a process, or take all memory. What they do read must be what the sketch has seen.
"""

import gzip
import json
import os
import resource
import select
import signal
import traceback
from functools import cache, partial
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

import nysketch
from tests.disturbances import PATIENCE
from tests.promises.attacks.mutations import OF_BYTES, change_bytes, flip_bit
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, UNCHANGED, Outcome, command

# Beyond what the process has already.
_MOST_BYTES = 2 << 30
_SECONDS = 50  # of CPU time


def _table(*, rows=240, nulls=False, lists=False, text=False):
    random = np.random.default_rng(rows)
    columns = {name: pa.array(random.normal(size=rows).round(3)) for name in "xy"}
    if nulls:
        mask = random.random(rows) < 0.1
        columns["z"] = pa.array(random.normal(size=rows), mask=mask)
    if lists:
        columns["v"] = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=3 * rows)), 3)
    if text:
        columns["t"] = pa.array([f"row {i % 7}" for i in range(rows)])
        columns["n"] = pa.array(random.integers(0, 9, rows))
    return pa.table(columns)


def _hdf5(path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.random.default_rng(0).normal(size=(240, 3)), **options)


def _hdf5_with_text(path):
    _hdf5(path, dtype="f4", maxshape=(None, 3), compression="lzf")
    with h5py.File(path, "a") as file:
        file["data"].attrs["unit"] = "m"
        file["notes"] = [b"a", b"bc"]


def _csv_gz(path):
    pa.csv.write_csv(_table(text=True), path.with_suffix(""))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), mtime=0))


def _parquet(path, table, **options):
    pq.write_table(table, path, **options)


def _feather(path, table, **options):
    pa.feather.write_feather(table, str(path), **options)


def _csv(path, table):
    pa.csv.write_csv(table, path)


_KINDS = {
    "plain.parquet": partial(_parquet, table=_table(), row_group_size=50, use_dictionary=False),
    "nulls.parquet": partial(_parquet, table=_table(nulls=True, text=True), compression="zstd"),
    "lists.parquet": partial(_parquet, table=_table(lists=True), row_group_size=80, data_page_version="2.0"),
    "index.parquet": partial(_parquet, table=_table(), write_page_index=True, write_page_checksum=True),
    "lz4.feather": partial(_feather, table=_table(nulls=True, text=True), chunksize=70),
    "plain.feather": partial(_feather, table=_table(lists=True), compression="uncompressed"),
    "contiguous.h5": _hdf5,
    "chunked.h5": partial(_hdf5, chunks=(50, 3), compression="gzip", shuffle=True, fletcher32=True),
    "text.h5": _hdf5_with_text,
    "table.csv": partial(_csv, table=_table(text=True)),
    "nulls.csv": partial(_csv, table=_table(nulls=True)),
    "table.csv.gz": _csv_gz,
}


@cache
def _originals(folder):
    """Write a file of every kind, and sketch each: what is compiled or loaded then, no child has to."""
    found = {}
    for name, write in _KINDS.items():
        path = folder / f"original-{name}"
        write(path)
        code, _, said = _sketched(path, folder / "original.nysk")
        assert code == 0, (name, said)
        found[name] = path.read_bytes()
    return found


def _sketched(path, output):
    flags = ["-m", 5, "--blocks", 4, "--spans", 4, "--threads", 1, "--memory", "512MB", "--retries", 0, "-q"]
    return command("sketch", path, *flags, "--nulls", "drop", "--if-exists", "overwrite", "-o", output)


def mutate_source(random, folder):
    """Change one table and sketch it; compare what was read with what its library reads."""
    originals = _originals(folder)
    name = random.choice(sorted(originals))
    data = bytearray(originals[name])
    changes = OF_BYTES if random.random() < 0.5 else [flip_bit, change_bytes]  # most others are soon noticed
    for _ in range(random.choice([1, 1, 2, 5])):
        if data:
            random.choice(changes)(random, data, originals[random.choice(sorted(originals))])
    if bytes(data) == originals[name]:
        return Outcome(name, UNCHANGED)
    path = folder / f"mutated-{name}"
    path.write_bytes(data)
    found, ended = _in_a_child(partial(_judged, path, folder / "mutated.nysk"))
    if found is None:
        return Outcome(name, FAILED, ended)
    return Outcome(name, *found)


def _judged(path, output):
    """Return the result and its reason, of a sketch in this process."""
    code, _, said = _sketched(path, output)
    if code in (2, 3):
        # Or a column whose values cannot be used, or more of them than there is memory for.
        named = path.name in said or said.startswith(("column '", "this takes about"))
        return REFUSED if named else FAILED, said
    if code:
        return FAILED, f"exit code {code}: {said}"
    made = nysketch.load(output)
    wanted = _read(path)
    if wanted is None:
        return ACCEPTED, "its library does not read all of it"
    if made.rows + made.dropped_rows != len(wanted):
        return FAILED, f"{made.rows} rows and {made.dropped_rows} dropped, not {len(wanted)}"
    places = made.basis.layout.places
    plain = [place for place in places if place.column.kind is None]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        rows = _matrix(wanted, [place.column for place in plain])
    valid = np.isfinite(rows).all(axis=1)
    for place in places:
        if place.column.kind is not None:
            valid &= np.array([value is not None for value in wanted[place.column.name].to_pylist()])
    rows = rows[valid]
    found = [rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)]
    at = np.concatenate([np.r_[place.numbers] for place in plain])
    ranges = [ends[at] for ends in made.column_ranges]
    if len(rows) != made.rows or not np.array_equal(found, ranges):
        return FAILED, f"{made.rows} rows with other values than {path.suffix} has"
    return ACCEPTED, ""


def _matrix(wanted, columns):
    """Return the values of the columns of a sketch, as their library has them."""
    if isinstance(wanted, np.ndarray):
        return wanted.astype(np.float64)
    parts = []
    for column in columns:
        nothing = [np.nan] * column.width
        rows = [nothing if row is None else np.ravel(row) for row in wanted[column.name].to_pylist()]
        parts.append(np.array(rows, np.float64).reshape(len(rows), column.width))
    return np.hstack(parts)


def _read(path):
    """Return the rows of a table as its library reads them, or None if it does not."""
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        if path.suffix == ".feather":
            return pa.feather.read_table(path)
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                return file["data"][()]
    except Exception:
        return None
    return None


def _in_a_child(work):
    """Return what a function returns in a process of its own, or None and how the process ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_BYTES, used + _MOST_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
            try:
                found = work()
            except BaseException as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                found = FAILED, f"{type(error).__name__}: {error} @ {at.filename}:{at.lineno}"
            os.write(writing, json.dumps([found[0], found[1][:300]]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        if not select.select([pipe], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, f"took more than {PATIENCE} s"
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if not said:
        return None, f"the process ended with {os.waitstatus_to_exitcode(status)}"
    return json.loads(said), ""
