"""Run the transcripts of the tutorial and write their real output into it, and into the README's excerpts.

    python scripts/transcripts.py

A transcript is a block of shell commands and their output, after the line `<!-- transcript -->`. Those of the
tutorial are run from top to bottom in one folder. Those of the README are excerpts: the same commands, and of
their output perhaps only the first and the last lines, with a line `…` between them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIAL, README = ROOT / "docs" / "tutorial.md", ROOT / "README.md"
BLOCK = re.compile(r"(?<=<!-- transcript -->\n\n```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"\s+# .*$")
TIME = re.compile(r"in [\d.]+ s$")
ELISION = "…"


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines it printed."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def shell(command: str, folder: Path) -> list[str]:
    """Run a command in a folder, with `nysketch` and `python` of this checkout; return what it prints."""
    names = (
        f'nysketch() {{ "{sys.executable}" -m nysketch "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'
    )
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NYSKETCH_")}
    done = subprocess.run(
        ["bash", "-c", names + command],
        cwd=folder,
        env=kept | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout.rstrip("\n").splitlines()


def run(folder: Path) -> dict[str, list[str]]:
    """Run all transcripts of the tutorial in an empty folder; return what each command prints."""
    (folder / "scripts").symlink_to(ROOT / "scripts")
    commands = [command for block in BLOCK.findall(TUTORIAL.read_text()) for command, _ in steps(block)]
    return {COMMENT.sub("", command): shell(command, folder) for command in commands}


def written(lines: list[str], before: list[str]) -> list[str]:
    """Return the lines to write for a command, shortened as they were before."""
    if ELISION not in before:
        return lines
    head = before.index(ELISION)
    tail = len(before) - head - 1
    return [*lines[:head], ELISION, *lines[len(lines) - tail :]]


def updated(text: str, printed: dict[str, list[str]]) -> str:
    """Return a page with the output of its transcripts replaced."""

    def block(match: re.Match[str]) -> str:
        lines = []
        for command, before in steps(match[1]):
            output = written(printed[COMMENT.sub("", command)], before)
            times_apart = [[TIME.sub("", line) for line in part] for part in (before, output)]
            lines += [f"$ {command}", *(before if times_apart[0] == times_apart[1] else output)]
        return "".join(line + "\n" for line in lines)

    return BLOCK.sub(block, text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        printed = run(Path(folder))
    for page in (TUTORIAL, README):
        page.write_text(updated(page.read_text(), printed))


if __name__ == "__main__":
    main()
