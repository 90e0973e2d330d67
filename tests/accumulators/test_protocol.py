"""What holds for every statistic: the laws of a group, threads, clusters, resuming, files, forgeries."""

import json
import pickle
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import PassSize
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.accumulators.tally import STATISTICS, Tally
from nysketch.engines.dask import DaskEngine
from nysketch.engines.threads import Threads
from nysketch.passes.accumulate import FragmentAccumulator
from nysketch.passes.chunks import chunk_rows_for
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests.helpers import ARCHIVES, as_keywords
from tests.promises.attacks.forgeries import BY_STATISTIC

every = pytest.mark.parametrize("kind", STATISTICS, ids=lambda kind: kind.__name__)
optional = pytest.mark.parametrize(
    "kind", [kind for kind in STATISTICS if kind.noun], ids=lambda kind: kind.__name__
)
GROUPS = {"x": ["a", "b"], "y": ["c"], "z": ["d"]}
OPTIONS = PassOptions(
    blocks=5, nulls="drop", weights="w", sample_rows=40, shuffle_rows=40, far_rows=15, runs=8, pairs=True,
    second_moments=True,
)  # fmt: skip


def table_of(rows, seed):
    """Numbers of unlike sizes, a null now and then, weights, one row far out."""
    random = np.random.default_rng(seed)
    columns = {name: random.normal(i, 10.0**i, rows) for i, name in enumerate("abcd")}
    columns["a"][3] = 1e6
    nulls = random.random(rows) < 0.05
    return pa.table(
        {n: pa.array(v, mask=nulls if n == "b" else None) for n, v in columns.items()}
    ).append_column("w", pa.array(random.uniform(0.5, 2, rows)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistics")
    for seed, rows in enumerate((700, 90, 400)):
        pq.write_table(table_of(rows, seed), folder / f"{seed}.parquet", row_group_size=60)
    return folder


@pytest.fixture(scope="module")
def basis(folder):
    return nysketch.Basis.fit(str(folder), weights="w", groups=GROUPS, landmarks=12, nulls="drop")


def source_of(folder, basis, name="*"):
    return open_source(str(folder / f"{name}.parquet"), weights="w", like=basis.columns)


def tally_of(folder, basis, name="*", *, order=slice(None), options=OPTIONS):
    source = source_of(folder, basis, name)
    work = FragmentAccumulator(source, basis, options)
    running = work.running()
    for fragment in list(source.fragments())[order]:
        running.add(work(fragment, lambda: None), [fragment])
    return running.total()


@pytest.fixture(scope="module")
def parts(folder, basis):
    return [tally_of(folder, basis, str(i)) for i in range(3)]


def same(one, other, *, but=()):
    ours, theirs = one.arrays(), other.arrays()
    described = [{k: v for k, v in x.describe().items() if k not in but} for x in (one, other)]
    assert described[0] == described[1]
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert np.array_equal(array, theirs[name]), name


@every
def test_every_statistic_is_collected(kind, parts):
    assert all(kind in map(type, tally) for tally in parts)
    assert parts[0].rows + parts[0].dropped == 700 and parts[0].dropped > 10


@every
def test_addition_commutes_and_associates_and_nothing_is_neutral(kind, parts, basis):
    a, b, c = (tally[kind] for tally in parts)
    nothing = Tally.zeros(basis, OPTIONS)[kind]
    same(a + b, b + a)
    same((a + b) + c, a + (b + c))
    same(a + nothing, a)
    same(nothing + a, a)


@every
def test_subtraction_undoes_addition(kind, parts, basis):
    a, b, _ = parts
    left = (a + b) - b
    if kind is ColumnRanges:  # bounds, and no longer exact
        assert not left[kind].exact
        assert (left[kind].lower <= a[kind].lower).all() and (left[kind].upper >= a[kind].upper).all()
        same((a - a)[kind], Tally.zeros(basis, OPTIONS)[kind])
    elif kind.__name__ == "Spans":  # as long as those of the sum
        same(left[kind], a[kind].coarsened(left[kind].level))
    elif kind.__name__ in ("RowSample", "Cells"):  # a sample has no more rows than the sum had room for
        mine, theirs = (x.far.kept if kind.__name__ == "Cells" else x for x in (left[kind], a[kind]))
        assert set(mine.keys.tolist()) <= set(theirs.keys.tolist())
        if kind.__name__ == "Cells":
            same(replace(left[kind], far=a[kind].far), a[kind])
    else:
        same(left[kind], a[kind])


@every
def test_the_order_of_fragments_has_no_effect(kind, folder, basis):
    there, back = (tally_of(folder, basis, order=order) for order in (slice(None), slice(None, None, -1)))
    same(there[kind], back[kind])


@pytest.fixture(scope="module")
def by_threads(folder, basis):
    how = as_keywords(asdict(OPTIONS)) | {"basis": basis}
    return {n: nysketch.sketch(str(folder), engine=Threads(n), **how).tally for n in (1, 2, 5)}


@every
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_have_no_effect(kind, threads, by_threads, folder, basis):
    same(by_threads[threads][kind], by_threads[1][kind])
    same(by_threads[1][kind], tally_of(folder, basis)[kind])


@pytest.fixture(scope="module")
def by_cluster(folder, basis, client):
    engine = DaskEngine(client, patience=30, seconds=0.02, fan_in=2)
    return nysketch.sketch(str(folder), engine=engine, basis=basis, **as_keywords(asdict(OPTIONS))).tally


@pytest.mark.slow
@every
def test_a_cluster_has_no_effect(kind, by_cluster, by_threads):
    same(by_cluster[kind], by_threads[1][kind])


@every
def test_parts_travel_and_totals_are_continued(kind, folder, basis):
    source = source_of(folder, basis)
    work = FragmentAccumulator(source, basis, OPTIONS)
    fragments = list(source.fragments())
    first, elsewhere = work.running(), pickle.loads(pickle.dumps(work)).running()
    for i, fragment in enumerate(fragments):
        part = pickle.loads(pickle.dumps(work(fragment, lambda: None)))
        (first if i % 3 else elsewhere).add(part, [fragment])
    # A total from elsewhere, and one that was saved and taken up again.
    resumed = work.running(first.total(), first.done)
    resumed.add(elsewhere.total())
    same(resumed.total()[kind], tally_of(folder, basis)[kind])


@pytest.mark.slow
@every
@pytest.mark.parametrize(("fragment", "when"), [(1, "before"), (8, "before"), (8, "after")])
def test_an_interrupted_pass_ends_in_the_same_file(
    kind, fragment, when, folder, basis, tmp_path, monkeypatch
):
    """However much of a fragment was added when the signal came."""

    def run(name, **saving):
        wanted = source_of(folder, basis), tmp_path / name, basis, OPTIONS
        return sketch_to_file(*wanted, saving=Saving(**saving), execution=Execution(Threads(1)))

    run("expected.nysk")
    running = type(Tally.zeros(basis, OPTIONS)[kind].running(basis, OPTIONS))
    calls, add = 0, running.add

    def interrupting(self, part):
        nonlocal calls
        calls += type(self.snapshot()) is kind  # several kinds may share a class of running totals
        if calls == fragment + 1 and when == "before":
            raise KeyboardInterrupt
        add(self, part)
        if calls == fragment + 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running, "add", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run("s.nysk", checkpoint_every=0.0)
    assert run("s.nysk").resumed_fragments == fragment
    assert (tmp_path / "s.nysk").read_bytes() == (tmp_path / "expected.nysk").read_bytes()


@every
def test_what_is_stored_is_read_again(kind, parts, basis):
    tally = parts[0]
    description = json.loads(json.dumps(tally.describe()))
    again = kind.from_parts(description, tally.arrays(), basis, weighted=True)
    same(again, tally[kind])
    again.check(basis, tally)
    assert tally[kind].is_possible(basis)


@every
def test_archives_of_all_versions_hold_it(kind):
    held = {path.parent.name for path in ARCHIVES.glob("v*/*.nysk") if has(kind, path)}
    since = {"RowSample": 2, "Cells": 3, "Spans": 4, "GroupSums": 5, "SecondMoments": 6}.get(kind.__name__, 1)
    later = {"GroupSums": {"v5"}, "SecondMoments": {"v6"}}.get(kind.__name__)
    assert held == (later or {f"v{version}" for version in range(since, 9)})


def has(kind, path):
    thing = nysketch.load(path)
    found = thing.tally.get(kind) if isinstance(thing, nysketch.Sketch) else None
    return found is not None and (kind.__name__ != "RowSample" or len(found) > 0)


def forgeries(array):
    """Yield arrays that no pass can have written."""
    yield array[:-1]
    yield array[None]
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)
        yield np.full_like(array, np.inf)
    else:
        yield -1 - array
        yield array.astype(np.float32)


@every
def test_forged_arrays_are_refused(kind, parts, basis):
    tally = parts[0]
    for name in tally[kind].arrays():
        for forged in forgeries(tally.arrays()[name]):
            with pytest.raises((ValueError, IndexError, TypeError)):
                kind.from_parts(
                    tally.describe(), tally.arrays() | {name: forged}, basis, weighted=True
                ).check(basis, tally)


@every
def test_numbers_that_no_rows_have_are_refused(kind, parts, basis):
    """In arrays of the right form: somebody who seals a file may write what they like."""
    tally = parts[0]
    for name, forge in BY_STATISTIC[kind.__name__].items():
        described = json.loads(json.dumps(tally.describe()))
        arrays = {key: array.copy() for key, array in tally.arrays().items()}
        forge(described, arrays)
        with pytest.raises(ValueError):
            Tally.from_parts(described, arrays, basis).check(basis)
            raise AssertionError(name)


@every
def test_forged_descriptions_are_refused(kind, parts, basis):
    tally = parts[0]
    for name in tally[kind].describe():
        for forged in (-1, "many", [1], {"bound": 2.5}):
            with pytest.raises((ValueError, KeyError, TypeError)):
                kind.from_parts(
                    tally.describe() | {name: forged}, tally.arrays(), basis, weighted=True
                ).check(basis, tally)


@every
def test_sums_of_other_rows_are_not_possible(kind, parts, basis):
    if kind.__name__ in ("BlockSums", "DroppedRows", "Cells", "Spans"):
        a, b, _ = parts
        assert not (b - a)[kind].is_possible(basis)


@optional
def test_it_can_be_left_out(kind, folder, basis, tmp_path):
    options = {"GroupSums": {"shuffles": 0, "pairs": False}}.get(kind.__name__, kind.absent_settings)
    without = nysketch.sketch(str(folder), basis=basis, **as_keywords(asdict(OPTIONS) | options))
    having = nysketch.sketch(str(folder), basis=basis, **as_keywords(asdict(OPTIONS)))
    nysketch.save(without, tmp_path / "without.nysk")
    for sketch in (without, nysketch.load(tmp_path / "without.nysk"), having + without, having - without):
        assert sketch.tally.get(kind) is None
        assert kind.absent_description.items() <= sketch.tally.describe().items()
        assert kind.absent_summary.items() <= sketch.tally.summary(basis).items()


@every
def test_settings_ask_for_as_much(kind, parts, basis):
    again = replace(OPTIONS, **parts[0].settings())
    nothing = Tally.zeros(basis, again)[kind]
    assert nothing.settings() == parts[0][kind].settings()
    assert nothing.settings().keys() == kind.absent_settings.keys() or not kind.noun


@every
def test_people_are_told_the_same_keys_with_and_without_it(kind, parts, basis):
    summary = parts[0][kind].summary(basis)
    assert summary.keys() == kind.absent_summary.keys() or not kind.noun
    assert json.loads(json.dumps(summary)) == summary
    facts = summary | {"landmarks": basis.m}
    line = kind.info_line(facts)
    assert (line is None) == (not kind.noun)
    assert kind.info_line(facts | kind.absent_summary) is None


@every
@pytest.mark.parametrize("more", [{}, {"runs": 64, "blocks": 64}, {"far_rows": 200, "sample_rows": 300}])
def test_the_size_in_the_file_is_planned(kind, more, folder, basis):
    options = replace(OPTIONS, **more)
    rows, d = 1190, basis.d
    size = PassSize(
        m=basis.m, d=d, rows=rows, chunk_rows=chunk_rows_for(d), tile_bytes=4 * 64 * basis.m, text=False,
        features="nystrom", groups=3, weighted=True,
    )  # fmt: skip
    planned = kind.memory(size, options)
    stored = sum(array.nbytes for array in tally_of(folder, basis, options=options)[kind].arrays().values())
    if planned.stored:
        assert 0.4 < stored / planned.stored < 1.3
        assert planned.per_thread >= planned.stored and planned.fixed >= planned.stored
    else:
        assert stored < 200
