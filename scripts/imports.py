"""What imports what in the package, read from the source without importing it: `python scripts/imports.py`.

Prints the packages from the bottom to the top with their modules and lines, then the import cycles;
`--walk nysketch.cli.sketch` prints all that a module imports, directly or not.
tests/project/test_layers.py checks what is read here.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NAME = "nysketch"

# Each package (or module of the root) may import those before it, and itself.
ORDER = [
    "errors",
    "_types",
    "_support",
    "kinds",
    "columns",
    "provenance",
    "kernels",
    "basis",
    "tiles",
    "accumulators",
    "sketches",
    "twosample",
    "hsic",
    "sources",
    "files",
    "engines",
    "passes",
    "models",
    "learning",
    "coresets",
    "estimators",
    "jobs",
    "plotting",
    "report",
    "api",
    "cli",
]


@dataclass(frozen=True)
class Import:
    """One import: in which file and function, and of what.

    `target` is a module of the package, or the name at the front of another library's; `found` is False
    where it should be a module of the package and there is none. `dynamic` says that the name is not
    written out, so that only its beginning is known.
    """

    module: str
    file: str
    line: int
    function: str | None
    typing: bool
    target: str
    found: bool = True
    dynamic: bool = False

    @property
    def inside(self) -> bool:
        """Whether the target belongs to the package."""
        return self.target.split(".")[0] == NAME


@dataclass(frozen=True)
class Module:
    """A file of the package: `file` is its path from there, with slashes."""

    name: str
    file: str
    text: str

    @property
    def is_package(self) -> bool:
        """Whether it is an `__init__.py`."""
        return self.file.endswith("__init__.py")

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def home(self) -> str | None:
        """The package of ORDER it belongs to; None for the root and what has no place."""
        first, _, rest = self.file.partition("/")
        package = first if rest else first.removesuffix(".py")
        return package if package in ORDER else None


class Package:
    """All modules of the package in a directory, and their imports."""

    def __init__(self, directory: Path) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(directory.rglob("*.py")):
            file = path.relative_to(directory).as_posix()
            name = ".".join([NAME, *file.removesuffix(".py").removesuffix("__init__").split("/")]).rstrip(".")
            self.modules[name] = Module(name, file, path.read_text())

    @cached_property
    def imports(self) -> list[Import]:
        """Every import: of modules and functions, for types only, by statement or by a string."""
        return [found for module in self.modules.values() for found in self._imports(module)]

    @cached_property
    def public(self) -> dict[str, str]:
        """The modules of the names that the root offers and loads when they are asked for."""
        tree = self.modules[NAME].tree
        for node in tree.body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["_HOME"]:
                homes: dict[str, str] = ast.literal_eval(node.value)
                return homes
        return {}

    def members(self, home: str) -> list[Module]:
        """Return the modules that belong to a package of ORDER."""
        return [module for module in self.modules.values() if module.home == home]

    def _imports(self, module: Module) -> Iterator[Import]:
        for node, function, typing in _walked(module.tree):
            for target, found, dynamic in dict.fromkeys(self._targets(module, node)):
                yield Import(module.name, module.file, node.lineno, function, typing, target, found, dynamic)

    def _targets(self, module: Module, node: ast.AST) -> Iterator[tuple[str, bool, bool]]:
        """Yield the targets of a node with whether they exist and whether a part of them is unknown."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield *self._resolved(alias.name), False
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node.level, node.module or "")
            if base == NAME:
                for alias in node.names:
                    yield *self._of_root(alias.name), False
            elif base.split(".")[0] == NAME:
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield (inner, True, False) if inner in self.modules else (*self._resolved(base), False)
            else:
                yield base.split(".")[0], True, False
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                dots = len(argument.value) - len(argument.value.lstrip("."))
                yield *self._resolved(_absolute(module, dots, argument.value[dots:])), False
            else:
                yield NAME, True, True

    def _resolved(self, name: str) -> tuple[str, bool]:
        top = name.split(".")[0]
        return (name, name in self.modules) if top == NAME else (top, True)

    def _of_root(self, name: str) -> tuple[str, bool]:
        """Resolve `from nysketch import name`: a module, a name loaded when asked for, or a plain one."""
        if f"{NAME}.{name}" in self.modules:
            return f"{NAME}.{name}", True
        if name in self.public:
            return self._resolved(self.public[name])
        return (NAME, True) if name.startswith("__") else (f"{NAME}.{name}", False)


def _walked(
    node: ast.AST, function: str | None = None, scope: str = "", typing: bool = False
) -> Iterator[tuple[ast.stmt | ast.expr, str | None, bool]]:
    """Yield every statement and expression, the function it is in, and whether it is for types only."""
    for child in ast.iter_child_nodes(node):
        inner, inner_scope, inner_typing = function, scope, typing
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner_scope = f"{scope}{child.name}."
            if not isinstance(child, ast.ClassDef):
                inner = inner_scope[:-1]
        elif isinstance(node, ast.If) and child in node.body and "TYPE_CHECKING" in ast.unparse(node.test):
            inner_typing = True
        if isinstance(child, ast.stmt | ast.expr):
            yield child, inner, inner_typing
        yield from _walked(child, inner, inner_scope, inner_typing)


def _absolute(module: Module, level: int, name: str) -> str:
    """Return the full name of what a module calls by a name behind so many dots."""
    if not level:
        return name
    parts = module.name.split(".")
    around = parts[: len(parts) - level + module.is_package]
    return ".".join([*around, *filter(None, [name])])


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def cycles(modules: Iterable[str], imports: Iterable[Import]) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle: strongly connected components."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for found in imports:
        if found.target in graph:
            graph[found.module].add(found.target)
    # A module is in a cycle if it can be reached from itself; those of a cycle reach the same modules.
    reached = {name: reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a module by one import or more."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--package", type=Path, default=Path(__file__).parent.parent, metavar="CHECKOUT")
    parser.add_argument("--walk", metavar="MODULE", help="print all that a module imports")
    arguments = parser.parse_args()
    package = Package(arguments.package / NAME)
    if arguments.walk:
        walk(package, arguments.walk)
        return
    for home in ORDER:
        members = package.members(home)
        print(f"{home:<14}{len(members):>4} modules{sum(module.lines for module in members):>7} lines")
    running = [found for found in package.imports if not found.typing]
    for title, imports in (
        ("when modules are loaded", [found for found in running if found.function is None]),
        ("with those inside functions", running),
        ("with those for types", package.imports),
    ):
        # The root offers names of all packages, and would close circles through everything.
        found = cycles(package.modules, [edge for edge in imports if edge.module != NAME])
        print(f"\nCycles {title}: {len(found)}")
        for cycle in found:
            print(f"  {len(cycle)}: " + ", ".join(name.removeprefix(f"{NAME}.") for name in cycle))


def walk(package: Package, start: str) -> None:
    """Print what a module imports, depth first and in the order of its lines; `·` where inside a function."""
    if start not in package.modules:
        raise SystemExit(f"there is no module {start}")
    seen = {start}

    def descend(name: str, depth: int) -> None:
        for found in package.imports:
            if found.module == name and found.inside and not found.typing and found.target not in seen:
                seen.add(found.target)
                mark = "·" if found.function else " "
                print(f"{mark}{'  ' * depth}{found.target.removeprefix(f'{NAME}.')}")
                if found.target != NAME:
                    descend(found.target, depth + 1)

    descend(start, 0)
    print(f"{len(seen)} modules")


if __name__ == "__main__":
    main()
