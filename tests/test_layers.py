"""The architecture, checked: imports go one way, and importing is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nysketch

PACKAGE = Path(nysketch.__file__).parent
HEAVY = {"pyarrow", "h5py", "click", "tqdm", "numba"}
ALGEBRA = [
    "errors",
    "exact",
    "kernels",
    "landmarks",
    "basis",
    "samples",
    "accumulators",
    "stretches",
    "provenance",
    "sketches",
    "quality",
    "fitting",
    "cells",
    "runs",
    "decode",
    "learning",
    "models",
    "twosample",
    "robust",
    "trimming",
    "comparing",
    "groups",
    "secondmoments",
    "hsic",
    "depending",
    "recombination",
    "testfunctions",
    "nearness",
    "coresets",
]


def loaded_by(statement):
    code = f"{statement}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", ALGEBRA)
def test_the_algebra_and_below_need_neither_files_nor_terminals(module):
    assert not HEAVY & loaded_by(f"import nysketch.{module}")


def test_importing_the_package_loads_nothing_else():
    assert not (HEAVY | {"numpy", "scipy"}) & loaded_by("import nysketch")


def test_loading_a_sketch_needs_no_compiler():
    assert not {"numba", "pyarrow", "h5py"} & loaded_by("from nysketch import load, save, Sketch, Basis")


# Each module may import those before it, and its own neighbours.
ORDER = [
    ["errors"],
    ["atomic", "blas", "compiled", "sizes", "stretches", "texts"],
    ["elimination"],
    ["recombination"],
    ["exact", "kernels", "landmarks", "provenance"],
    ["basis", "samples", "cells", "runs", "groups", "secondmoments", "accumulators", "tiles"],
    ["sketches", "models"],
    ["quality", "coverage", "fitting", "twosample", "robust", "trimming", "hsic", "testfunctions"],
    ["nearness"],
    ["decode"],
    ["learning", "comparing", "depending", "coresets"],
    ["checks"],
    ["fileformat", "sources", "describe", "modelfiles", "passoptions", "tables"],
    ["parts"],
    ["checkpoint", "locks", "reading", "engines", "pilot", "tallying", "planning", "combine", "export"],
    ["passes"],
    ["jobs", "assigning", "refining", "estimators"],
    ["modeljobs", "recombining", "condensing", "coresetfiles"],
    ["nightly"],
    ["reporting"],
    ["ui"],
    ["cli"],
]


def test_imports_go_one_way():
    level = {name: i for i, names in enumerate(ORDER) for name in names}
    for path in sorted(PACKAGE.rglob("*.py")):
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if here in ("__init__", "__main__"):
            continue
        assert here in level, f"{path.name} has no place in ORDER"
        tree = ast.parse(path.read_text())
        # Basis.fit reaches up on purpose, inside its body; module-level imports never do.
        for node in tree.body:
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                if node.module == "nysketch":
                    names = [alias.name for alias in node.names]
                elif node.module.startswith("nysketch."):
                    names = [node.module.split(".")[1]]
            for name in names:
                assert level.get(name, 0) <= level[here], f"{here} imports {name}"


def test_every_public_name_can_be_reached():
    for name in nysketch.__all__:
        assert getattr(nysketch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nysketch.nothing
    assert set(nysketch.__all__) <= set(dir(nysketch))
