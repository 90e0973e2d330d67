"""What somebody who can compute a checksum may write into a sketch file.

Each forgery changes metadata and arrays in place; if it returns text, that is the metadata to store.
"""

import numpy as np

from tests.helpers import canonical


def put(*path, value):
    """Set a value deep in the metadata."""

    def forge(metadata, arrays):
        place = metadata
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return forge


def drop(*path):
    def forge(metadata, arrays):
        place = metadata
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return forge


def fill(name, value):
    """Set the first number of an array."""

    def forge(metadata, arrays):
        arrays[name].reshape(-1)[0] = value

    return forge


def array(name, change):
    def forge(metadata, arrays):
        arrays[name] = change(arrays[name])

    return forge


def wrapping(ends):
    """Return ends of strings whose differences are positive, but only as 64 bits hold them."""
    return np.concatenate([ends[:1], [-(2**63), -(2**62)], ends[3:]])


def without(name):
    def forge(metadata, arrays):
        del arrays[name]

    return forge


def text(change):
    """Store metadata that is not canonical JSON."""

    def forge(metadata, arrays):
        changed = change(canonical(metadata))
        assert changed != canonical(metadata)
        return changed

    return forge


def more_arrays(metadata, arrays):
    arrays["extra"] = np.zeros(3)


def low_of(value):
    def forge(metadata, arrays):
        arrays["blocks.sums.low"] = np.full_like(arrays["blocks.sums"], value)

    return forge


def no_landmarks(metadata, arrays):
    arrays["basis.landmarks"] = np.zeros((0, 2))
    arrays["blocks.sums"] = np.zeros((4, 0))
    arrays.pop("blocks.sums.low", None)
    only_blocks(metadata, arrays)


def only_blocks(metadata, arrays):
    metadata["cells"] = metadata["runs"] = None
    for name in [name for name in arrays if name.startswith(("cells", "far", "runs"))]:
        del arrays[name]


def no_blocks(metadata, arrays):
    arrays["blocks.sums"], arrays["blocks.rows"] = np.zeros((0, 8)), np.zeros(0, np.int64)
    arrays["blocks.weights"] = np.zeros(0)
    for name in ("blocks.sums.low", "blocks.weights.low"):
        arrays.pop(name, None)
    only_blocks(metadata, arrays)


def no_features(metadata, arrays):
    metadata["basis"]["columns"] = []
    arrays["basis.landmarks"] = np.zeros((8, 0))
    for name in ("basis.center", "basis.scale", "columns.lower", "columns.upper"):
        arrays[name] = np.zeros(0)
    only_blocks(metadata, arrays)


def another_row(metadata, arrays):
    """A row more in a cell that has none, and one less in another: the sum is right."""
    arrays["cells.rows"][np.argmax(arrays["cells.rows"])] -= 1
    arrays["cells.rows"][0] += 1
    arrays["cells.weights"][0] = -1.0


def emptied(metadata, arrays):
    """All rows of a cell are in another one, but not its sums."""
    arrays["cells.rows"][1] += arrays["cells.rows"][0]
    arrays["cells.rows"][0] = 0


def nearer(metadata, arrays):
    """A far row that is not as far as its key says."""
    arrays["far.rows"][0, 1:] /= 2


def elsewhere(metadata, arrays):
    """All far rows are in the cell with the fewest rows."""
    arrays["far.rows"][:, 0] = np.argmin(arrays["cells.rows"])


def farther_than_far(metadata, arrays):
    """A far row beyond the limit of cells, with the key that belongs to it."""
    arrays["far.rows"][0, 1:] = [1e12, 0.0]
    arrays["far.keys"][0] = 2**63 - 1 - np.float64(1e24).view(np.int64)


def cells_of(change):
    def forge(metadata, arrays):
        metadata["cells"] = change(metadata["cells"])

    return forge


def another_run(metadata, arrays):
    """All rows of a run are in another one, but not its sums."""
    arrays["runs.rows"][1] += arrays["runs.rows"][0]
    arrays["runs.rows"][0] = 0


def weightless_run(metadata, arrays):
    """All weight of a run is in another one: the sum is right."""
    arrays["runs.weights"][1] += 2 * arrays["runs.weights"][0]
    arrays["runs.weights"][0] *= -1
    arrays.pop("runs.weights.low", None)


def runs_of_whole_inputs(metadata, arrays):
    """A level beyond that of rows, where these addresses cannot be."""
    metadata["runs"]["level"] = 49


def same_run_twice(metadata, arrays):
    arrays["runs.where"][1] = arrays["runs.where"][0]


def low_of_runs(value):
    def forge(metadata, arrays):
        arrays["runs.sums.low"] = np.full_like(arrays["runs.sums"], value)

    return forge


def runs_of(change):
    def forge(metadata, arrays):
        metadata["runs"] = change(metadata["runs"])

    return forge


def product(*spans):
    groups = [
        {"name": str(i), "features": span, "kernel": {"name": "linear"}} for i, span in enumerate(spans)
    ]
    return {"name": "product", "groups": groups}


BASIS = ("basis",)
BANDWIDTH = ("basis", "kernel", "bandwidth")
INPUT = ("provenance", "inputs", 0)

HELD_OUT = ("basis", "origin", "held_out")

_bandwidths = {
    f"bandwidth {value!r}": put(*BANDWIDTH, value=value)
    for value in (0, -1.0, 1e-300, 1e300, "1.0", True, None, [1.0], {})
}

