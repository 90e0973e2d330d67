"""Mutated checkpoints of a pass, which the same command then continues."""

import json
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch
from nysketch.passes.accumulate import RunningTally
from tests.helpers import canonical, seal, unseal
from tests.promises.attacks.mutations import OF_BYTES, as_json, changed_arrays, changed_json
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, UNCHANGED, Outcome, command

ROWS, FRAGMENTS = 300, 6


def command_of(folder):
    """Return the output of a small pass, and its command."""
    small = ["-m", "6", "--blocks", "4", "--spans", "4", "--sample-rows", "20", "--far-rows", "5"]
    output = folder / "s.nysk"
    checkpoints = ["--checkpoint-every", "0", "--threads", "1", "--if-exists", "overwrite", "-q"]
    return output, ["sketch", folder / "d.parquet", *small, *checkpoints, "-o", output]


@cache
def interrupted(folder):
    """Return the checkpoint of a pass that was stopped after three fragments, and what it ends in."""
    random = np.random.default_rng(5)
    table = pa.table({name: random.normal(size=ROWS) for name in "ab"})
    pq.write_table(table, folder / "d.parquet", row_group_size=ROWS // FRAGMENTS)
    output, args = command_of(folder)
    assert command(*args)[0] == 0
    expected = output.read_bytes()
    add, calls = RunningTally.add, 0

    def stopping(self, *args):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        add(self, *args)

    RunningTally.add = stopping
    try:
        command(*args)
    except (KeyboardInterrupt, Exception) as error:  # click makes an Abort of it
        assert type(error).__name__ in ("KeyboardInterrupt", "Abort"), error
    finally:
        RunningTally.add = add
    return (folder / "s.nysk.checkpoint").read_bytes(), expected


def mutate_checkpoint(random, folder):
    """Change a checkpoint, in its bytes or before it is sealed, and continue from it."""
    original, expected = interrupted(folder)
    if random.random() < 0.3:
        change, data = random.choice(OF_BYTES), bytearray(original)
        change(random, data, expected)
        mutation, content = f"bytes: {change.__name__}", bytes(data)
    else:
        mutation, content = _forged(random, *unseal(original)[1:])
    if content == original:
        return Outcome(mutation, UNCHANGED)
    output, args = command_of(folder)
    output.unlink(missing_ok=True)
    checkpoint = folder / "s.nysk.checkpoint"
    checkpoint.write_bytes(content)
    code, _, said = command(*args)
    if code in (3, 5):
        named = str(checkpoint) in said and not output.exists()
        return Outcome(mutation, REFUSED if named else FAILED, said)
    if code:
        return Outcome(mutation, FAILED, f"exit code {code}: {said[:200]}")
    if mutation.startswith("bytes"):
        return Outcome(mutation, FAILED, "damage was not noticed")
    if output.read_bytes() == expected:
        return Outcome(mutation, ACCEPTED, "the same bytes")
    found = nysketch.load(output)
    whole = found.rows == ROWS and found.dropped_rows == 0
    return Outcome(mutation, ACCEPTED if whole else FAILED, f"{found.rows} rows of {ROWS}")


def _forged(random, metadata, arrays):
    mutation = random.choice(["metadata", "arrays", "arrays", "done", "request"])
    arrays = dict(arrays)
    if mutation == "metadata":
        metadata = changed_json(random, metadata)
    elif mutation == "arrays":
        arrays = changed_arrays(random, arrays, ["runs.sums.low", "blocks.weights", "moments.sums"])
    elif mutation == "done":
        size = random.choice([0, 1, 1, 1, 2, 50, 100_000])
        arrays["done"] = np.frombuffer(random.randbytes(size), np.uint8)
    else:
        request = changed_json(random, json.loads(arrays["request"].tobytes()))
        arrays["request"] = np.frombuffer(as_json(request), np.uint8)
    return f"sealed: {mutation}", seal(canonical(metadata), arrays)
