"""Which files belong to which partition, and when a file counts as changed."""

import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch.errors import InputError, UsageError
from nysketch.jobs.inputs import fingerprints, same_content, scan
from nysketch.jobs.partition_names import gaps, period, require_partition, safe, template
from nysketch.jobs.schema import TABLES, checked
from nysketch.sources.expand import expand


def inputs(*paths, **settings):
    found = checked("[inputs]", {"paths": list(paths), **settings}, TABLES["inputs"])
    return found | {"partition": require_partition(found["partition"], found["paths"])}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def touch(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x")
        return tmp_path

    return touch


def names_of(found):
    return {name: [location.name for location in files] for name, files in found.partitions.items()}


def test_a_date_in_the_path_is_the_partition(folder):
    folder("d/a-20240201.parquet", "d/b-20240201.parquet", "d/a-20240131.parquet", "d/a-x.parquet")
    assert names_of(scan(inputs("./d/*-{date:%Y%m%d}.parquet"))) == {
        "2024-01-31": ["d/a-20240131.parquet"],
        "2024-02-01": ["d/a-20240201.parquet", "d/b-20240201.parquet"],
    }


@pytest.mark.parametrize(
    ("path", "file", "name"),
    [
        ("d/{date}.parquet", "d/2024-02-29.parquet", "2024-02-29"),
        ("d/{date:%Y-%m}.parquet", "d/2024-02.parquet", "2024-02"),
        ("d/{date:%Y}/{date:%m}/{date:%d}.parquet", "d/2024/02/03.parquet", "2024-02-03"),
        ("d/{date}", "d/2024-02-03/part-0.parquet", "2024-02-03"),
        ("d/day={date}/", "d/day=2024-02-03/x/part-0.parquet", "2024-02-03"),
        ("d/**/{date:%Y%m%dT%H}.parquet", "d/e/f/20240203T04.parquet", "2024-02-03T04"),
        ("d/[ab]?.{date:%Y}.parquet", "d/ax.2024.parquet", "2024"),
    ],
)
def test_dates_of_all_kinds(folder, path, file, name):
    folder(file)
    assert names_of(scan(inputs(path))) == {name: [file]}


def test_a_date_that_is_none_is_a_problem_of_that_file_only(folder):
    folder("d/2024-02-30.parquet", "d/2024-02-28.parquet")
    found = scan(inputs("d/{date}.parquet"))
    assert list(found.partitions) == ["2024-02-28"]
    assert "day is out of range" in found.problems["d/2024-02-30.parquet"]


def test_hive_keys_sort_as_numbers(folder):
    folder(
        "t/year=2023/month=12/a.parquet", "t/year=2024/month=2/a.parquet", "t/year=2024/month=10/a.parquet"
    )
    found = scan(inputs("t", partition="hive:year,month"))
    assert list(found.partitions) == ["2023-12", "2024-02", "2024-10"]
    assert "no directory day=" in next(iter(scan(inputs("t", partition="hive:day")).problems.values()))


def test_a_file_is_a_partition_by_default(folder):
    folder("d/b.csv.gz", "d/a.2.parquet", "d/_SUCCESS", "d/bad.parquet")
    assert list(scan(inputs("d", ignore="*/bad*")).partitions) == ["a.2", "b"]
    folder("e/a.2.parquet")
    with pytest.raises(UsageError, match=r"would both become the partition 'a\.2'"):
        scan(inputs("d", "e"))


def test_a_file_that_two_paths_name_is_refused(folder):
    folder("d/a.parquet")
    with pytest.raises(UsageError, match="counted twice"):
        scan(inputs("d/*.parquet", "d/a*"))


def test_young_files_are_left_and_their_partition_waits(folder):
    root = folder("d/a-2024-01-01.parquet", "d/b-2024-01-01.parquet", "d/a-2024-01-02.parquet")
    for path in root.glob("d/*"):
        os.utime(path, (1000, 1000))
    os.utime(root / "d/b-2024-01-01.parquet", (1990, 1990))
    found = scan(inputs("d/*-{date}.parquet", settle=60), now=2000)
    assert (list(found.partitions), found.waiting) == (["2024-01-02"], {"2024-01-01"})
    assert found.unsettled == ["d/b-2024-01-01.parquet"]


def test_a_date_in_the_future_says_nothing(folder):
    """Then the inode tells when a file was changed: it cannot be set."""
    root = folder("d/a-2024-01-01.parquet", "d/b-2024-01-01.parquet", "d/a-2024-01-02.parquet")
    late = time.time() + 10**8
    os.utime(root / "d/b-2024-01-01.parquet", (late, late))
    os.utime(root / "d/a-2024-01-01.parquet", (1000, 1000))
    os.utime(root / "d/a-2024-01-02.parquet", (1000, 1000))
    settling = inputs("d/*-{date}.parquet", settle=60)
    assert scan(settling).unsettled == ["d/b-2024-01-01.parquet"]
    assert list(scan(settling, now=time.time() + 61).partitions) == ["2024-01-01", "2024-01-02"]


def test_a_file_that_would_never_settle_is_skipped_and_named(folder):
    """Both its date and the clock that made it are in the future; the rest of its partition waits for it."""
    root = folder("d/a-2024-01-01.parquet", "d/b-2024-01-01.parquet", "d/a-2024-01-02.parquet")
    os.utime(root / "d/a-2024-01-01.parquet", (1000, 1000))
    os.utime(root / "d/a-2024-01-02.parquet", (1000, 1000))
    found = scan(inputs("d/*-{date}.parquet", settle=60), now=2000)
    (problem,) = found.problems.values()
    assert problem.startswith("d/b-2024-01-01.parquet: is dated in the future (20")
    assert "settle cannot tell whether it is complete" in problem
    assert (list(found.partitions), found.waiting) == (["2024-01-02"], {"2024-01-01"})


def test_names_are_safe_for_files():
    assert safe("a b/c:é") == "a b%2Fc%3A%C3%A9"
    assert safe(".hidden") == "%2Ehidden"


def test_gaps_between_dates():
    assert gaps(["2024-02-27", "2024-03-01"]) == ["2024-02-28", "2024-02-29"]
    assert gaps(["2023-11", "2024-02"]) == ["2023-12", "2024-01"]
    assert gaps(["2024-02-27", "other"]) == gaps(["2024-01", "2024-01-05"]) == gaps([]) == []
    assert period("2023-02-29") is None and template("a/b") is None


# ---- fingerprints -----------------------------------------------------------------------------------------


def write(path, seed=0, rows=100):
    pq.write_table(pa.table({"x": np.random.default_rng(seed).standard_normal(rows)}), path)
    return path


def prints(path, known=(), **options):
    return fingerprints(expand([str(path)]), list(known), **options)


def test_a_new_time_alone_is_no_change(tmp_path):
    path = write(tmp_path / "a.parquet")
    before = prints(path)
    os.utime(path, (1, 1))
    after = prints(path, before)
    assert after != before and same_content(after, before)
    write(path, seed=1)
    assert not same_content(prints(path, before), before)


def test_a_known_file_that_looks_the_same_is_not_read(tmp_path):
    path = write(tmp_path / "a.parquet")
    known = [prints(path)[0] | {"digest": "remembered"}]
    assert prints(path, known) == known


def test_a_footer_longer_than_what_is_read_of_other_files_counts_whole(tmp_path):
    table = pa.table({f"a_long_name_of_a_column_{i}": np.zeros(40) for i in range(40)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=1, use_dictionary=False)
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    assert footer > 1 << 17 and len(content) > footer + (1 << 16)
    before = prints(path)
    content[-footer + 10] ^= 1  # far from both ends
    path.write_bytes(content)
    assert not same_content(prints(path), before)


def test_content_notices_what_is_between_the_ends(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x\n" + b"1\n" * 200_000)
    before = {content: prints(path, content=content) for content in (False, True)}
    text = bytearray(path.read_bytes())
    text[200_000:200_001] = b"2"
    path.write_bytes(text)
    assert same_content(prints(path), before[False])
    assert not same_content(prints(path, content=True), before[True])


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        prints(tmp_path / "none.parquet")
