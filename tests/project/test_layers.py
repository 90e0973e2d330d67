"""The architecture, checked: imports go one way, importing is cheap, and every file is where it belongs.

The lists of exceptions are exact: an exception that is no longer one must be removed from its list.
"""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.cli import COMMANDS
from scripts.imports import NAME, ORDER, Package, cycles, reachable

DIRECTORY = Path(nysketch.__file__).parent
PACKAGE = Package(DIRECTORY)
MODULES = PACKAGE.modules
FILES = {module.file: module for module in MODULES.values()}
HEAVY = {"pyarrow", "h5py", "click", "tqdm", "numba"}

# Imports that go up, or back to where they come from: file, function, what.
UPWARD = {
    ("basis/base.py", "Basis.fit", "nysketch.passes.pilot"),  # people look for it there
    ("basis/base.py", "Basis._at_rows", "nysketch.passes.rows"),  # as for features and embeddings of rows
}

# Imports of names that are put together when they run.
DYNAMIC = {
    ("__init__.py", "__getattr__"),  # public names are loaded when first used
    ("cli/__init__.py", "_load"),  # so are commands
}

# They load the compiler, and are imported inside functions only; so may modules whose names begin with _.
COMPILED = {
    "_support/jit.py",  # what the others are compiled by
}

# Coresets of data, which is read: all others of coresets are algebra.
FROM_DATA = {"coresets/files.py", "coresets/fragments.py", "coresets/from_data.py"}

# Commands that use other commands: file, what.
COMMANDS_IN_COMMANDS = set()

# Outside of cli: file, library.
TERMINAL = set()

# `__init__.py` with more than a map and names of other modules.
LOGIC_IN_INIT = set()

# More than 450 lines, and why; three at most.
LONG = {
    "estimators.py",  # two estimators with all that scikit-learn asks of them
}

ROOT = {"__init__", "__main__", "_version", "errors", "_types", "columns", "provenance", "estimators"}


def exactly(found, allowed):
    found, allowed = set(found), set(allowed)
    assert not found - allowed, f"not allowed: {sorted(found - allowed, key=str)}"
    assert not allowed - found, f"no exception any more, remove it: {sorted(allowed - found, key=str)}"


def place(found):
    return found.file, found.function, found.target


def test_every_module_has_a_place_in_the_order():
    lost = {module.file for module in MODULES.values() if module.home is None}
    assert lost <= {"__init__.py", "__main__.py"}


@pytest.mark.slow
def test_every_import_is_of_a_module_that_exists():
    assert not [place(found) for found in PACKAGE.imports if not found.found]
    exactly({(found.file, found.function) for found in PACKAGE.imports if found.dynamic}, DYNAMIC)


def goes_up(found):
    """Whether a module imports one of a later package; the root, which offers names of all, has no place."""
    if not found.inside or not found.found:
        return False
    here, there = MODULES[found.module].home, MODULES[found.target].home
    return here in ORDER and there in ORDER and ORDER.index(there) > ORDER.index(here)


def goes_back(found):
    """Whether an import closes a circle of imports, besides the listed ones."""
    graph = {name: set() for name in MODULES}
    for other in running():
        if place(other) not in UPWARD:
            graph[other.module].add(other.target)
    return found.module in reachable(graph, found.target)


def running():
    """Return the imports that are more than types; those of the root wait until a name is asked for."""
    inside = [found for found in PACKAGE.imports if found.inside and found.found]
    return [found for found in inside if not found.typing and found.module != NAME]


def test_imports_go_one_way():
    up = {place(found) for found in PACKAGE.imports if goes_up(found)}
    back = {place(found) for found in PACKAGE.imports if place(found) in UPWARD and goes_back(found)}
    exactly(up | back, UPWARD)


def test_there_are_no_cycles():
    assert not cycles(MODULES, [found for found in running() if found.function is None])
    assert not cycles(MODULES, [found for found in running() if place(found) not in UPWARD])


def algebra():
    """Return the files that need neither data nor terminals, by package."""
    packages = [*takewhile(lambda home: home != "twosample", ORDER), "twosample", "hsic"]
    parts = {home: [module.file for module in PACKAGE.members(home)] for home in packages}
    parts["decode"] = [file for file in FILES if re.match(r"learning/decode/", file)]
    parts["coresets"] = [
        module.file for module in PACKAGE.members("coresets") if module.file not in FROM_DATA
    ]
    return {name: files for name, files in parts.items() if files}


def is_compiled(file):
    name = file.rpartition("/")[2]
    return file in COMPILED or (name.startswith("_") and name not in ("__init__.py", "_types.py"))


ALGEBRA = algebra()


@pytest.mark.slow
@pytest.mark.parametrize("package", ALGEBRA)
def test_the_algebra_and_below_need_neither_files_nor_terminals_nor_compilers(package):
    compiled = [FILES[file].name for file in ALGEBRA[package] if is_compiled(file)]
    others = [FILES[file].name for file in ALGEBRA[package] if not is_compiled(file)]
    assert loaded_by(f"import {', '.join(others)}") & HEAVY <= ({"numba"} if package == "tiles" else set())
    if compiled:
        assert loaded_by(f"import {', '.join(compiled)}") & HEAVY <= {"numba"}


def test_compiled_modules_are_listed():
    graph = {name: set() for name in MODULES}
    for found in running():
        if found.function is None:
            graph[found.module].add(found.target)
    direct = {one.module for one in PACKAGE.imports if one.target == "numba" and one.function is None}
    loading = {name for name in MODULES if direct & ({name} | reachable(graph, name))}
    found = {
        file
        for package, files in ALGEBRA.items()
        for file in files
        if package != "tiles" and FILES[file].name in loading and not file.rpartition("/")[2].startswith("_")
    }
    exactly(found, COMPILED)


