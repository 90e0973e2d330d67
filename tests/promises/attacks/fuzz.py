"""Mutate files of nysketch's own at random, and look at what becomes of them.

    python -m tests.promises.attacks.fuzz --kind sketches --count 20000 --seed 0

Mutation number i of a kind depends on the kind, the seed and i alone: a failure is seen again with
`--first i --count 1`. A kind is a function in a file of its own (fuzz_sketches.py, …): it changes one file,
tries to use it, and returns the outcome. Whatever it raises, and whatever NumPy warns of, is a failure.
"""

import argparse
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.disturbances import PATIENCE
from tests.promises.attacks.fuzz_checkpoints import mutate_checkpoint
from tests.promises.attacks.fuzz_jobs import mutate_job, mutate_settings
from tests.promises.attacks.fuzz_models import mutate_model
from tests.promises.attacks.fuzz_sketches import mutate_sketch
from tests.promises.attacks.fuzz_sources import mutate_source
from tests.promises.attacks.fuzz_stores import mutate_store
from tests.promises.attacks.outcomes import FAILED, Outcome

KINDS: dict[str, Callable[[Random, Path], Outcome]] = {
    "checkpoints": mutate_checkpoint,
    "models": mutate_model,
    "sketches": mutate_sketch,
    "sources": mutate_source,
    "stores": mutate_store,
    "jobs": mutate_job,
    "settings": mutate_settings,
}

# A mutation that takes more CPU time, or so much memory more than all before it, has failed.
SECONDS, MEGABYTES = 60, 400


class TooLongError(BaseException):
    """A mutation keeps the program busy; no Exception, since those are caught."""


def _stop(*_):
    raise TooLongError


def one(kind, seed, number, folder):
    """Return the outcome of one mutation."""
    before = _peak_megabytes()
    for number_of_signal in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number_of_signal, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(PATIENCE)  # for what waits, and takes none
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            outcome = KINDS[kind](Random(f"{kind}:{seed}:{number}"), folder)
    except (Exception, TooLongError) as error:
        what = f"{type(error).__name__}: {str(error)[:200]}"
        outcome = Outcome("", FAILED, f"{what} @ {_place(error)}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    grown = _peak_megabytes() - before
    if number and grown > MEGABYTES:
        return Outcome(outcome.mutation, FAILED, f"{grown:.0f} MB more; otherwise {outcome.result}")
    return outcome


def _place(error):
    """Return where in nysketch an error is from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/nysketch/" in frame.filename] or frames
    return f"{ours[-1].filename.rpartition('/nysketch/')[2]}:{ours[-1].lineno}"


def _peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(kind, *, count, seed, folder, first=0):
    """Return the outcomes of so many mutations, by their numbers."""
    return {number: one(kind, seed, number, folder) for number in range(first, first + count)}


def failures(outcomes):
    """Return what failed, by number."""
    return {n: outcome for n, outcome in outcomes.items() if outcome.result == FAILED}


def main(args=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=KINDS)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args(args)
    sys.stdout.reconfigure(errors="backslashreplace")  # names may be half of a pair of letters
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(given.kind, count=given.count, seed=given.seed, folder=Path(folder), first=given.first)
    print(f"{given.kind}, seed {given.seed}, {given.first} to {given.first + given.count - 1}:")
    for result, count in sorted(Counter(outcome.result for outcome in outcomes.values()).items()):
        print(f"  {result:10} {count:8,}")
    for (mutation, result), count in sorted(
        Counter((o.mutation, o.result) for o in outcomes.values()).items()
    ):
        print(f"    {mutation:40} {result:10} {count:8,}")
    failed = failures(outcomes)
    again = f"--kind {given.kind} --seed {given.seed} --count 1"
    alike = {detail: [] for detail in dict.fromkeys(outcome.detail for outcome in failed.values())}
    for number, outcome in failed.items():
        alike[outcome.detail].append(number)
    for detail, numbers in alike.items():
        print(f"  {len(numbers):,} times, see {again} --first {numbers[0]}: {detail}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
