"""nysketch: sketch tables larger than memory in one pass; learn from the sketch later.

    import nysketch

    s = nysketch.sketch("data/*.parquet")
    nysketch.save(s, "data.nysk")
    total = nysketch.load("monday.nysk") + nysketch.load("tuesday.nysk")

Importing this package is cheap: everything is loaded when first used. Each package may import those above it
(docs/architecture.md):

errors.py       the errors, and the exit code of each
_types.py       types of arrays
columns.py      the schema of a row
_support/       knows nothing of sketches: files, locks, sizes
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
cli/            one file per command
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Basis": "nysketch.basis.base",
    "Column": "nysketch.columns",
    "Sketch": "nysketch.sketches.sketch",
    "SketchedGaussianMixture": "nysketch.estimators",
    "SketchedKMeans": "nysketch.estimators",
    "compare": "nysketch.twosample.compare",
    "coreset": "nysketch.coresets.from_data",
    "from_bytes": "nysketch.files.format",
    "independence": "nysketch.hsic.independence",
    "learn_gmm": "nysketch.learning.learner",
    "learn_kmeans": "nysketch.learning.learner",
    "load": "nysketch.files.format",
    "load_model": "nysketch.models.files",
    "save": "nysketch.files.format",
    "save_model": "nysketch.models.files",
    "sketch": "nysketch.passes.sketching",
    "to_bytes": "nysketch.files.format",
    "NysketchError": "nysketch.errors",
}
__all__ = [
    "Basis",
    "Column",
    "NysketchError",
    "Sketch",
    "SketchedGaussianMixture",
    "SketchedKMeans",
    "__version__",
    "compare",
    "coreset",
    "from_bytes",
    "independence",
    "learn_gmm",
    "learn_kmeans",
    "load",
    "load_model",
    "save",
    "save_model",
    "sketch",
    "to_bytes",
]

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.columns import Column
    from nysketch.coresets.from_data import coreset
    from nysketch.errors import NysketchError
    from nysketch.estimators import SketchedGaussianMixture, SketchedKMeans
    from nysketch.files.format import from_bytes, load, save, to_bytes
    from nysketch.hsic.independence import independence
    from nysketch.learning.learner import learn_gmm, learn_kmeans
    from nysketch.models.files import load_model, save_model
    from nysketch.passes.sketching import sketch
    from nysketch.sketches.sketch import Sketch
    from nysketch.twosample.compare import compare


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nysketch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
