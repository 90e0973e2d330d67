"""Write the reference of the Python interface from its docstrings: `python scripts/python_reference.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import nysketch

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
# What functions return; people look up what it has.
RESULTS = {
    "KMeansModel": "nysketch.models.kmeans",
    "MixtureModel": "nysketch.models.mixture",
    "Score": "nysketch.models.score",
    "Comparison": "nysketch.twosample.results",
    "Comparisons": "nysketch.twosample.results",
    "Independence": "nysketch.hsic.independence",
    "Coreset": "nysketch.coresets.coreset",
}
TITLES = {
    "Sketch": ("sketch", "Basis", "Sketch", "Column", "info", "verify", "merge", "subtract", "export"),
    "Files": ("load", "save", "to_bytes", "from_bytes", "load_model", "save_model"),
    "Learn": ("learn_kmeans", "learn_gmm", "assign", "score", "SketchedKMeans", "SketchedGaussianMixture"),
    "Test": ("compare", "compare_all", "independence"),
    "Choose and draw": ("coreset", "plot"),
    "Operate": ("run", "status", "write_report"),
    "Errors and warnings": ("NysketchError", "NysketchWarning"),
}


def reference() -> str:
    """Return the page: one section per name, and one for each class of results."""
    parts = [
        "# Python\n\nMade from docstrings by `scripts/python_reference.py`; a test keeps it true. The\n"
        "[guide](../guides/python.md) shows these names in use; `help(nysketch.sketch)` prints the same.\n"
    ]
    for title, names in TITLES.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += described(f"nysketch.{name}", getattr(nysketch, name))
    parts.append("## Results\n")
    for name, module in RESULTS.items():
        __import__(module)
        parts += described(name, getattr(inspect.sys.modules[module], name))  # type: ignore[attr-defined]
    return "\n".join(parts).rstrip() + "\n"


def described(name: str, thing: Any) -> list[str]:
    """Return the section of a function or a class."""
    if inspect.isclass(thing):
        return [*section(name, thing, 3), *members(thing)]
    return section(name, thing, 3)


def members(cls: type) -> list[str]:
    """Return the attributes and methods that people use; long docstrings in sections of their own."""
    short, long = [], []
    for name, member in sorted(public(cls).items()):
        function = member.__func__ if isinstance(member, classmethod) else member
        text = inspect.getdoc(function) or ""
        if isinstance(member, property):
            short.append(f"- `{name}`: {first(text)}")
        elif "\n----" in text:
            long += section(f"{cls.__name__}.{name}", function, 4)
        elif callable(function):
            short.append(f"- `{name}{signature(function)}`: {first(text)}")
    return [*(["\n".join(short) + "\n"] if short else []), *long]


def public(cls: type) -> dict[str, Any]:
    """Return the members that have docstrings and no underscore, ours only."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("nysketch"):
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    documented = (classmethod, property)
    return {n: m for n, m in found.items() if isinstance(m, documented) or inspect.isfunction(m)}


def section(name: str, thing: Any, level: int) -> list[str]:
    """Return a heading, the signature, and the docstring as Markdown."""
    text = inspect.getdoc(thing) or ""
    parts = [f"{'#' * level} {name}\n"]
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        shown = f"{name}{signature(thing, wrapped=True)}"
        parts.append(f"```text\n{shown}\n```\n")
    parts.append(markdown(text))
    return parts


def signature(thing: Any, *, wrapped: bool = False) -> str:
    """Return parameters with their defaults; types are in the docstring."""
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kept = [p.replace(annotation=inspect.Parameter.empty) for p in given.parameters.values()]
    kept = [p for p in kept if p.name not in ("self", "cls")]
    text = str(inspect.Signature(kept))
    if not wrapped or len(text) < 80:
        return text
    inner = str(inspect.Signature(kept))[1:-1]
    return "(\n" + "".join(f"    {part},\n" for part in split_outside(inner)) + ")"


def split_outside(text: str) -> list[str]:
    """Split at commas that are not inside brackets or quotes."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def markdown(text: str) -> str:
    """Turn numpydoc sections into Markdown."""
    pieces = re.split(r"\n(?=[A-Z][a-z]+\n-{3,}\n)", text)
    parts = [plain(pieces[0].strip()) + "\n"] if pieces[0].strip() else []
    for piece in pieces[1:]:
        title, _, body = piece.split("\n", 2)
        if title == "Examples":
            parts.append(f"```python\n{body.strip()}\n```\n")
        else:
            parts.append(f"**{title}**\n\n{items(body)}\n")
    return "\n".join(parts)


def items(body: str) -> str:
    """Return the entries of a section as a list."""
    lines = []
    for line in body.rstrip().split("\n"):
        if not line.strip():
            continue
        if line.startswith(" "):
            lines[-1] += " " + line.strip()
        else:
            name, colon, kind = line.partition(" : ")
            words = ", ".join(f"`{word.strip()}`" for word in name.split(","))
            lines.append(f"- {words} ({kind}):" if colon else f"- {words}:")
    return "\n".join(plain(line.removesuffix(":")) for line in lines)


def first(text: str) -> str:
    """Return the first sentence, on one line."""
    return plain(" ".join(text.split("\n\n")[0].split()))


def plain(text: str) -> str:
    """Keep Markdown from reading markup where there is none."""
    return re.sub(r"(?<!`)<(?=[a-zA-Z/])", "&lt;", text)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
