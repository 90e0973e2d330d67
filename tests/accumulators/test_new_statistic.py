"""A worked example: a ninth statistic is one class and one line in the list, and everything else follows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import nysketch
from nysketch.accumulators import tally as tally_module
from nysketch.accumulators.protocol import Memory, Statistic
from nysketch.passes import memory as memory_module


@dataclass(frozen=True, eq=False)
class NegativeValues(Statistic):
    """How many values of each feature are below 0."""

    counts: np.ndarray

    noun = "counts of negative values"
    absent_description: ClassVar = {"negative": False}
    absent_summary: ClassVar = {"negative": None}

    @classmethod
    def zeros(cls, basis, options):
        return cls(np.zeros(basis.d, np.int64))

    def __add__(self, other):
        return NegativeValues(self.counts + other.counts)

    def __sub__(self, other):
        return NegativeValues(self.counts - other.counts)

    def describe(self):
        return {"negative": True}

    def arrays(self):
        return {"negative.counts": self.counts}

    @classmethod
    def from_parts(cls, description, arrays, basis, *, weighted):
        return cls(arrays["negative.counts"]) if description.get("negative", False) else None

    def check(self, basis, tally):
        if self.counts.shape != (basis.d,) or (self.counts < 0).any() or (self.counts > tally.rows).any():
            raise ValueError("its counts of negative values are impossible")

    def summary(self, basis):
        return {"negative": self.counts.tolist()}

    @classmethod
    def memory(cls, size, options):
        return Memory(fixed=8 * size.d, per_thread=8 * size.d, stored=8 * size.d)

    def collectors(self, basis, options):
        return lambda chunk_rows: _Collector(basis.d)

    def running(self, basis, options):
        return _Running(self.counts)


class _Collector:
    def __init__(self, d):
        self._d = d

    def begin(self, evaluation, limit):
        self._counts = np.zeros(self._d, np.int64)

    def add(self, evaluated):
        self._counts += (evaluated.chunk.rows[evaluated.order] < 0).sum(axis=0)

    def finish(self):
        return self._counts


class _Running:
    limit = None

    def __init__(self, counts):
        self._counts = counts.copy()

    def holds(self, part):
        return True

    def add(self, part):
        self._counts += part

    def snapshot(self):
        return NegativeValues(self._counts.copy())


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    """The one line that the package itself would need."""
    more = (*tally_module.STATISTICS, NegativeValues)
    for module in (tally_module, memory_module):
        monkeypatch.setattr(module, "STATISTICS", more)


def test_it_is_collected_added_stored_checked_and_described(tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal([0.0, 1.0, 5.0], size=(5000, 3))
    basis = nysketch.Basis.fit(rows, landmarks=20)
    first, second = (nysketch.sketch(part, basis=basis, threads=2) for part in (rows[:3000], rows[3000:]))
    nysketch.save(first + second, tmp_path / "s.nysk")
    read = nysketch.load(tmp_path / "s.nysk")
    expected = (rows < 0).sum(axis=0).tolist()
    assert read.tally[NegativeValues].counts.tolist() == expected
    assert read.tally.summary(basis)["negative"] == expected
    assert (read - second).tally[NegativeValues].counts.tolist() == (rows[:3000] < 0).sum(axis=0).tolist()
    wrong = NegativeValues(read.tally[NegativeValues].counts + 5000)
    with pytest.raises(ValueError, match="counts of negative values"):
        read.tally.replacing(wrong).check(basis)


def test_files_from_before_it_have_none(tmp_path, monkeypatch):
    rows = np.random.default_rng(1).normal(size=(500, 2))
    with monkeypatch.context() as before:
        before.setattr(tally_module, "STATISTICS", tally_module.STATISTICS[:-1])
        nysketch.save(nysketch.sketch(rows, landmarks=10), tmp_path / "old.nysk")
    old = nysketch.load(tmp_path / "old.nysk")
    assert old.tally.get(NegativeValues) is None
    assert (old + nysketch.sketch(rows, basis=old.basis)).tally.get(NegativeValues) is None