def loaded_by(statement):
    code = f"{statement}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_else():
    assert not (HEAVY | {"numpy", "scipy"}) & loaded_by("import nysketch")


def test_loading_a_sketch_needs_no_compiler():
    assert not {"numba", "pyarrow", "h5py"} & loaded_by("from nysketch import load, save, Sketch, Basis")


def test_commands_do_not_use_each_other():
    commands = {f"{NAME}.cli.{name}" for name in COMMANDS}
    used = {
        (found.file, found.target)
        for found in PACKAGE.imports
        if found.target in commands and found.target != found.module
    }
    exactly(used, COMMANDS_IN_COMMANDS)


def test_only_the_command_line_knows_terminals():
    used = {
        (found.file, found.target)
        for found in PACKAGE.imports
        if found.target in ("click", "tqdm") and not found.file.startswith("cli/")
    }
    exactly(used, TERMINAL)


def test_packages_hold_maps_and_names_only():
    def logical(module):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return module.lines > 80 or any(isinstance(node, kinds) for node in ast.walk(module.tree))

    packages = [module for module in MODULES.values() if module.is_package]
    excepted = ("__init__.py", "cli/__init__.py")
    exactly({m.file for m in packages if m.file not in excepted and logical(m)}, LOGIC_IN_INIT)


def test_modules_are_short():
    assert len(LONG) <= 3
    exactly({module.file for module in MODULES.values() if module.lines > 450}, LONG)


def listed(module):
    """Return what a package's docstring lists: lines that begin with `name.py`, or `name/` for a package."""
    lines = (ast.get_docstring(module.tree) or "").splitlines()
    starts = [re.match(r"(\w+(\.py|/)(, )?)+(?=\s|$)", line) for line in lines]
    return [name for start in starts if start for name in start[0].split(", ")]


def contents(module):
    """Return the modules and packages that a package should list; commands are in COMMANDS instead."""
    inside = module.file.removesuffix("__init__.py")
    below = [file.removeprefix(inside).partition("/") for file in FILES if file.startswith(inside)]
    names = {first + slash for first, slash, _ in below}
    commands = {f"{name}.py" for name in COMMANDS} if module.file == "cli/__init__.py" else set()
    return names - commands - {"__init__.py", "__main__.py", "_version.py"}


def test_packages_list_their_modules():
    packages = [module for module in MODULES.values() if module.is_package]
    assert not [m.file for m in packages if sorted(listed(m)) != sorted(contents(m))]
    names = [name.removesuffix(".py").removesuffix("/") for name in listed(MODULES[NAME])]
    assert names == [home for home in ORDER if home in names], "list them from the bottom to the top"


def test_files_in_docstrings_exist():
    def unknown(module):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(module.tree):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            for name in re.findall(r"[\w/]+\.py\b", text or ""):
                if not any(f"/{NAME}/{file}".endswith(f"/{name}") for file in FILES):
                    yield module.file, name

    assert not [found for module in MODULES.values() for found in unknown(module)]


def test_the_root_holds_what_has_no_package_only():
    for file in FILES:
        first, slash, _ = file.partition("/")
        name = first.removesuffix(".py")
        assert name not in nysketch.__all__, f"{first} has the name of something public"
        assert name in (set(ORDER) - ROOT if slash else ROOT), f"{file} belongs elsewhere"


@pytest.mark.parametrize(
    ("row", "options", "others"),
    [("settings", PassOptions, {"basis"}), ("settings.basis", BasisOptions, set())],
)
def test_stored_settings_are_documented(row, options, others):
    # They are in every sketch: a field that is renamed makes old files unlike new ones.
    text = (DIRECTORY.parent / "FORMAT.md").read_text()
    (line,) = re.findall(rf"^\| `{re.escape(row)}` \| sketch \| (.*) \|$", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", line)) == {field.name for field in fields(options)} | others


def test_every_public_name_can_be_reached():
    for name in nysketch.__all__:
        assert getattr(nysketch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nysketch.nothing
    assert set(nysketch.__all__) <= set(dir(nysketch))


def test_no_kind_of_import_is_overlooked(tmp_path):
    for name, text in {
        "__init__.py": "_HOME = {'thing': 'nysketch.lower'}\n__version__ = '1'\n",
        "lower.py": "import numpy as np\n",
        "upper/__init__.py": "from . import part\n",
        "upper/part.py": """
from typing import TYPE_CHECKING
from importlib import import_module
import nysketch.lower as low
from nysketch import __version__, thing, upper
from .missing import something
if TYPE_CHECKING:
    from nysketch.upper import part
class Some:
    def method(self, name):
        from ..lower import np
        import_module("nysketch.nowhere")
        import_module(".part", __package__)
        __import__(f"nysketch.{name}")
""",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    package = Package(tmp_path)
    found = {
        (one.target, one.function, "T" * one.typing + "?" * (not one.found) + "*" * one.dynamic)
        for one in package.imports
        if one.module == "nysketch.upper.part" and one.inside
    }
    assert found == {
        ("nysketch.lower", None, ""),
        ("nysketch", None, ""),
        ("nysketch.upper", None, ""),
        ("nysketch.upper.missing", None, "?"),
        ("nysketch.upper.part", None, "T"),
        ("nysketch.lower", "Some.method", ""),
        ("nysketch.nowhere", "Some.method", "?"),
        ("nysketch.upper.part", "Some.method", ""),
        ("nysketch", "Some.method", "*"),
    }
    loading = [one for one in package.imports if one.function is None and not one.typing]
    assert cycles(package.modules, loading) == [["nysketch.upper", "nysketch.upper.part"]]