BASIS_FORGERIES = {
    **_bandwidths,
    "scale 0": fill("basis.scale", 0.0),
    "scale negative": fill("basis.scale", -1.0),
    "scale NaN": fill("basis.scale", np.nan),
    "scale inf": fill("basis.scale", np.inf),
    "scale tiny": fill("basis.scale", 1e-320),
    "center NaN": fill("basis.center", np.nan),
    "landmark NaN": fill("basis.landmarks", np.nan),
    "landmark inf": fill("basis.landmarks", np.inf),
    "landmarks float32": array("basis.landmarks", lambda a: a.astype(np.float32)),
    "landmarks integer": array("basis.landmarks", lambda a: a.astype(np.int64)),
    "landmarks flat": array("basis.landmarks", lambda a: a[:, 0]),
    "landmarks too wide": array("basis.landmarks", lambda a: np.hstack([a, a])),
    "landmarks in 3-D": array("basis.landmarks", lambda a: a[:, :, None]),
    "scale too long": array("basis.scale", lambda a: np.append(a, 1.0)),
    "scale 0-d": array("basis.scale", lambda a: np.float64(1.0).reshape(())),
    "no scale": without("basis.scale"),
    "no landmarks array": without("basis.landmarks"),
    "extra array": more_arrays,
    "extra key": put("extra", value=1),
    "extra key in basis": put("basis", "extra", value=1),
    "kernel unknown": put("basis", "kernel", "name", value="laplace"),
    "kernel text": put("basis", "kernel", value="gaussian"),
    "kernel missing": drop("basis", "kernel"),
    "kernel with more": put("basis", "kernel", "power", value=2),
    "scaling unknown": put("basis", "scaling", value="log"),
    "scaling list": put("basis", "scaling", value=["standard"]),
    "columns text": put("basis", "columns", value="xy"),
    "columns names only": put("basis", "columns", value=["x", "y"]),
    "columns a dictionary": put("basis", "columns", value={"x": 1, "y": 1}),
    "columns same name": put("basis", "columns", value=[["x", 1], ["x", 1]]),
    "columns number as name": put("basis", "columns", value=[[1, 1], ["y", 1]]),
    "columns width 0": put("basis", "columns", value=[["x", 0], ["y", 2]]),
    "columns width negative": put("basis", "columns", value=[["x", 3], ["y", -1]]),
    "columns width text": put("basis", "columns", value=[["x", "1"], ["y", 1]]),
    "columns width true": put("basis", "columns", value=[["x", True], ["y", 1]]),
    "columns width 1.0": put("basis", "columns", value=[["x", 1.0], ["y", 1]]),
    "columns too many": put("basis", "columns", value=[["x", 1], ["y", 1], ["z", 1]]),
    "origin list": put("basis", "origin", value=[["a", 1]]),
    "origin missing": drop("basis", "origin"),
    "held out text": put(*HELD_OUT, value="fine"),
    "held out list": put(*HELD_OUT, value=[]),
    "held out less": drop(*HELD_OUT, "mean_residual"),
    "held out more": put(*HELD_OUT, "verdict", value="fine"),
    "held out text for a number": put(*HELD_OUT, "projection_error", value="0"),
    "held out true for a number": put(*HELD_OUT, "rows", value=True),
    "held out without numbers": put(*HELD_OUT, "residual_quantiles", value={}),
    "held out enough 1": put(*HELD_OUT, "enough", value=1),
    "held out kernel 1": put(*HELD_OUT, "kernel", value=1),
    "held out beyond all numbers": put(*HELD_OUT, "mean_residual", value=10**400),
    "held out negative": put(*HELD_OUT, "rows", value=-5),
    "held out of Fourier features": put(
        *HELD_OUT, value={"rows": 100, "draw": "gaussian", "kernel_error": 0.1}
    ),
    "auto beyond all numbers": put(
        "basis",
        "origin",
        "auto",
        value=[
            {
                "landmarks": 5,
                "projection_error": 10**400,
                "projection_error_se": 0.1,
                "sampling_error": 0.1,
            }
        ],
    ),
    "sampling missing": drop("basis", "origin", "sampling"),
    "sampling number": put("basis", "origin", "sampling", value=5),
    "sampling report text": put("basis", "origin", "sampling_report", value="x"),
    "sampling report of text": put("basis", "origin", "sampling_report", value={"lambda": "x"}),
    "auto text": put("basis", "origin", "auto", value="x"),
    "auto of numbers": put("basis", "origin", "auto", value=[1]),
    "wild text": put("basis", "origin", "wild", value="x"),
    "wild of numbers": put("basis", "origin", "wild", value=[1]),
    "wild without a share": put("basis", "origin", "wild", value=[{"column": "x", "rows": 1}]),
    "auto of less": put("basis", "origin", "auto", value=[{"landmarks": 5}]),
    "kernel of strings": put("basis", "kernel", value={"name": "spectrum", "length": 3}),
    "kernel of a huge degree": put(
        "basis", "kernel", value={"name": "polynomial", "bandwidth": 1.0, "degree": 10**9, "offset": 1.0}
    ),
    "kernel sum of one": put("basis", "kernel", value={"name": "gaussian-sum", "bandwidths": [1.0]}),
    "kernel sum of text": put("basis", "kernel", value={"name": "gaussian-sum", "bandwidths": "12"}),
    "product of nothing": put("basis", "kernel", value={"name": "product", "groups": []}),
    "product of too few": put("basis", "kernel", value=product([0, 1])),
    "product of too many": put("basis", "kernel", value=product([0, 1], [1, 3])),
    "product with a gap": put("basis", "kernel", value=product([0, 1], [2, 3])),
    "product backwards": put("basis", "kernel", value=product([0, 2], [2, 1])),
    "product within a product": put(
        "basis",
        "kernel",
        value={
            "name": "product",
            "groups": [{"name": "a", "features": [0, 2], "kernel": product([0, 2])}],
        },
    ),
    "column of text": put("basis", "columns", value=[["x", 1, "text"], ["y", 1]]),
    "column of an unknown kind": put("basis", "columns", value=[["x", 1, "date"], ["y", 1]]),
    "frequencies without any": put("basis", "frequencies", value="gaussian"),
    "basis missing": drop("basis"),
    "kind missing": drop("kind"),
    "kind unknown": put("kind", value="model"),
    "kind list": put("kind", value=["sketch"]),
    "version text": put("format_version", value="1"),
    "version 0": put("format_version", value=0),
    "version true": put("format_version", value=True),
    "version 1.0": put("format_version", value=1.0),
    "version huge": put("format_version", value=10**300),
    "version missing": drop("format_version"),
    "software number": put("software", value=5),
}

