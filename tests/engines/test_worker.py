"""What workers do and say, without a cluster."""

from dataclasses import replace

import pytest

from nysketch.engines.dask.worker import (
    PIECES,
    RESULTS,
    TOTAL,
    Shipped,
    WorkerReport,
    add_up,
    inspect_worker,
    run_group,
    software,
    unfit_workers,
)
from nysketch.errors import InputError, InvalidRowsError, UnreadableError
from tests.engines.works import Count, Pieces


def group_of(work, fragments, how):
    return run_group(Shipped(work, software()), fragments, how)


def total_of(work, outcomes):
    return add_up(Shipped(work, software()), outcomes)


@pytest.fixture
def fragments(source):
    return list(source.fragments())


def test_a_group_ends_at_the_first_failure(source, fragments, notes):
    outcome = group_of(Count(source, notes, failing={3: 1}), fragments[:6], RESULTS)
    assert [f.number for f in outcome.done] == [0, 1, 2]
    assert outcome.value == [(f.rows, [f.number]) for f in fragments[:3]]
    (failure,) = outcome.failures
    assert [f.number for f in failure.rest] == [3, 4, 5]
    assert failure.fragment is fragments[3]
    assert isinstance(failure.error, UnreadableError) and failure.again
    assert outcome.rows == 300 and outcome.seconds > 0


def test_pieces_of_a_fragment_that_fails_are_not_sent(source, fragments, notes):
    outcome = group_of(Pieces(source, notes, failing={1: 1}), fragments[:3], PIECES)
    assert outcome.value == [[(0, 0), (0, 50)]]


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (UnreadableError("unreadable"), True),
        (InputError("other rows than declared"), False),
        (caused(InputError("not here"), FileNotFoundError("not here")), True),
        (InvalidRowsError("NaN"), False),
        (OSError("too many open files"), True),
        (MemoryError(), True),
        (ZeroDivisionError("a bug"), False),
    ],
)
def test_only_what_may_get_better_is_worth_trying_again(source, fragments, error, again):
    class Failing(Count):
        def __call__(self, fragment, check):
            raise error

    (failure,) = group_of(Failing(source, None), fragments[:1], TOTAL).failures
    assert failure.again is again
    assert str(error) in str(failure.error)
    if not isinstance(error, InputError):
        assert "row group 0: failed with" in str(failure.error)


def test_a_group_that_fails_at_once_adds_nothing(source, fragments, notes):
    work = Count(source, notes, failing={0: 1})
    outcomes = [group_of(work, fragments[:2], TOTAL), group_of(work, fragments[2:5], TOTAL)]
    assert outcomes[0].value is None
    together = total_of(work, outcomes)
    assert together.value == (300, [2, 3, 4])
    assert [f.number for f in together.done] == [2, 3, 4]
    assert [f.number for failure in together.failures for f in failure.rest] == [0, 1]
    nothing = total_of(work, outcomes[:1])
    assert nothing.value is None and not nothing.done


def test_totals_are_the_same_in_whatever_steps_they_are_added(source, fragments, notes):
    work = Count(source, notes)
    groups = [group_of(work, fragments[i : i + 7], TOTAL) for i in range(0, len(fragments), 7)]
    steps = add_up(
        Shipped(work, software()),
        [
            total_of(work, groups[:2]),
            groups[2],
            total_of(work, groups[3:]),
        ],
    )
    assert steps.value == total_of(work, groups).value


def test_a_worker_like_this_process_is_fit(source):
    assert unfit_workers({"tcp://a": inspect_worker(source.some_files(8))}) == ([], [])


def test_workers_are_told_apart_by_what_they_lack():
    fine, ours = WorkerReport(software=software()), software()
    cannot, may_differ = unfit_workers(
        {
            "tcp://a": fine,
            "tcp://b": replace(fine, software=ours | {"nysketch": "9"}),
            "tcp://c": replace(fine, problems=("x.parquet: no such file",)),
            "tcp://d": replace(fine, software=ours | {"numpy": "9"}),
            "tcp://e": ModuleNotFoundError("No module named 'nysketch'"),
            "tcp://f": RuntimeError("what"),
        }
    )
    assert [text.split(":")[1].split(" ")[0] for text in cannot] == ["//b", "//c", "//e", "//f"]
    assert "nysketch 9, here" in cannot[0]
    assert "x.parquet: no such file" in cannot[1]
    assert "has no nysketch of this version" in cannot[2]
    assert "RuntimeError: what" in cannot[3]
    assert len(may_differ) == 1 and "numpy 9, here" in may_differ[0]


def test_work_made_with_other_software_is_not_run(source, fragments, notes):
    shipped = Shipped(Count(source, notes), software() | {"nysketch": "9"})
    outcome = run_group(shipped, fragments[:2], TOTAL)
    assert not outcome.done
    (failure,) = outcome.failures
    assert failure.again and "here 9" in str(failure.error)
    fine = Shipped(Count(source, notes), software() | {"numpy": "9"})
    assert len(run_group(fine, fragments[:2], TOTAL).done) == 2


def test_a_few_files_stand_for_many(source):
    assert len(source.some_files(8)) == 3
    assert len(source.some_files(2)) == 2
    assert [location.name for location, _ in source.some_files(1)] == [source.local_paths[0]]
