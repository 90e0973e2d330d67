"""The peak memory of whole processes is within --memory: a part of the cases of scripts/bench/memory.py.

Each is a file that is hard to read in little memory, in a process of its own. All of the cases, and what they
took before memory was planned: docs/benchmarks/memory.md.
"""

import shutil

import pytest

from tests.helpers import ROOT, loaded

pytestmark = pytest.mark.slow

SHAPES = [
    "10 columns × 2,000,000 f8",
    "200 columns × 200,000 f8",
    "1,000 columns × 40,000 f4",
    "5,000 columns × 8,000 f4",
    "lists of 1536, fixed",
    "lists of 1536, any length",
    "row groups of 1,000 rows × 500",
    "one row group of 20 million × 3",
    "dictionaries of 8 MB × 20",
    "nested and unused columns",
    "HDF5, chunks of 300 MB",
    "Feather, lz4, one batch of 2,000,000 × 20",
    "Feather, mapped, one batch of 2,000,000 × 50",
    "40 constants, pages of 16 MB, no statistics",
]
# Those of the same file follow each other.
COMMANDS = [
    "200 columns, 2 threads",
    "independence, 200 columns",
    "basis, 200 columns",
    "assign, 200 columns",
    "score, 200 columns",
    "learn --refine, 200 columns",
    "run, 200 columns",
    "coreset, texts kept",
    "assign, texts kept",
]


@pytest.fixture(scope="module")
def bench():
    with loaded(ROOT / "scripts" / "bench" / "memory.py") as module:
        yield module


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    """Return the file of a case, which is made once for cases of the same file that follow each other."""
    made = {}

    def of(case):
        if case.make not in made:
            remove()
            path = tmp_path_factory.mktemp("case") / f"rows{case.suffix}"
            made[case.make] = path
            case.make(path)
        return made[case.make]

    def remove():
        while made:
            shutil.rmtree(made.popitem()[1].parent)

    yield of
    remove()


@pytest.mark.parametrize("name", [*SHAPES, *COMMANDS])
def test_the_peak_is_within_the_budget_or_the_number_that_a_refusal_names(bench, file_of, name):
    (case,) = (case for case in bench.CASES if case.name == name)
    path = file_of(case)
    budget, peak, share, _ = bench.row_of(case, path, path.parent, ROOT, cold=False)
    assert share, f"{budget} {peak}"  # that it failed, and why
    assert 0 < float(share) <= 1, (budget, peak)