FORGERIES = {
    **BASIS_FORGERIES,
    "no landmarks": no_landmarks,
    "no blocks": no_blocks,
    "no features": no_features,
    "sum NaN": fill("blocks.sums", np.nan),
    "sum inf": fill("blocks.sums", np.inf),
    "low NaN": low_of(np.nan),
    "low inf": low_of(np.inf),
    "low large": low_of(1.0),
    "low zero": low_of(0.0),
    "low of another shape": array("blocks.sums", lambda a: a[:, :-1]),
    "sums float32": array("blocks.sums", lambda a: a.astype(np.float32)),
    "sums transposed": array("blocks.sums", lambda a: a.T.copy()),
    "sums flat": array("blocks.sums", lambda a: a.reshape(-1)),
    "sums 0-d": array("blocks.sums", lambda a: np.float64(1.0).reshape(())),
    "rows negative": fill("blocks.rows", -1),
    "rows that overflow": array("blocks.rows", lambda a: np.full_like(a, 2**62)),
    "rows as floats": array("blocks.rows", lambda a: a.astype(np.float64)),
    "rows of fewer blocks": array("blocks.rows", lambda a: a[:-1]),
    "no rows": without("blocks.rows"),
    "no sums": without("blocks.sums"),
    "weights NaN": fill("blocks.weights", np.nan),
    "weights negative": fill("blocks.weights", -1.0),
    "weights of fewer blocks": array("blocks.weights", lambda a: a[:-1]),
    "weights missing": without("blocks.weights"),
    "weights unnamed": put("settings", "weights", value=None),
    "weights numbered": put("settings", "weights", value=3),
    "range NaN": fill("columns.lower", np.nan),
    "range inf": fill("columns.upper", np.inf),
    "range inverted": fill("columns.lower", 1e9),
    "range too long": array("columns.lower", lambda a: np.append(a, 0.0)),
    "range as integers": array("columns.upper", lambda a: a.astype(np.int64) + 1),
    "dropped negative": put("dropped_rows", value=-1),
    "dropped text": put("dropped_rows", value="0"),
    "dropped huge": put("dropped_rows", value=2**63),
    "dropped missing": drop("dropped_rows"),
    "sample rows NaN": fill("sample.rows", np.nan),
    "sample rows float64": array("sample.rows", lambda a: a.astype(np.float64)),
    "sample rows too wide": array("sample.rows", lambda a: np.hstack([a, a])),
    "sample rows fewer": array("sample.rows", lambda a: a[:-1]),
    "sample rows missing": without("sample.rows"),
    "sample keys missing": without("sample.keys"),
    "sample keys negative": fill("sample.keys", -1),
    "sample keys out of order": array("sample.keys", lambda a: a[::-1].copy()),
    "sample keys that wrap around": array("sample.keys", lambda a: np.append(a[:-1], -(2**63))),
    "sample keys beyond the bound": put("sample", "bound", value=1),
    "sample keys as floats": array("sample.keys", lambda a: a.astype(np.float64)),
    "sample weights negative": fill("sample.weights", -1.0),
    "sample weights NaN": fill("sample.weights", np.nan),
    "sample weights missing": without("sample.weights"),
    "sample beyond its capacity": put("sample", "capacity", value=3),
    "sample without capacity": put("sample", "capacity", value=0),
    "sample bound text": put("sample", "bound", value="9"),
    "sample bound huge": put("sample", "bound", value=2**63),
    "sample capacity true": put("sample", "capacity", value=True),
    "sample list": put("sample", value=[1, 2]),
    "sample missing": drop("sample"),
    "cells rows negative": fill("cells.rows", -1),
    "cells rows more": array("cells.rows", lambda a: a + 1),
    "cells rows that overflow": array("cells.rows", lambda a: np.full_like(a, 2**62)),
    "cells rows as floats": array("cells.rows", lambda a: a.astype(np.float64)),
    "cells rows fewer": array("cells.rows", lambda a: a[:-1]),
    "cells rows elsewhere": emptied,
    "cells rows missing": without("cells.rows"),
    "cells sums NaN": fill("cells.sums", np.nan),
    "cells sums inf": fill("cells.sums", np.inf),
    "cells sums too large": fill("cells.sums", 1e6),
    "cells sums float32": array("cells.sums", lambda a: a.astype(np.float32)),
    "cells sums transposed": array("cells.sums", lambda a: a.T.copy()),
    "cells sums missing": without("cells.sums"),
    "cells squares NaN": fill("cells.squares", np.nan),
    "cells squares negative": array("cells.squares", lambda a: -a),
    "cells squares too small": array("cells.squares", lambda a: a / 1e6),
    "cells squares too large": fill("cells.squares", 1e100),
    "cells squares too wide": array("cells.squares", lambda a: np.hstack([a, a])),
    "cells squares missing": without("cells.squares"),
    "cells weights NaN": fill("cells.weights", np.nan),
    "cells weights negative": another_row,
    "cells weights doubled": array("cells.weights", lambda a: 2 * a),
    "cells weights 0-d": array("cells.weights", lambda a: a[0].reshape(())),
    "cells weights missing": without("cells.weights"),
    "cells none": put("cells", value=None),
    "cells missing": drop("cells"),
    "cells list": put("cells", value=[0]),
    "cells text": put("cells", value="none"),
    "cells with more": cells_of(lambda cells: cells | {"more": 1}),
    "cells beyond negative": put("cells", "beyond", value=-1),
    "cells beyond all rows": put("cells", "beyond", value=7),
    "cells beyond true": put("cells", "beyond", value=True),
    "cells beyond 0.0": put("cells", "beyond", value=0.0),
    "cells beyond huge": put("cells", "beyond", value=2**63),
    "cells beyond missing": drop("cells", "beyond"),
    "far missing": drop("cells", "far"),
    "far bound text": put("cells", "far", "bound", value="9"),
    "far bound small": put("cells", "far", "bound", value=1),
    "far capacity small": put("cells", "far", "capacity", value=3),
    "far capacity 0": put("cells", "far", "capacity", value=0),
    "far capacity huge": put("cells", "far", "capacity", value=2**64),
    "far keys missing": without("far.keys"),
    "far keys negative": fill("far.keys", -1),
    "far keys out of order": array("far.keys", lambda a: a[::-1].copy()),
    "far keys of other distances": array("far.keys", lambda a: a - 1),
    "far rows missing": without("far.rows"),
    "far rows float32": array("far.rows", lambda a: a.astype(np.float32)),
    "far rows NaN": array("far.rows", lambda a: np.full_like(a, np.nan)),
    "far rows fewer": array("far.rows", lambda a: a[:-1]),
    "far rows narrow": array("far.rows", lambda a: a[:, :-1].copy()),
    "far rows nearer": nearer,
    "far rows farther": farther_than_far,
    "far rows in one cell": elsewhere,
    "far rows in cell 8": fill("far.rows", 8.0),
    "far rows in cell -1": fill("far.rows", -1.0),
    "far rows in cell 0.5": fill("far.rows", 0.5),
    "far rows in cell 1e300": fill("far.rows", 1e300),
    "far weights missing": without("far.weights"),
    "far weights negative": fill("far.weights", -1.0),
    "runs where negative": fill("runs.where", -1),
    "runs where beyond all inputs": array("runs.where", lambda a: np.add(a, [2**62, 0])),
    "runs where beyond all rows": array("runs.where", lambda a: np.add(a, [0, 2**44])),
    "runs where out of order": array("runs.where", lambda a: a[::-1].copy()),
    "runs where twice": same_run_twice,
    "runs where as floats": array("runs.where", lambda a: a.astype(np.float64)),
    "runs where flat": array("runs.where", lambda a: a.reshape(-1)),
    "runs where narrow": array("runs.where", lambda a: a[:, :1].copy()),
    "runs where fewer": array("runs.where", lambda a: a[:-1]),
    "runs where missing": without("runs.where"),
    "runs rows negative": fill("runs.rows", -1),
    "runs rows more": array("runs.rows", lambda a: a + 1),
    "runs rows that overflow": array("runs.rows", lambda a: np.full_like(a, 2**62)),
    "runs rows as floats": array("runs.rows", lambda a: a.astype(np.float64)),
    "runs rows fewer": array("runs.rows", lambda a: a[:-1]),
    "runs rows elsewhere": another_run,
    "runs rows missing": without("runs.rows"),
    "runs sums NaN": fill("runs.sums", np.nan),
    "runs sums inf": fill("runs.sums", np.inf),
    "runs sums float32": array("runs.sums", lambda a: a.astype(np.float32)),
    "runs sums transposed": array("runs.sums", lambda a: a.T.copy()),
    "runs sums flat": array("runs.sums", lambda a: a.reshape(-1)),
    "runs sums 0-d": array("runs.sums", lambda a: np.float64(1.0).reshape(())),
    "runs sums fewer": array("runs.sums", lambda a: a[:-1]),
    "runs sums missing": without("runs.sums"),
    "runs low NaN": low_of_runs(np.nan),
    "runs low large": low_of_runs(1.0),
    "runs low zero": low_of_runs(0.0),
    "runs weights NaN": fill("runs.weights", np.nan),
    "runs weights negative": weightless_run,
    "runs weights doubled": array("runs.weights", lambda a: 2 * a),
    "runs weights fewer": array("runs.weights", lambda a: a[:-1]),
    "runs weights 0-d": array("runs.weights", lambda a: a[0].reshape(())),
    "runs weights missing": without("runs.weights"),
    "runs none": put("runs", value=None),
    "runs missing": drop("runs"),
    "runs list": put("runs", value=[64, 4]),
    "runs text": put("runs", value="none"),
    "runs with more": runs_of(lambda runs: runs | {"more": 1}),
    "runs capacity 0": put("runs", "capacity", value=0),
    "runs capacity small": put("runs", "capacity", value=3),
    "runs capacity huge": put("runs", "capacity", value=2**20),
    "runs capacity true": put("runs", "capacity", value=True),
    "runs capacity 64.0": put("runs", "capacity", value=64.0),
    "runs capacity missing": drop("runs", "capacity"),
    "runs level 3": put("runs", "level", value=3),
    "runs level 111": put("runs", "level", value=111),
    "runs level huge": put("runs", "level", value=10**30),
    "runs level text": put("runs", "level", value="4"),
    "runs level 4.0": put("runs", "level", value=4.0),
    "runs level of whole inputs": runs_of_whole_inputs,
    "runs level of fewer rows": put("runs", "level", value=45),
    "runs level missing": drop("runs", "level"),
    "settings runs text": put("settings", "runs", value="64"),
    "settings runs negative": put("settings", "runs", value=-1),
    "settings cells 1": put("settings", "cells", value=1),
    "settings far rows text": put("settings", "far_rows", value="5"),
    "settings far rows negative": put("settings", "far_rows", value=-1),
    "settings list": put("settings", value=[["precision", "float32"]]),
    "settings missing": drop("settings"),
    "precision unknown": put("settings", "precision", value="float16"),
    "precision missing": drop("settings", "precision"),
    "nulls number": put("settings", "nulls", value=5),
    "sample rows list": put("settings", "sample_rows", value=["x"]),
    "seed text": put("settings", "seed", value="0"),
    "provenance missing": drop("provenance"),
    "provenance list": put("provenance", value=[]),
    "unlisted negative": put("provenance", "unlisted", value=-1),
    "input without path": drop(*INPUT, "path"),
    "input number as path": put(*INPUT, "path", value=1),
    "input negative rows": put(*INPUT, "rows", value=-1),
    "input bytes text": put(*INPUT, "bytes", value="1"),
    "input digest number": put(*INPUT, "digest", value=1),
    "input times true": put(*INPUT, "times", value=True),
    "metadata a list": text(lambda s: f"[{s}]"),
    "metadata a number": text(lambda s: "1"),
    "metadata with spaces": text(lambda s: s.replace(":", ": ")),
    "metadata with a key twice": text(lambda s: s[:-1] + ',"kind":"sketch"}'),
    "metadata with NaN": text(lambda s: s.replace('"dropped_rows":0', '"dropped_rows":NaN')),
    "bandwidth NaN": text(lambda s: s.replace('"bandwidth":', '"bandwidth":NaN,"b":')),
    "bandwidth 1e999": text(
        lambda s: s.replace('"kernel":{"bandwidth":', '"kernel":{"bandwidth":1e999,"b":')
    ),
    "metadata nested": text(lambda s: '{"a":' * 50_000 + "1" + "}" * 50_000),
    "metadata with a giant integer": text(lambda s: s.replace('"seed":0', '"seed":' + "9" * 5000)),
    "origin nested": text(
        lambda s: s.replace('"origin":{', '"origin":{"a":' + "[" * 5000 + "]" * 5000 + ",")
    ),
}


