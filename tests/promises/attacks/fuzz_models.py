"""Mutated model files: JSON, Parquet and NPZ. Those that are still models must be of use."""

import io
import json
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch
from nysketch.errors import CorruptSketchError, WrongKindError
from tests.helpers import small_sketch
from tests.promises.attacks.mutations import OF_BYTES, as_json, changed_json
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, UNCHANGED, Outcome, command


@cache
def originals(folder):
    """Write models of every kind in every format, and rows to use them on: contents by name."""
    sketch = small_sketch()
    made = {
        "kmeans": nysketch.learn_kmeans(sketch, k=3),
        "gmm": nysketch.learn_gmm(sketch, k=2),
        "full": nysketch.learn_gmm(sketch, k=2, covariance="full"),
    }
    (folder / "rows.csv").write_text("x,y\n0.1,0.2\n1.5,-2\n-1,3\n" * 5)
    nysketch.save(sketch, folder / "s.nysk")
    contents = {}
    for name, model in made.items():
        for format in ("json", "parquet", "npz"):
            path = folder / f"{name}.{format}"
            nysketch.save_model(model, path)
            contents[path.name] = path.read_bytes()
    return contents


def mutate_model(random, folder):
    """Change one file, in its bytes or in the JSON that it holds, load it, and use it if that is possible."""
    contents = originals(folder)
    name = random.choice(sorted(contents))
    path = folder / "mutated"
    if random.random() < 0.3:
        change, data = random.choice(OF_BYTES), bytearray(contents[name])
        change(random, data, contents[random.choice(sorted(contents))])
        mutation, content = f"bytes: {change.__name__}", bytes(data)
    else:
        mutation, content = _described(random, name, json.loads(contents[f"{name.split('.')[0]}.json"]))
    if content == contents[name]:
        return Outcome(mutation, UNCHANGED)
    path.write_bytes(content)
    try:
        nysketch.load_model(path)
    except (CorruptSketchError, WrongKindError) as error:
        return Outcome(mutation, REFUSED if str(error).startswith(f"{path}: ") else FAILED, str(error))
    return _used(random, mutation, path, folder)


def _described(random, name, description):
    """Change the description of a model, or its text, and put it into a file of the format."""
    text = as_json(changed_json(random, description))
    for odd in (b"1e999", b"1" * 5000, b"-0", b"1E400"):
        if random.random() < 0.02:
            text = text.replace(b"1", odd, 1)
    format = name.split(".")[1]
    file = io.BytesIO()
    if format == "npz":
        np.savez(file, nysketch_model=np.array(text.decode("utf-8", "surrogatepass")))
    elif format == "parquet":
        pq.write_table(pa.table({"x": [1.0]}).replace_schema_metadata({"nysketch_model": text}), file)
    else:
        file.write(text)
    return f"described: {format}", file.getvalue()


def _used(random, mutation, path, folder):
    rows, again = folder / "rows.csv", ["--if-exists", "overwrite", "-o"]
    commands = [
        ["assign", path, rows, *again, folder / "a.csv"],
        ["assign", path, rows, *again, folder / "a.parquet"],
        ["score", path, rows, "--json"],
        ["score", path, rows],
        ["info", path, "--json"],
        ["info", path],
    ]
    if random.random() < 0.05:
        plots = [["plot", path], ["plot", folder / "s.nysk", "--model", path]]
        commands = [[*plot, *again, folder / "p.svg"] for plot in plots]
    given = random.choice(commands)
    code, printed, said = command(*given)
    what = f"{given[0]}, of {mutation}"
    if code == 1:
        return Outcome(mutation, FAILED, f"exit code 1: {what}: {said[:200]}")
    if code == 0 and "--json" in given:
        json.loads(printed, parse_constant=_refuse)
    if code == 0 and " nan" in printed.lower():
        return Outcome(mutation, FAILED, f"nan printed: {what}")
    return Outcome(mutation, ACCEPTED, what)


def _refuse(constant):
    raise ValueError(f"{constant} in JSON")
