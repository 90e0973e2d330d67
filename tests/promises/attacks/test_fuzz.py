"""A few mutations of every kind, the same each time; `python -m tests.promises.attacks.fuzz` tries more."""

import pytest

from tests.promises.attacks import fuzz
from tests.promises.attacks.outcomes import ACCEPTED, REFUSED, Outcome

OF_SECONDS = {"jobs", "sketches", "sources", "stores"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in OF_SECONDS)) for kind in fuzz.KINDS]
)
def test_mutations_are_refused_or_of_use(kind, tmp_path):
    outcomes = fuzz.run(kind, count=60, seed=1, folder=tmp_path)
    assert not fuzz.failures(outcomes)
    assert {outcome.result for outcome in outcomes.values()} >= {ACCEPTED, REFUSED}


def test_a_bug_is_a_failure_that_can_be_seen_again(tmp_path, monkeypatch):
    def mutate(random, folder):
        if random.random() < 0.5:
            raise KeyError("digest")
        return Outcome("none", REFUSED)

    monkeypatch.setitem(fuzz.KINDS, "broken", mutate)
    outcomes = fuzz.run("broken", count=20, seed=0, folder=tmp_path)
    failed = fuzz.failures(outcomes)
    assert 0 < len(failed) < 20
    number = next(iter(failed))
    assert "KeyError: 'digest'" in failed[number].detail
    assert fuzz.run("broken", count=1, seed=0, folder=tmp_path, first=number) == {number: failed[number]}
