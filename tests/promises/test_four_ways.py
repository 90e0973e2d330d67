"""One thread, four threads, a cluster of two processes, sixteen parts: the same file."""

import os

import pytest

import nysketch


@pytest.mark.slow
@pytest.mark.parametrize("basis", ["made", "given"])
def test_four_ways_to_the_same_file(run_cli, files, tmp_path, basis):
    options = ["--weights", "w", "-m", "30", "--seed", "5"]
    if basis == "given":
        made = nysketch.Basis.fit(str(files), weights="w", landmarks=30)
        nysketch.save(made, tmp_path / "basis.nysk")
        options = ["--weights", "w", "--basis", tmp_path / "basis.nysk", "--seed", "5"]

    def sketched(name, *flags):
        run = run_cli("sketch", files, *options, "-o", tmp_path / name, *flags)
        assert run.returncode == 0, run.stderr
        return (tmp_path / name).read_bytes()

    expected = sketched("one.nysk", "--threads", "1")
    assert sketched("four.nysk", "--threads", "4", "--memory", "1GB") == expected
    assert sketched("dask.nysk", "--engine", "dask", "--workers", "2") == expected

    # The parts in this process: sixteen times a start of Python is all that a process each would add.
    how = {"weights": "w", "seed": 5, "threads": 1}
    how |= {"basis": tmp_path / "basis.nysk"} if basis == "given" else {"landmarks": 30}
    (tmp_path / "parts").mkdir()
    for i in range(1, 17):
        part = nysketch.sketch(os.fspath(files), part=f"{i}/16", **how)
        nysketch.save(part, tmp_path / "parts" / f"{i}.nysk")
    merged = run_cli("merge", tmp_path / "parts", "-o", tmp_path / "merged.nysk")
    assert merged.returncode == 0, merged.stderr
    assert (tmp_path / "merged.nysk").read_bytes() == expected


@pytest.mark.slow
def test_a_part_can_be_read_by_a_cluster(files, engine):
    one, other = (
        nysketch.sketch(os.fspath(files), exclude=["w"], landmarks=20, part="2/5", **how)
        for how in ({"threads": 1}, {"engine": engine})
    )
    assert nysketch.to_bytes(one) == nysketch.to_bytes(other)
