"""How long do small answers take? CPU seconds of whole processes: info, verify, merge.

    scripts/setup && .venv/bin/python scripts/bench/commands.py [--landmarks 1000] [--columns 10] [--repeat 5]

Sketches of 20,000 rows with default settings; user and system time of the process and nothing else, one
thread, the least of --repeat runs, beside an interpreter that imports NumPy. --software names checkouts of
other versions of this package to run the same commands with.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import nysketch

HERE = Path(nysketch.__file__).parent.parent
COMMANDS = {
    "python -c 'import numpy'": None,
    "nysketch --help": ["--help"],
    "nysketch info a.nysk": ["info", "a.nysk"],
    "nysketch info a.nysk --quality": ["info", "a.nysk", "--quality"],
    "nysketch info basis.nysk": ["info", "basis.nysk"],
    "nysketch verify a.nysk": ["verify", "a.nysk"],
    "nysketch merge a.nysk b.nysk": [
        "merge",
        "a.nysk",
        "b.nysk",
        "-o",
        "ab.nysk",
        "--if-exists",
        "overwrite",
    ],
}


def make(folder: Path, landmarks: int, columns: int) -> None:
    """Write a basis and two sketches of made rows."""
    random = np.random.default_rng(0)
    rows = [random.normal(size=(20_000, columns)).astype(np.float32) for _ in "ab"]
    basis = nysketch.Basis.fit(rows[0], landmarks=landmarks)
    nysketch.save(basis, folder / "basis.nysk")
    for name, part in zip("ab", rows, strict=True):
        nysketch.save(nysketch.sketch(part, basis=basis, threads=1, memory="4GB"), folder / f"{name}.nysk")


def seconds(arguments: list[str] | None, folder: Path, software: Path) -> float | None:
    """Return the CPU seconds of a process, or None if it fails: older software knows fewer options."""
    command = [
        sys.executable,
        *(["-c", "import numpy"] if arguments is None else ["-m", "nysketch", *arguments]),
    ]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(software),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--software", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    versions = [HERE, *(path.resolve() for path in options.software)]
    found: dict[str, list[float | None]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.landmarks, options.columns)
        size = (folder / "a.nysk").stat().st_size
        print(f"{options.landmarks} landmarks, {options.columns} columns, {size:,} bytes")
        for words, arguments in COMMANDS.items():
            runs = [
                [seconds(arguments, folder, version) for version in versions] for _ in range(options.repeat)
            ]
            found[words] = [
                None if None in times else min(t for t in times if t is not None)
                for times in zip(*runs, strict=True)
            ]
    names = ["here", *(path.name for path in options.software)]
    header = ["command", *(f"{name}, s" for name in names), *(f"{name} / here" for name in names[1:])]
    print(f"\n| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for words, times in found.items():
        shown = ["–" if t is None else f"{t:.2f}" for t in times]
        first = times[0]
        shown += ["–" if t is None or not first else f"{t / first:.1f}" for t in times[1:]]
        print(f"| `{words}` | {' | '.join(shown)} |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