def low_of_groups(value):
    def forge(metadata, arrays):
        arrays["groups.sums.low"] = np.full_like(arrays["groups.sums"], value)

    return forge


def low_shaped(change):
    """A low part that would do, were it not for its shape."""

    def forge(metadata, arrays):
        low = np.full(arrays["groups.sums"].shape, 2.0**-60, np.float32)
        arrays["groups.sums.low"] = np.ascontiguousarray(change(low))

    return forge


def groups_of(change):
    def forge(metadata, arrays):
        metadata["groups"] = change(metadata["groups"])

    return forge


def more_groups(metadata, arrays):
    arrays["groups.rows"] = np.zeros(3)


def unpaired(metadata, arrays):
    """It says that there are sums of pairs, but has only those of groups."""
    for name in [name for name in arrays if name.startswith("groups")]:
        arrays[name] = arrays[name][:3].copy()


def pairs_unsaid(metadata, arrays):
    """It has sums of pairs, and says that there are none."""
    metadata["groups"]["pairs"] = False


def one_kernel(metadata, arrays):
    """The kernel is one of all columns, but the sums of groups are still there."""
    metadata["basis"]["kernel"] = {"name": "gaussian", "bandwidth": 1.0}


def one_group(metadata, arrays):
    """A product of one group has nothing to tell apart."""
    kernel = metadata["basis"]["kernel"]
    kernel["groups"] = [kernel["groups"][0] | {"features": [0, 4]}]
    metadata["groups"]["pairs"] = False
    arrays.pop("groups.sums.low", None)
    arrays["groups.sums"] = arrays["groups.sums"][:1].copy()


