"""Groups of fragments: all of them, in order, and as large as seconds allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.engines.dask.batching import Groups
from nysketch.sources.protocol import Fragment

sizes = st.lists(st.integers(0, 10_000), max_size=60)


def fragments(rows):
    return [Fragment(i, 0, count, f"fragment {i}", 0, 0) for i, count in enumerate(rows)]


def taken(groups):
    while groups:
        yield groups.take()


@given(sizes, st.floats(0.001, 100), st.integers(1, 10**6))
def test_every_fragment_is_in_one_group_in_order(rows, seconds, rate):
    groups = Groups(fragments(rows), seconds=seconds)
    groups.learn(rate, 1.0)
    assert [f.number for group in taken(groups) for f in group] == list(range(len(rows)))


@given(sizes.filter(bool), st.floats(0.001, 100), st.integers(1, 10**6), st.none() | st.integers(1, 20_000))
def test_groups_have_room_for_no_more_and_use_it(rows, seconds, rate, most):
    groups = Groups(fragments(rows), seconds=seconds, most_rows=most)
    groups.learn(rate, 1.0)
    room = min(seconds * rate, most or 10**12)
    all_groups = list(taken(groups))
    for group, following in zip(all_groups, [*all_groups[1:], ()], strict=True):
        assert len(group) == 1 or sum(f.rows for f in group) <= room
        assert not following or sum(f.rows for f in group) + following[0].rows > room


def test_before_anything_is_known_fragments_go_one_by_one():
    groups = Groups(fragments([10, 20, 30]))
    assert [len(group) for group in taken(groups)] == [1, 1, 1]


def test_nothing_is_learned_from_nothing():
    groups = Groups(fragments([10, 20]))
    groups.learn(0, 3.0)
    groups.serve(2, 30)
    assert groups.rows_per_group == 0


def test_what_was_learned_last_counts_most():
    groups = Groups(fragments([1] * 10), seconds=2)
    for _ in range(100):
        groups.learn(1000, 1.0)
    for _ in range(100):
        groups.learn(10, 1.0)
    assert 20 <= groups.rows_per_group < 25


@pytest.mark.parametrize(
    ("threads", "rows", "seconds"),
    [
        (100, 10**9, 2),  # groups of two seconds keep no scheduler busy
        (4000, 10**9, 16),  # one every four milliseconds
        (4000, 10**6, 2),  # 1,000 seconds of work: rather small groups for all
        (4000, 10**7, 6.3),  # in between
    ],
)
def test_large_clusters_get_large_groups(threads, rows, seconds):
    groups = Groups(fragments([1] * 10), seconds=2)
    groups.serve(threads, rows)
    assert groups.rows_per_group == 0  # nothing is known yet
    groups.learn(1000, 1.0)
    groups.serve(threads, rows)
    assert groups.rows_per_group == pytest.approx(1000 * seconds, rel=0.01)


def test_what_is_put_back_comes_first_and_whole():
    groups = Groups(fragments([5, 5, 5, 5]))
    groups.take()
    again = tuple(fragments([1, 1, 1]))
    groups.put_back(again)
    assert groups.take() == again
    assert groups.take()[0].number == 1


def test_no_fragments_are_no_groups():
    assert not Groups([])


def test_fragments_are_not_asked_for_before_they_are_needed():
    asked = []

    def lazily():
        for fragment in fragments([1, 1, 1]):
            asked.append(fragment.number)
            yield fragment

    groups = Groups(lazily())
    assert asked == []
    assert groups and asked == [0]
    assert [f.number for f in groups.take()] == [0]
    assert [len(group) for group in taken(groups)] == [1, 1]
    assert not groups
