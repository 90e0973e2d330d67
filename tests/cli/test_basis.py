"""Every kernel, every choice of landmarks and every kind of feature, through the command line.

Most commands run inside this process, as `nysketch.cli.main` would run them; a few in a real one.
"""

import io
import json
import logging
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch import cli
from nysketch.basis.landmarks import SAMPLINGS
from nysketch.kernels import KERNELS, TEXT_KERNELS

ROWS, M = 600, 20


@pytest.fixture
def run(monkeypatch):
    """Run a command in this process: `run("info", path)` → returncode, stdout, stderr."""
    for name in [name for name in cli.os.environ if name.startswith("NYSKETCH_")]:
        monkeypatch.delenv(name)
    log = logging.getLogger("nysketch")
    before = log.handlers, log.level, log.propagate

    def run(*args):
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "argv", ["nysketch", *map(str, args)])
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.execute()
        return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())

    yield run
    log.handlers, log.level, log.propagate = before


@pytest.fixture
def do(run):
    """Run a command that must work, and return what it prints."""

    def do(*args):
        result = run(*args)
        assert result.returncode == 0, (args, result.stderr)
        assert "Traceback" not in result.stderr
        return result.stdout

    return do


def write(path, columns):
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                text = isinstance(values[0], str)
                file.create_dataset(name, data=values, dtype=h5py.string_dtype() if text else None)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of numbers and of text: two halves a and b, and the whole, as Parquet and as HDF5."""
    folder = tmp_path_factory.mktemp("bases")
    random = np.random.default_rng(0)
    rows = random.standard_normal((ROWS, 3)) + 4 * random.integers(0, 3, (ROWS, 1))
    texts = ["".join(random.choice(list("abcd"), random.integers(1, 8))) for _ in range(ROWS)]
    numbers = {name: rows[:, i] for i, name in enumerate("xyz")}
    for kind, table in (("numbers", numbers), ("text", {"t": texts})):
        for suffix in ("parquet", "h5"):
            for name, part in (("a", slice(200)), ("b", slice(200, None)), ("whole", slice(None))):
                write(
                    folder / f"{kind}-{name}.{suffix}", {key: values[part] for key, values in table.items()}
                )
    write(folder / "shifted.parquet", {name: values + 40 for name, values in numbers.items()})
    write(folder / "mixed.parquet", numbers | {"t": texts, "u": texts})
    return folder


# ---- one story for all -----------------------------------------------------------------------------


def story(do, folder, tmp_path, suffix, options, kind="numbers"):
    """Basis, two sketches, merge, subtract, verify, exports; return what `info --json` says, and `info`."""
    a, b, whole = (folder / f"{kind}-{name}.{suffix}" for name in ("a", "b", "whole"))
    out = {
        name: tmp_path / f"{name}.nysk"
        for name in ("basis", "a", "b", "ab", "files", "whole", "rest", "back")
    }
    do("basis", whole, "-o", out["basis"], "-m", M, *options)
    with_basis = ("--basis", out["basis"], "--blocks", 4)
    do("sketch", a, *with_basis, "-o", out["a"], "-q")
    do("sketch", b, *with_basis, "-o", out["b"], "-q")
    do("merge", out["b"], out["a"], "-o", out["ab"])
    do("subtract", out["ab"], out["a"], "-o", out["rest"])
    do("verify", tmp_path, "-q")
    # the same bytes as both files in one pass, and the sums of the rows in one file
    do("sketch", a, b, *with_basis, "-o", out["files"], "-q")
    assert out["files"].read_bytes() == out["ab"].read_bytes()
    do("sketch", whole, *with_basis, "-o", out["whole"], "-q")
    merged, together = nysketch.load(out["ab"]), nysketch.load(out["whole"])
    scale = np.abs(together.block_kernel_sums).sum(axis=0).max()
    assert np.allclose(merged.kernel_sums, together.kernel_sums, rtol=0, atol=1e-12 * scale)
    assert (merged.rows, together.rows) == (ROWS, ROWS)
    values = merged.basis.values(_rows_of(whole, merged.basis)).sum(axis=0)
    assert np.allclose(merged.kernel_sums, values, rtol=0, atol=1e-5 * max(1.0, scale))
    rest, second = nysketch.load(out["rest"]), nysketch.load(out["b"])
    assert np.array_equal(rest.block_kernel_sums, second.block_kernel_sums)
    assert rest.rows == second.rows == 400
    _check_exports(do, tmp_path, out["ab"], merged)
    facts = json.loads(do("info", out["ab"], "--quality", "--json"))
    assert facts["rows"] == ROWS
    assert facts["kernel"] == merged.basis.kernel.describe()
    assert json.loads(do("verify", out["ab"], "--json"))["files"][0]["ok"]
    return facts, do("info", out["ab"], "--quality")


def _rows_of(path, basis):
    columns = [column.name for column in basis.columns]
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            found = [file[name].asstr()[:] if basis.text else file[name][:] for name in columns]
    else:
        table = pq.read_table(path)
        found = [table.column(name).to_numpy(zero_copy_only=False) for name in columns]
    return found[0].astype(object) if basis.text else np.column_stack(found)


def _check_exports(do, tmp_path, path, sketch):
    do("export", path, "-o", tmp_path / "out.npz")
    do("export", path, "-o", tmp_path / "out.json")
    with np.load(tmp_path / "out.npz") as arrays:
        assert np.array_equal(arrays["kernel_sums"], sketch.kernel_sums)
        assert json.loads(str(arrays["kernel"])) == sketch.basis.kernel.describe()
        assert np.array_equal(arrays["mean_features"], sketch.mean_features())
    listed = json.loads((tmp_path / "out.json").read_text())
    assert listed["arrays"]["kernel_sums"] == sketch.kernel_sums.tolist()
    assert listed["origin"] == sketch.basis.origin
    if sketch.basis.feature_map == "nystrom":
        do("export", path, "-o", tmp_path / "out.parquet")
        table = pq.read_table(tmp_path / "out.parquet")
        assert table.num_rows == sketch.basis.m
        assert table.column("kernel_sum").to_pylist() == sketch.kernel_sums.tolist()
        first = sketch.basis.columns[0].name
        landmarks = sketch.basis.landmarks if sketch.basis.text else sketch.basis.landmarks[:, 0]
        assert table.column(first).to_pylist() == landmarks.tolist()


PARAMETERS = {
    "polynomial": (["--degree", 3, "--offset", 0.5], "polynomial of degree 3, bandwidth "),
    "spectrum": (["--length", 2], "spectrum of substrings of 2 characters"),
    "subsequence": (["--length", 2, "--decay", 0.8], "subsequences of 2 characters, decay 0.8"),
    "linear": ([], "linear"),
    "cosine": ([], "cosine"),
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "h5"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(do, folder, tmp_path, kernel, suffix):
    options, said = PARAMETERS.get(kernel, ([], f"{kernel}, bandwidth "))
    kind = "text" if kernel in TEXT_KERNELS else "numbers"
    facts, shown = story(do, folder, tmp_path, suffix, ["--kernel", kernel, *options], kind)
    assert facts["kernel"]["name"] == kernel
    assert facts["origin"]["sampling"] == "kmeans++"
    assert re.search(rf"^kernel +{re.escape(said)}", shown, re.MULTILINE)
    assert "quality" in shown and "landmarks: the projection error" in shown
    assert re.search(r"kmeans\+\+ on the pilot sample: mean squared distance [\d.e-]+$", shown, re.MULTILINE)
    assert facts["sampled_rows"] == facts["quality"]["rows"] == (500 if kind == "text" else ROWS)
    assert facts["quality"]["advice"][0] in shown


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "h5"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_sampling(do, folder, tmp_path, sampling, suffix):
    facts, shown = story(do, folder, tmp_path, suffix, ["--sampling", sampling])
    assert facts["origin"]["sampling"] == sampling
    assert re.search(rf"^landmarks +{M}, {re.escape(sampling)} \(", shown, re.MULTILINE)
    assert ("centres of the data" in shown) == (sampling == "kmeans")
    report = facts["origin"]["sampling_report"]
    if sampling == "leverage":
        assert report["lambda"] > 0
        assert 0 < report["scores"]["min"] <= report["scores"]["median"] <= report["scores"]["max"] <= 1
        (line,) = (line for line in shown.splitlines() if "leverage on the pilot sample: " in line)
        for name in ("lambda", "effective dimension", "min", "median", "max"):
            assert re.search(rf"\b{name} [\d.e-]+", line), line
    elif sampling in ("greedy", "rpcholesky"):
        assert 0 < report["residual_trace"] < 1
        assert f"{sampling} on the pilot sample: residual trace" in shown


@pytest.mark.parametrize("suffix", ["parquet", "h5"])
@pytest.mark.parametrize("draw", ["gaussian", "adapted-radius"])
def test_fourier_features(do, run, folder, tmp_path, draw, suffix):
    facts, shown = story(do, folder, tmp_path, suffix, ["--features", "fourier", "--frequencies", draw])
    assert (facts["feature_map"], facts["landmarks"]) == ("fourier", M)
    assert re.search(rf"^fourier +{M} features, {draw} frequencies", shown, re.MULTILINE)
    assert ("Kernel values are off by" if draw == "gaussian" else "have a different kernel") in shown
    refused = run("export", tmp_path / "ab.nysk", "-o", tmp_path / "out.parquet")
    assert refused.returncode == 2
    assert "a table of landmarks needs landmarks, not Fourier features" in refused.stderr
    assert not (tmp_path / "out.parquet").exists()
    refused = run("info", tmp_path / "a.nysk", "--against", tmp_path / "basis.nysk")
    assert refused.returncode == 2 and "needs landmarks" in refused.stderr


@pytest.mark.parametrize("suffix", ["parquet", "h5"])
def test_groups(do, folder, tmp_path, suffix):
    options = ["--group", "p=z,x", "--group", "q=y", "--kernel", "laplacian-l1", "--kernel", "q=gaussian"]
    facts, shown = story(do, folder, tmp_path, suffix, [*options, "--bandwidth", "q=0.5*median"])
    assert [column["name"] for column in facts["columns"]] == ["z", "x", "y"]
    p, q = facts["kernel"]["groups"]
    assert (p["name"], p["features"], p["kernel"]["name"]) == ("p", [0, 2], "laplacian-l1")
    assert (q["name"], q["features"], q["kernel"]["name"]) == ("q", [2, 3], "gaussian")
    said = r"product of p: laplacian-l1, bandwidth [\d.]+; q: gaussian, bandwidth [\d.]+, standard"
    assert re.search(said, shown)


@pytest.mark.parametrize("suffix", ["parquet", "h5"])
def test_several_bandwidths(do, folder, tmp_path, suffix):
    facts, shown = story(do, folder, tmp_path, suffix, ["--bandwidth", "0.5*median,median,2"])
    first, second, third = facts["kernel"]["bandwidths"]
    assert (second / first, third) == (pytest.approx(2), 2)
    assert f"mean over bandwidths {first:.6g}, {second:.6g}, 2" in shown


@pytest.mark.parametrize("sampling", [name for name in SAMPLINGS if name != "kmeans"])
def test_text_with_every_sampling(do, folder, tmp_path, sampling):
    output = tmp_path / "t.nysk"
    options = ["--kernel", "spectrum", "--columns", "t", "--sampling", sampling, "-m", M]
    said = json.loads(do("sketch", folder / "mixed.parquet", *options, "-o", output, "--json"))
    assert (said["landmarks"], said["rows"]) == (M, ROWS)
    assert said["quality"]["of_rows"] == ROWS
    assert nysketch.load(output).basis.text
    assert "shortest" in do("info", output)


# ---- quality, coverage, auto -----------------------------------------------------------------------


def test_quality_is_told_by_sketch_basis_and_info(do, folder, tmp_path):
    data, sketch, basis = folder / "numbers-whole.parquet", tmp_path / "s.nysk", tmp_path / "b.nysk"
    told = do("sketch", data, "-m", M, "-o", sketch)
    sentence = next(line for line in told.splitlines() if "landmarks: the projection error" in line)
    shown = do("info", sketch, "--quality")
    assert sentence in shown
    for name in ("measured on", "residual", "projection error", "effective dimension"):
        assert re.search(rf"^  {name} ", shown, re.MULTILINE)
    assert f"a sample of {ROWS} of {ROWS} rows" in shown
    assert "landmarks: the projection error" in do("basis", data, "-m", M, "-o", basis)
    assert "landmarks: the projection error" in do("info", basis)
    quality = json.loads(do("info", sketch, "--quality", "--json"))["quality"]
    assert quality["projection_error_se"] == 0  # all rows are in the sample
    assert quality["advice"][0] == sentence


def test_without_a_sample_quality_is_not_measured(do, folder, tmp_path):
    do("sketch", folder / "numbers-whole.parquet", "-m", M, "--sample-rows", 0, "-o", tmp_path / "s.nysk")
    facts = json.loads(do("info", tmp_path / "s.nysk", "--json"))
    assert facts["sampled_rows"] == 0
    assert "and a sample of rows" not in do("info", tmp_path / "s.nysk")
    do("sketch", folder / "numbers-whole.parquet", "--basis", tmp_path / "s.nysk", "-o", tmp_path / "t.nysk")
    do("merge", tmp_path / "s.nysk", tmp_path / "t.nysk", "--force", "-o", tmp_path / "m.nysk")
    assert json.loads(do("info", tmp_path / "m.nysk", "--json"))["sampled_rows"] == 0


def test_do_the_old_landmarks_cover_the_new_rows(do, run, folder, tmp_path):
    paths = {name: tmp_path / f"{name}.nysk" for name in ("old", "same", "shifted", "basis", "other", "none")}
    do("basis", folder / "numbers-whole.parquet", "-m", M, "-o", paths["basis"])
    do("sketch", folder / "numbers-a.parquet", "--basis", paths["basis"], "-o", paths["old"])
    do("sketch", folder / "numbers-b.parquet", "-m", 10, "--scale", "none", "-o", paths["same"])
    do("sketch", folder / "shifted.parquet", "-m", 10, "-o", paths["shifted"])
    do("sketch", folder / "numbers-b.parquet", "--columns", "x,y", "-m", 10, "-o", paths["other"])
    do("sketch", folder / "numbers-b.parquet", "-m", 10, "--sample-rows", 0, "-o", paths["none"])
    for old in ("old", "basis"):
        for new, covered in (("same", True), ("shifted", False)):
            facts = json.loads(do("info", paths[new], "--against", paths[old], "--json"))["against"]
            assert facts["covered"] is covered, (old, new, facts)
            assert facts["path"] == str(paths[old])
            shown = do("info", paths[new], "--against", paths[old])
            verdict = "still cover the data" if covered else "no longer cover the data"
            assert f"against {paths[old]}: The landmarks {verdict}" in shown
            assert facts["advice"] in shown
    for new, old, code, complaint in (
        ("other", "old", 4, "different columns: x, y and x, y, z"),
        ("none", "old", 3, "too few to measure residuals"),
        ("basis", "old", 2, "is a basis file, without rows"),
        ("same", "missing", 3, "missing.nysk"),
    ):
        result = run("info", paths[new], "--against", paths.get(old, tmp_path / "missing.nysk"))
        assert (result.returncode, result.stdout) == (code, "")
        assert complaint in result.stderr and len(result.stderr.splitlines()) == 1


def test_auto_finds_a_number(do, folder, tmp_path):
    options = ["-m", "auto", "--max-landmarks", 250]
    do("sketch", folder / "numbers-whole.parquet", *options, "-o", tmp_path / "s.nysk")
    facts = json.loads(do("info", tmp_path / "s.nysk", "--json"))
    tries = facts["origin"]["auto"]
    assert tries[0]["landmarks"] == 125
    assert facts["landmarks"] == tries[-1]["landmarks"] <= 250
    assert f"tried 125 landmarks: projection error {tries[0]['projection_error']:.2g} ±" in do(
        "info", tmp_path / "s.nysk"
    )
    do("basis", folder / "numbers-whole.parquet", *options, "-o", tmp_path / "b.nysk")
    assert nysketch.load(tmp_path / "b.nysk") == nysketch.load(tmp_path / "s.nysk").basis


def test_a_finished_sketch_with_groups_is_up_to_date(do, folder, tmp_path):
    command = ["sketch", folder / "numbers-whole.parquet", "-m", M, "-o", tmp_path / "s.nysk"]
    command += ["--group", "q=y", "--group", "p=z,x", "--kernel", "q=linear", "--bandwidth", "p=1,2"]
    do(*command)
    assert json.loads(do(*command, "--if-exists", "skip", "--json"))["up_to_date"]


def test_settings_files_can_hold_kernels_and_groups(do, folder, tmp_path):
    (tmp_path / "settings.toml").write_text(
        f'[basis]\nlandmarks = {M}\ngroup = ["p=x", "q=y,z"]\nkernel = ["linear", "q=cosine"]\n'
    )
    config = ["--config", tmp_path / "settings.toml"]
    do(*config, "basis", folder / "numbers-a.parquet", "-o", tmp_path / "b.nysk")
    assert str(nysketch.load(tmp_path / "b.nysk").kernel) == "product of p: linear; q: cosine"


# ---- wrong requests --------------------------------------------------------------------------------

WRONG = [
    (["--kernel", "gausian"], 2, "kernel must be one of gaussian, laplacian-l1, .*not 'gausian'"),
    (["--kernel", "y=linear"], 2, "y=linear: --group has no 'y'"),
    (["--kernel", "=linear"], 2, "'--kernel'.*'=linear' is neither VALUE nor GROUP=VALUE"),
    (["--kernel", "linear", "--kernel", "cosine"], 2, "'--kernel'.*given twice: linear and cosine"),
    (["--group", "x"], 2, "'--group'.*'x' is not of the form NAME=COLUMN,COLUMN"),
    (["--group", "=x"], 2, "'--group'.*'=x' is not of the form"),
    (["--group", "p=x", "--group", "p=y"], 2, "'--group'.*two groups have the name 'p'"),
    (["--group", "p=x", "--columns", "x,y"], 2, "leave out --columns"),
    (["--group", "p=x,nothing"], 3, "nothing"),
    (["--group", "p=x", "--kernel", "p=spectrum"], 2, "spectrum kernel takes one text column"),
    (["--group", "p=x", "--bandwidth", "q=2"], 2, "q=2: --group has no 'q'"),
    (["--bandwidth", "-1"], 2, "--bandwidth must be .*not '-1'"),
    (["--bandwidth", "x"], 2, "--bandwidth must be .*not 'x'"),
    (["--bandwidth", "1,2", "--kernel", "matern32"], 2, "several bandwidths need the gaussian kernel"),
    (["--bandwidth", "2", "--kernel", "linear"], 2, "the linear kernel has no bandwidth"),
    (["--degree", "99", "--kernel", "polynomial"], 2, "--degree must be between 1 and 16, not 99"),
    (["--offset", "-1", "--kernel", "polynomial"], 2, "--offset must be at least 0"),
    (["--decay", "2", "--kernel", "subsequence"], 2, "--decay must be above 0 and at most 1"),
    (["--length", "99", "--kernel", "spectrum"], 2, "between 1 and 32 characters, not 99"),
    (["--features", "fourier", "-m", "7"], 2, "must be even, not 7"),
    (["--features", "fourier", "--kernel", "linear"], 2, "Fourier features need the gaussian kernel"),
    (["--features", "fourier", "-m", "auto"], 2, "-m auto cannot choose"),
    (["--features", "cosines"], 2, "'--features'.*'cosines' is not one of"),
    (["--sampling", "random"], 2, "'--sampling'.*'random' is not one of"),
    (["--sampling", "kmeans", "--kernel", "spectrum", "--columns", "t"], 2, r"kmeans\+\+"),
    (["--kernel", "spectrum", "--columns", "x"], 3, "'x'|column x"),
    (["--kernel", "spectrum", "--columns", "t,u"], 2, "one text column, not 2.*--columns"),
    (["--kernel", "spectrum"], 3, "(?=.*t)(?=.*u)(?=.*--columns)"),
    (["-m", "several"], 2, "'-m' / '--landmarks'.*'several'"),
    (["-m", "auto", "--max-landmarks", "0"], 2, "'--max-landmarks'"),
    (["--sample-rows", "-1"], 2, "'--sample-rows'"),
]


def check_refused(result, code, complaint, output):
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    *before, message = result.stderr.splitlines()
    assert re.search(complaint, message), message
    assert "Traceback" not in result.stderr and "internal error" not in result.stderr
    # Only click says more than one line: how the command is used.
    assert not before or before[0].startswith("Usage: ") or all("left out:" in line for line in before)
    assert not output.exists()


@pytest.mark.parametrize(("flags", "code", "complaint"), WRONG, ids=[" ".join(flags) for flags, *_ in WRONG])
@pytest.mark.parametrize("command", ["sketch", "basis"])
def test_a_wrong_request_is_refused_with_its_name(run, folder, tmp_path, command, flags, code, complaint):
    if command == "basis" and flags[0] == "--sample-rows":
        pytest.skip("only sketches have samples")
    output = tmp_path / "out.nysk"
    size = [] if "-m" in flags else ["-m", M]
    result = run(command, folder / "mixed.parquet", "-o", output, *size, *flags)
    check_refused(result, code, complaint, output)


@pytest.mark.parametrize("suffix", ["parquet", "h5"])
def test_a_table_without_text_has_none(run, folder, tmp_path, suffix):
    output = tmp_path / "out.nysk"
    result = run("sketch", folder / f"numbers-a.{suffix}", "-m", M, "--kernel", "spectrum", "-o", output)
    check_refused(result, 3, "text", output)
    assert f"numbers-a.{suffix}" in result.stderr


def test_a_file_without_numbers_has_none(run, folder, tmp_path):
    output = tmp_path / "out.nysk"
    result = run("sketch", folder / "text-a.h5", "-m", M, "-o", output)
    check_refused(result, 3, "numeric|--dataset", output)
    assert "text-a.h5" in result.stderr


def test_a_table_of_text_has_categories(do, folder, tmp_path):
    do("sketch", folder / "text-a.parquet", "-m", M, "-o", tmp_path / "out.nysk")
    (column,) = nysketch.load(tmp_path / "out.nysk").basis.columns
    assert column.kind.name == "category"


@pytest.mark.parametrize(
    "flags",
    [
        ["--kernel", "linear"],
        ["--kernel", "gaussian"],
        ["--group", "p=x"],
        ["--bandwidth", "2"],
        ["--sampling", "greedy"],
        ["--features", "fourier"],
        ["--frequencies", "adapted-radius"],
        ["-m", "10"],
        ["--max-landmarks", "10"],
        ["--degree", "3"],
        ["--offset", "2"],
        ["--length", "2"],
        ["--decay", "0.9"],
        ["--scale", "none"],
        ["--pilot-rows", "100"],
    ],
    ids=" ".join,
)
def test_a_basis_cannot_be_made_again(run, folder, tmp_path, shelf, flags):
    output = tmp_path / "out.nysk"
    result = run(
        "sketch", folder / "numbers-a.parquet", "--basis", shelf / "basis.nysk", *flags, "-o", output
    )
    check_refused(result, 2, f"{flags[0]}.*has no effect with --basis", output)


def test_text_and_numbers_do_not_fit_each_others_basis(run, do, folder, tmp_path):
    do("basis", folder / "text-a.parquet", "-m", M, "--kernel", "spectrum", "-o", tmp_path / "text.nysk")
    do("basis", folder / "numbers-a.parquet", "-m", M, "-o", tmp_path / "numbers.nysk")
    for kind, other, column in (("text", "numbers", "t"), ("numbers", "text", "x")):
        output = tmp_path / "out.nysk"
        basis = tmp_path / f"{kind}.nysk"
        result = run("sketch", folder / f"{other}-a.parquet", "--basis", basis, "-o", output)
        check_refused(result, 3, f"{other}-a.parquet.*{column}", output)


# ---- help and real processes -----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["sketch", "basis"])
def test_help_lists_all_kernels_and_samplings(do, command):
    text = " ".join(do(command, "--help").split())
    listed = re.search(r"--kernel \[GROUP=\]NAME Kernel: (.*?)\. \[default", text).group(1)
    names = set(re.findall(r"[a-z][a-z0-9-]+", listed)) - {"or", "text", "column"}
    assert names - {"or"} == set(KERNELS)
    listed = re.search(r"--sampling METHOD .*?: (.*?)\. \[default", text).group(1)
    assert tuple(listed.replace(" or ", ", ").split(", ")) == SAMPLINGS


def test_the_story_in_real_processes(run_cli, folder, tmp_path):
    def do(*args):
        result = run_cli(*args, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        return result.stdout

    data = [folder / f"numbers-{name}.h5" for name in "ab"]
    do("basis", *data, "-m", M, "-o", "basis", "--group", "p=x", "--group", "q=y,z", "--sampling", "leverage")
    for name, path in zip("ab", data, strict=True):
        do("sketch", path, "--basis", "basis", "-o", f"{name}.nysk")
    do("merge", "a.nysk", "b.nysk", "-o", "ab.nysk")
    shown = do("info", "ab.nysk", "--against", "basis")
    assert "leverage on the pilot sample: " in shown and "still cover the data" in shown
    assert nysketch.load(tmp_path / "ab.nysk").rows == ROWS


@pytest.mark.parametrize("number", [0, 4, 19])
def test_wrong_requests_in_real_processes(run_cli, folder, tmp_path, number):
    flags, code, complaint = WRONG[number]
    output = tmp_path / "out.nysk"
    result = run_cli("sketch", folder / "mixed.parquet", "-o", output, *flags)
    check_refused(result, code, complaint, output)


def test_columns_can_count_more(do, run, folder, tmp_path):
    data, out = folder / "numbers-a.parquet", tmp_path / "s.nysk"
    do("sketch", data, "-m", M, "--emphasis", "x=2", "--emphasis", "y=0.5", "-o", out, "-q")
    expected = nysketch.Basis.fit(data, landmarks=M, emphasis={"x": 2, "y": 0.5})
    assert nysketch.load(out).basis == expected
    wrong = run("basis", data, "-m", M, "--emphasis", "w=2", "-o", tmp_path / "b.nysk")
    assert "--emphasis names column 'w', which is not among those of the basis: x, y, z" in wrong.stderr
    negative = run("basis", data, "--emphasis", "x=-1", "-o", tmp_path / "b.nysk")
    assert "--emphasis of column 'x' must be a number between" in negative.stderr
    idle = run("sketch", data, "--basis", out, "--emphasis", "x=2", "-o", tmp_path / "t.nysk")
    assert "--emphasis: has no effect with --basis" in idle.stderr