# Of a sketch of 300 rows, 8 landmarks, three groups and their pairs.
GROUPED_FORGERIES = {
    "groups sums NaN": fill("groups.sums", np.nan),
    "groups sums inf": fill("groups.sums", np.inf),
    "groups sums -inf": fill("groups.sums", -np.inf),
    "groups sums negative": fill("groups.sums", -1.0),
    "groups sums more than rows": fill("groups.sums", 300.5),
    "groups sums huge": fill("groups.sums", 1e300),
    "groups sums of pairs negative": array("groups.sums", lambda a: np.vstack([a[:-1], -a[-1:]])),
    "groups sums of pairs more than rows": array("groups.sums", lambda a: np.vstack([a[:-1], a[-1:] + 300])),
    "groups sums float32": array("groups.sums", lambda a: a.astype(np.float32)),
    "groups sums integers": array("groups.sums", lambda a: a.astype(np.int64)),
    "groups sums transposed": array("groups.sums", lambda a: a.T.copy()),
    "groups sums flat": array("groups.sums", lambda a: a.reshape(-1)),
    "groups sums 0-d": array("groups.sums", lambda a: np.float64(1.0).reshape(())),
    "groups sums in 3-D": array("groups.sums", lambda a: a[:, :, None]),
    "groups sums of fewer parts": array("groups.sums", lambda a: a[:-1]),
    "groups sums of more parts": array("groups.sums", lambda a: np.vstack([a, a[:1]])),
    "groups sums of fewer landmarks": array("groups.sums", lambda a: a[:, :-1].copy()),
    "groups sums of no parts": array("groups.sums", lambda a: a[:0]),
    "groups sums missing": without("groups.sums"),
    "groups low NaN": low_of_groups(np.nan),
    "groups low inf": low_of_groups(np.inf),
    "groups low large": low_of_groups(1.0),
    "groups low zero": low_of_groups(0.0),
    "groups low as float64": low_of_groups(2.0**-60),
    "groups low of another shape": low_shaped(lambda a: a[:-1]),
    "groups low transposed": low_shaped(lambda a: a.T),
    "groups with another array": more_groups,
    "groups none": put("groups", value=None),
    "groups missing": drop("groups"),
    "groups list": put("groups", value=[True]),
    "groups text": put("groups", value="pairs"),
    "groups true": put("groups", value=True),
    "groups empty": put("groups", value={}),
    "groups with more": groups_of(lambda groups: groups | {"more": 1}),
    "groups pairs 1": put("groups", "pairs", value=1),
    "groups pairs 0": put("groups", "pairs", value=0),
    "groups pairs text": put("groups", "pairs", value="true"),
    "groups pairs null": put("groups", "pairs", value=None),
    "groups pairs without sums of them": unpaired,
    "groups pairs that are not said": pairs_unsaid,
    "groups of one kernel": one_kernel,
    "groups of one group": one_group,
    "settings shuffles text": put("settings", "shuffles", value="500"),
    "settings shuffles negative": put("settings", "shuffles", value=-1),
    "settings shuffles null": put("settings", "shuffles", value=None),
    "settings shuffles 500.0": put("settings", "shuffles", value=500.0),
    "settings shuffles true": put("settings", "shuffles", value=True),
    "settings shuffles huge": put("settings", "shuffles", value=10**30),
    "settings shuffles beyond all": put("settings", "shuffles", value=10**6 + 1),
    "settings shuffles list": put("settings", "shuffles", value=[500]),
    "settings shuffle rows text": put("settings", "shuffle_rows", value="5"),
    "settings shuffle rows empty text": put("settings", "shuffle_rows", value=""),
    "settings shuffle rows negative": put("settings", "shuffle_rows", value=-1),
    "settings shuffle rows 5.0": put("settings", "shuffle_rows", value=5.0),
    "settings shuffle rows false": put("settings", "shuffle_rows", value=False),
    "settings sample rows empty list": put("settings", "sample_rows", value=[]),
    "settings sample rows 0.0": put("settings", "sample_rows", value=0.0),
    "settings far rows false": put("settings", "far_rows", value=False),
    "settings pairs 1": put("settings", "pairs", value=1),
    "settings pairs text": put("settings", "pairs", value="true"),
    "settings pairs null": put("settings", "pairs", value=None),
}


