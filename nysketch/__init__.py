"""nysketch: sketch tables larger than memory in one pass; learn from the sketch later.

    import nysketch

    s = nysketch.sketch("data/*.parquet")
    nysketch.save(s, "data.nysk")
    total = nysketch.load("monday.nysk") + nysketch.load("tuesday.nysk")

Importing this package is cheap: everything is loaded when first used. Each package may import those above it
(docs/architecture.md):

errors.py       the errors, and the exit code of each
_types.py       types of arrays
_support/       knows nothing of sketches: files, locks, sizes
kinds/          how the values of a column become features: categories, times, logarithms
columns.py      the schema of a row
provenance.py   which inputs, which shards of them, how often
kernels/        k(x, y)
basis/          rows → coordinate system: landmarks, Fourier features
tiles/          the hot loop
accumulators/   what is summed over rows: one file per statistic
sketches/       the algebra of sketches, and their quality
twosample/      MMD: distances and tests between sketches
hsic/           tests of independence
sources/        tables to read
files/          our own files: sketches, checkpoints
engines/        who runs a pass: threads, Dask
passes/         one pass over a source
models/         centroids and mixtures, and what they say of rows
learning/       sketch → model
coresets/       few weighted rows for all of them
estimators.py   sketching and learning with the manners of scikit-learn
jobs/           a job file and its store
plotting/       pictures
report/         the report on a store
api/            the Python interface: a function for each command
cli/            one file per command
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Basis": "nysketch.basis.base",
    "Column": "nysketch.columns",
    "NysketchError": "nysketch.errors",
    "NysketchWarning": "nysketch.errors",
    "Sketch": "nysketch.sketches.sketch",
    "SketchedGaussianMixture": "nysketch.estimators",
    "SketchedKMeans": "nysketch.estimators",
    "assign": "nysketch.api.applying",
    "compare": "nysketch.api.comparing",
    "compare_all": "nysketch.api.comparing",
    "coreset": "nysketch.api.coreset",
    "export": "nysketch.api.files",
    "from_bytes": "nysketch.files.format",
    "independence": "nysketch.api.comparing",
    "info": "nysketch.api.files",
    "learn_gmm": "nysketch.api.learning",
    "learn_kmeans": "nysketch.api.learning",
    "load": "nysketch.files.format",
    "load_model": "nysketch.models.files",
    "merge": "nysketch.api.files",
    "plot": "nysketch.api.plotting",
    "run": "nysketch.api.stores",
    "save": "nysketch.files.format",
    "save_model": "nysketch.models.files",
    "score": "nysketch.api.applying",
    "sketch": "nysketch.api.sketching",
    "status": "nysketch.api.stores",
    "subtract": "nysketch.api.files",
    "to_bytes": "nysketch.files.format",
    "verify": "nysketch.api.files",
    "write_report": "nysketch.api.stores",
}
__all__ = [
    "Basis",
    "Column",
    "NysketchError",
    "NysketchWarning",
    "Sketch",
    "SketchedGaussianMixture",
    "SketchedKMeans",
    "__version__",
    "assign",
    "compare",
    "compare_all",
    "coreset",
    "export",
    "from_bytes",
    "independence",
    "info",
    "learn_gmm",
    "learn_kmeans",
    "load",
    "load_model",
    "merge",
    "plot",
    "run",
    "save",
    "save_model",
    "score",
    "sketch",
    "status",
    "subtract",
    "to_bytes",
    "verify",
    "write_report",
]

if TYPE_CHECKING:
    from nysketch.api.applying import assign, score
    from nysketch.api.comparing import compare, compare_all, independence
    from nysketch.api.coreset import coreset
    from nysketch.api.files import export, info, merge, subtract, verify
    from nysketch.api.learning import learn_gmm, learn_kmeans
    from nysketch.api.plotting import plot
    from nysketch.api.sketching import sketch
    from nysketch.api.stores import run, status, write_report
    from nysketch.basis.base import Basis
    from nysketch.columns import Column
    from nysketch.errors import NysketchError, NysketchWarning
    from nysketch.estimators import SketchedGaussianMixture, SketchedKMeans
    from nysketch.files.format import from_bytes, load, save, to_bytes
    from nysketch.models.files import load_model, save_model
    from nysketch.sketches.sketch import Sketch


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nysketch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
