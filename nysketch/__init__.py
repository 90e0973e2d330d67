"""nysketch: sketch tables larger than memory in one pass; learn from the sketch later.

    import nysketch

    s = nysketch.sketch("data/*.parquet")
    nysketch.save(s, "data.nysk")
    total = nysketch.load("monday.nysk") + nysketch.load("tuesday.nysk")

Importing this package is cheap: everything is loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Basis": "nysketch.basis",
    "Column": "nysketch.basis",
    "Sketch": "nysketch.sketches",
    "SketchedGaussianMixture": "nysketch.estimators",
    "SketchedKMeans": "nysketch.estimators",
    "compare": "nysketch.comparing",
    "coreset": "nysketch.condensing",
    "from_bytes": "nysketch.fileformat",
    "independence": "nysketch.depending",
    "learn_gmm": "nysketch.learning",
    "learn_kmeans": "nysketch.learning",
    "load": "nysketch.fileformat",
    "load_model": "nysketch.modelfiles",
    "save": "nysketch.fileformat",
    "save_model": "nysketch.modelfiles",
    "sketch": "nysketch.passes",
    "to_bytes": "nysketch.fileformat",
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
    from nysketch.basis import Basis, Column
    from nysketch.comparing import compare
    from nysketch.condensing import coreset
    from nysketch.depending import independence
    from nysketch.errors import NysketchError
    from nysketch.estimators import SketchedGaussianMixture, SketchedKMeans
    from nysketch.fileformat import from_bytes, load, save, to_bytes
    from nysketch.learning import learn_gmm, learn_kmeans
    from nysketch.modelfiles import load_model, save_model
    from nysketch.passes import sketch
    from nysketch.sketches import Sketch


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nysketch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