def moments_low(value, change=lambda low: low):
    def forge(metadata, arrays):
        low = np.full(arrays["moments.sums"].shape, value, np.float32)
        arrays["moments.sums.low"] = np.ascontiguousarray(change(low))

    return forge


def moments_off_diagonal(value):
    """Set the product of the first two functions; nothing on the diagonal is changed."""

    def forge(metadata, arrays):
        arrays["moments.sums"][1] = value

    return forge


def moments_of_others(metadata, arrays):
    """The first function has no squares, but products with others."""
    arrays["moments.sums"][0] = 0.0


def more_moments(metadata, arrays):
    arrays["moments.rows"] = np.zeros(3)


# Of a sketch of 300 rows, 8 landmarks and their second moments.
SQUARED_FORGERIES = {
    "moments NaN": fill("moments.sums", np.nan),
    "moments inf": fill("moments.sums", np.inf),
    "moments -inf": fill("moments.sums", -np.inf),
    "moments negative on the diagonal": fill("moments.sums", -1e-9),
    "moments more than rows": fill("moments.sums", 300.5),
    "moments huge": fill("moments.sums", 1.7e308),
    "moments NaN beside the diagonal": moments_off_diagonal(np.nan),
    "moments more than Cauchy and Schwarz allow": moments_off_diagonal(299.0),
    "moments huge beside the diagonal": moments_off_diagonal(1.7e308),
    "moments negative for a positive kernel": moments_off_diagonal(-1.0),
    "moments without squares": moments_of_others,
    "moments times a thousand": array("moments.sums", lambda a: 1e3 * a),
    "moments float32": array("moments.sums", lambda a: a.astype(np.float32)),
    "moments integers": array("moments.sums", lambda a: a.astype(np.int64)),
    "moments as a matrix": array("moments.sums", lambda a: np.resize(a, (8, 8))),
    "moments as a column": array("moments.sums", lambda a: a[:, None].copy()),
    "moments 0-d": array("moments.sums", lambda a: np.float64(1.0).reshape(())),
    "moments of fewer landmarks": array("moments.sums", lambda a: a[:28].copy()),
    "moments of more landmarks": array("moments.sums", lambda a: np.resize(a, 45)),
    "moments of nothing": array("moments.sums", lambda a: a[:0]),
    "moments missing": without("moments.sums"),
    "moments low NaN": moments_low(np.nan),
    "moments low inf": moments_low(np.inf),
    "moments low large": moments_low(1.0),
    "moments low zero": moments_low(0.0),
    "moments low as float64": moments_low(2.0**-62, lambda low: low.astype(np.float64)),
    "moments low of another shape": moments_low(2.0**-62, lambda low: low[:-1]),
    "moments low as a column": moments_low(2.0**-62, lambda low: low[:, None]),
    "moments with another array": more_moments,
    "moments unsaid": drop("moments"),
    "moments false": put("moments", value=False),
    "moments null": put("moments", value=None),
    "moments 1": put("moments", value=1),
    "moments 1.0": put("moments", value=1.0),
    "moments text": put("moments", value="true"),
    "moments list": put("moments", value=[True]),
    "moments object": put("moments", value={}),
    "settings second moments 1": put("settings", "second_moments", value=1),
    "settings second moments text": put("settings", "second_moments", value="true"),
    "settings second moments null": put("settings", "second_moments", value=None),
}

