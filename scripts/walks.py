"""How many modules a reader of a command has to open: `python scripts/walks.py`.

Runs small commands in this process and notes which functions of the package they call. A step is the first
call of a function, or of what is defined inside it; so loops and helpers that are called everywhere count
once. The modules of the steps, without repeats of the one before, are the walk of a command. Printed are

places    how many entries of the package's own directory it passes through: packages, and modules beside them
modules   how many different modules it enters, and how many of them are at the root
again     how many of these it enters again, for another function, after having been in others
steps     how long it is; if no module were entered again, as long as there are modules

and the modules in the order in which they are entered first, with × and how often where it is more than once.
Each command runs twice, and the second time counts: importing and compiling are left out. Calls of compiled
functions are not seen. Rows are read by one thread beside the one that waits for it, so steps may differ by
one or two from run to run. `--package CHECKOUT` measures another checkout in the same way.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from inspect import CO_OPTIMIZED
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch
from nysketch.cli import main as nysketch_main

PACKAGE = Path(nysketch.__file__).parent
INSIDE = f"{PACKAGE}{os.sep}"
COMMANDS = {
    "sketch": "sketch days/2024-01-01.parquet -o new.nysk -m 50 --threads 1",
    "learn": "learn kmeans first.nysk -k 3 -o model.json --threads 1",
    "compare": "compare first.nysk second.nysk",
    "coreset": "coreset days/2024-01-01.parquet -o rows.parquet -s 10 -m 50 --threads 1",
    "run": "run job.toml --threads 1",
}
JOB = """
[job]
store = "store"
[inputs]
paths = "days/{date}.parquet"
[basis]
landmarks = 50
[[windows]]
last = "all"
[[models]]
name = "clusters"
kind = "kmeans"
k = 3
window = "all"
[[comparisons]]
against = "previous"
[report]
output = "report.html"
"""


class Walk:
    """The files of the package whose functions are called for the first time within, in order."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._steps: list[str] = []

    def __enter__(self) -> Walk:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *problem: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def files(self) -> list[str]:
        """The files, without repeats of the one before."""
        return [file for file, _ in groupby(self._steps)]

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Bodies of modules and classes are entered, too, but are not functions.
        if event != "call" or not code.co_flags & CO_OPTIMIZED or not code.co_filename.startswith(INSIDE):
            return
        function = code.co_filename, code.co_qualname.partition(".<locals>")[0]
        if function not in self._known:
            self._known.add(function)
            self._steps.append(Path(code.co_filename.removeprefix(INSIDE)).as_posix())


def prepare() -> None:
    """Write three days of rows, sketches of two of them, and a job."""
    random = np.random.default_rng(0)
    Path("days").mkdir()
    for day in range(3):
        rows = random.normal(size=(2000, 3)) + random.integers(0, 3, (2000, 1)) * 5
        table = pa.table({name: rows[:, i] for i, name in enumerate("xyz")})
        pq.write_table(table, f"days/2024-01-0{day + 1}.parquet")
    Path("job.toml").write_text(JOB)
    run("sketch days/2024-01-01.parquet -o first.nysk -m 50")
    run("sketch days/2024-01-02.parquet -o second.nysk --basis first.nysk")


def run(command: str) -> None:
    """Run a command, as a shell would."""
    sys.argv = ["nysketch", *command.split()]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            nysketch_main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{command}: {output.getvalue()}") from end


def measure(command: str) -> list[str]:
    """Return the walk of a command."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            prepare()
            with Walk() as walk:
                run(command)
    return walk.files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)}; all")
    parser.add_argument("--package", type=Path, metavar="CHECKOUT", help="measure the package there")
    arguments = parser.parse_args()
    if unknown := set(arguments.commands) - set(COMMANDS):
        parser.error(f"no walk of {', '.join(sorted(unknown))}: there are {', '.join(COMMANDS)}")
    if arguments.package and not PACKAGE.samefile(arguments.package / "nysketch"):
        environment = os.environ | {"PYTHONPATH": str(arguments.package.resolve())}
        if environment == os.environ:
            parser.error(f"Python finds {PACKAGE} first")
        command = [sys.executable, __file__, "--package", arguments.package, *arguments.commands]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    walks = {name: measure(COMMANDS[name]) for name in arguments.commands or COMMANDS}
    print("command    places  modules  at root  again  steps")
    for name, files in walks.items():
        times, places = Counter(files), {file.partition("/")[0] for file in files}
        root = sum("/" not in file for file in times)
        again = sum(count > 1 for count in times.values())
        print(f"{name:<10}{len(places):>7}{len(times):>9}{root:>9}{again:>7}{len(files):>7}")
    for name, files in walks.items():
        print(f"\n{name}: nysketch {COMMANDS[name]}")
        for file, count in Counter(files).items():
            print(f"  {file}" + (f" ×{count}" if count > 1 else ""))


if __name__ == "__main__":
    main()