TEXT_FORGERIES = {
    "text that is no UTF-8": fill("basis.landmarks", 0xFF),
    "text with ends beyond": array("basis.landmarks.ends", lambda a: a + 1),
    "text with ends before": array("basis.landmarks.ends", lambda a: a - 100),
    "text with ends backwards": array("basis.landmarks.ends", lambda a: a[::-1].copy()),
    "text with ends that wrap around": array("basis.landmarks.ends", wrapping),
    "text without ends": without("basis.landmarks.ends"),
    "text of floats": array("basis.landmarks", lambda a: a.astype(np.float32)),
    "no text": array("basis.landmarks.ends", lambda a: a[:0]),
    "sampled text that is no UTF-8": fill("sample.rows", 0xFF),
    "sampled text of fewer rows": array("sample.rows.ends", lambda a: a[-1:]),
    "cells of text": put("cells", value={"beyond": 0, "far": {"bound": 1, "capacity": 0}}),
    "kernel of numbers": put("basis", "kernel", value={"name": "gaussian", "bandwidth": 1.0}),
    "length 0": put("basis", "kernel", "length", value=0),
    "length 1.0": put("basis", "kernel", "length", value=1.0),
    "decay 2": put("basis", "kernel", "decay", value=2),
    "column of numbers": put("basis", "columns", value=[["s", 1]]),
    "two columns": put("basis", "columns", value=[["s", 1, "text"], ["t", 1, "text"]]),
}

FOURIER_FORGERIES = {
    "frequency NaN": fill("basis.frequencies", np.nan),
    "frequencies too wide": array("basis.frequencies", lambda a: np.hstack([a, a])),
    "frequencies fewer": array("basis.frequencies", lambda a: a[:-1]),
    "no frequencies": without("basis.frequencies"),
    "unknown draw": put("basis", "frequencies", value="uniform"),
    "draw number": put("basis", "frequencies", value=1),
    "kernel without a spectrum": put("basis", "kernel", value={"name": "linear"}),
    "cells of frequencies": put("cells", value={"beyond": 0, "far": {"bound": 1, "capacity": 0}}),
    "landmarks besides": array("basis.center", lambda a: a[:1]),
}


PARTS = ("provenance", "parts")
WHOLE = (*PARTS, 0)


def held(*stretches):
    """Say that these stretches of parts are held."""
    return put(*WHOLE, "held", value=[list(stretch) for stretch in stretches])


def parts_of(change):
    """Change the list of wholes."""

    def forge(metadata, arrays):
        metadata["provenance"]["parts"] = change(metadata["provenance"]["parts"])

    return forge


# Of a sketch that holds parts 2 and 3 of 5, and the last of two, of two wholes.
PARTED_FORGERIES = {
    "parts in an older version": put("format_version", value=6),
    "parts unsaid": drop(*PARTS),
    "parts null": put(*PARTS, value=None),
    "parts none": put(*PARTS, value=[]),
    "parts text": put(*PARTS, value="2/5"),
    "parts object": put(*PARTS, value={}),
    "parts of numbers": put(*PARTS, value=[2, 3]),
    "parts out of order": parts_of(lambda parts: parts[::-1]),
    "parts of the same whole twice": parts_of(lambda parts: [parts[0], parts[0]]),
    "parts with more": put(*WHOLE, "note", value="x"),
    "parts at another place": put("parts", value=[]),
    "whole without a digest": drop(*WHOLE, "digest"),
    "whole with a number as digest": put(*WHOLE, "digest", value=1),
    "whole with a short digest": put(*WHOLE, "digest", value="0" * 63),
    "whole with a loud digest": put(*WHOLE, "digest", value="A" * 64),
    "whole with a digest and a line": put(*WHOLE, "digest", value="0" * 64 + "\n"),
    "whole without inputs": put(*WHOLE, "inputs", value=[]),
    "whole with inputs out of order": parts_of(
        lambda parts: [part | {"inputs": part["inputs"][::-1]} for part in parts]
    ),
    "whole with an input twice": parts_of(
        lambda parts: [part | {"inputs": part["inputs"][:1] * 2} for part in parts]
    ),
    "whole with an input 0 times": put(*WHOLE, "inputs", 0, "times", value=0),
    "whole with an input of no name": put(*WHOLE, "inputs", 0, "path", value=None),
    "whole with an input of negative rows": put(*WHOLE, "inputs", 0, "rows", value=-1),
    "whole with inputs as text": put(*WHOLE, "inputs", value="a.parquet"),
    "whole with too many inputs": parts_of(
        lambda parts: [
            part | {"inputs": [part["inputs"][0] | {"path": f"{i:04}"} for i in range(501)]} for part in parts
        ]
    ),
    "whole with negative unlisted": put(*WHOLE, "unlisted", value=-1),
    "whole with unlisted text": put(*WHOLE, "unlisted", value="1"),
    "whole without unlisted": drop(*WHOLE, "unlisted"),
    **{
        f"of {of!r}": put(*WHOLE, "of", value=of)
        for of in (0, 1, -5, 2, 5.0, True, "5", None, 10**5 + 1, 10**30)
    },
    "held nothing": held(),
    "held part 0": held((0, 1, 1)),
    "held part 6 of 5": held((6, 6, 1)),
    "held part -1": held((-1, 2, 1)),
    "held everything": held((1, 5, 1)),
    "held more than everything": held((1, 4, 1), (5, 5, 2)),
    "held 0 times": held((2, 3, 0)),
    "held -1 times": held((2, 3, -1)),
    "held backwards": held((3, 2, 1)),
    "held out of order": held((4, 4, 1), (2, 2, 1)),
    "held overlapping": held((2, 3, 1), (3, 4, 2)),
    "held in too many stretches": held((2, 2, 1), (3, 3, 1)),
    "held so often that it is no number": held((2, 3, 2**63)),
    "held true": held((2, 3, True)),
    "held 1.0": held((2.0, 3, 1)),
    "held pairs": held((2, 3)),
    "held more than stretches": held((2, 3, 1, 1)),
    "held text": put(*WHOLE, "held", value="231"),
    "held numbers": put(*WHOLE, "held", value=[2, 3]),
    "held null": put(*WHOLE, "held", value=None),
}


# ---- numbers of the right form that no rows have, for every statistic --------------------------------------


def scaled(name, factor):
    return array(name, lambda a: a * factor)


def added(name, number):
    return array(name, lambda a: a + number)


def without_low(forge):
    """Change sums, and leave out what would show it: their low parts."""

    def both(metadata, arrays):
        forge(metadata, arrays)
        for name in [name for name in arrays if name.endswith(".low")]:
            del arrays[name]

    return both


def cells_elsewhere(metadata, arrays):
    """All rows of cells are far from their landmarks, as their squares say, but not as the ranges say."""
    weights = arrays["cells.weights"][:, None]
    arrays["cells.sums"] = weights * 1000.0
    arrays["cells.squares"] = weights * 1000.0**2


def closer_ranges(metadata, arrays):
    """All rows have the same values."""
    arrays["columns.lower"] = arrays["columns.upper"].copy()


def first_cell(name, value):
    """Change what the cell with the most rows has."""

    def forge(metadata, arrays):
        arrays[name][np.argmax(arrays["cells.rows"])] = value

    return forge


# Of a weighted sketch that has every statistic; the sets are tried by the suite of all statistics, which
# fails for one that has none.
def unknown_counts(missing=0, unseen=0):
    """Write counts into a file that has none, of its four columns of numbers."""

    def forge(description, arrays):
        arrays["unknown.missing"] = np.full(4, missing, np.int64)
        arrays["unknown.unseen"] = np.full(4, unseen, np.int64)

    return forge


BY_STATISTIC = {
    "BlockSums": {
        "more than the rows allow": without_low(fill("blocks.sums", 1e6)),
        "many times as much": without_low(scaled("blocks.sums", 50.0)),
        "negative": without_low(fill("blocks.sums", -1.0)),
        "all huge": without_low(array("blocks.sums", lambda a: np.full_like(a, 1e308))),
        "rows beyond counting": array("blocks.rows", lambda a: a + 2**60),
        "weights beyond all": without_low(fill("blocks.weights", 1e300)),
        "more weight than rows can have": without_low(scaled("blocks.weights", 1e13)),
        "no weight": without_low(scaled("blocks.weights", 0.0)),
    },
    "DroppedRows": {
        "fewer than in a column": put("dropped_rows", value=1),
        "alone in more": added("dropped.alone", 1),
        "beyond counting": put("dropped_rows", value=2**63),
        "columns beyond counting": array("dropped.invalid", lambda a: a + 2**62),
    },
    "UnknownValues": {
        "negative": unknown_counts(missing=-1),
        "more than rows": unknown_counts(missing=10**6),
        "beyond counting": unknown_counts(missing=2**63 - 1, unseen=2**63 - 1),
        "unseen, of numbers": unknown_counts(unseen=1),
        "of one kind": lambda description, arrays: arrays.update({"unknown.missing": np.ones(4, np.int64)}),
    },
    "ColumnRanges": {
        "far lower": fill("columns.lower", -1e308),
        "far higher": fill("columns.upper", 1e308),
        "three times as wide": scaled("columns.upper", 3.0),
        "of one value": closer_ranges,
        "not where the rows are": added("columns.lower", 1e3),
    },
    "RowSample": {
        "outside the ranges": fill("sample.rows", 1e30),
        "all elsewhere": added("sample.rows", np.float32(1e6)),
        "weights beyond all": fill("sample.weights", 1e300),
    },
    "Cells": {
        "sums beyond all": without_low(first_cell("cells.sums", 1e308)),
        "squares beyond all": without_low(first_cell("cells.squares", 1e308)),
        "squares too small": without_low(scaled("cells.squares", 1e-9)),
        "rows outside the ranges": without_low(cells_elsewhere),
        "weights beyond all": without_low(first_cell("cells.weights", 1e300)),
        "weights of others": without_low(scaled("cells.weights", 2.0)),
        "far weights beyond all": fill("far.weights", 1e300),
    },
    "Spans": {
        "more than the rows allow": without_low(fill("runs.sums", 1e6)),
        "negative": without_low(fill("runs.sums", -1.0)),
        "all huge": without_low(array("runs.sums", lambda a: np.full_like(a, 1e308))),
        "other sums than blocks": without_low(scaled("runs.sums", 0.9)),
        "weights beyond all": without_low(fill("runs.weights", 1e300)),
    },
    "GroupSums": {
        "more than the rows allow": without_low(fill("groups.sums", 1e6)),
        "negative": without_low(fill("groups.sums", -1.0)),
        "all huge": without_low(array("groups.sums", lambda a: np.full_like(a, 1e308))),
    },
    "SecondMoments": {
        "more than the rows allow": without_low(scaled("moments.sums", 1e3)),
        "all huge": without_low(array("moments.sums", lambda a: np.full_like(a, 1e308))),
        "less than the sums of values allow": without_low(scaled("moments.sums", 1e-6)),
        "negative": without_low(scaled("moments.sums", -1.0)),
    },
}
