"""What holds for every command: help, JSON, streams, settings, exit codes. test_commands.py has the rest."""

import json
import os
import subprocess

import click
import pytest

import nysketch
from nysketch.cli import ABOUT, COMMANDS, group
from nysketch.cli._options.common import stack
from nysketch.passes.pilot import default_pilot_rows
from tests.disturbances import PATIENCE
from tests.helpers import ROOT

README = ROOT / "README.md"
HEAVY = ("h5py", "numba", "numpy", "pyarrow", "scipy")


@pytest.mark.parametrize("command", [*COMMANDS, *ABOUT])
def test_help_works_and_ends_with_an_example(run_cli, command):
    long, short = run_cli(command, "--help"), run_cli(command, "-h")
    assert (long.returncode, long.stderr) == (0, "")
    assert short.stdout == long.stdout
    last = long.stdout.rstrip().splitlines()[-1]
    assert last.startswith(f"  Example: nysketch {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_documents_every_command(command):
    assert f"nysketch {command}" in README.read_text()


def test_the_main_help_lists_all_commands(run_cli):
    result = run_cli("--help")
    assert result.returncode == 0
    assert all(f"  {name} " in result.stdout for name in (*COMMANDS, *ABOUT))
    assert "Example: nysketch sketch " in result.stdout.rstrip().splitlines()[-1]


@pytest.mark.parametrize("command", ["sketch", "basis"])
def test_help_tells_the_defaults_that_depend_on_the_data(run_cli, command):
    text = " ".join(run_cli(command, "--help").stdout.split())
    assert "one per processor, as far as --memory allows" in text
    assert "10 per landmark, at least 10,000, at most 32 MB, and never fewer" in text
    m, most = 100, 32 * 10**6
    assert [default_pilot_rows(m, d) for d in (1, 10**6)] == [10_000, m]
    assert default_pilot_rows(2000, 1) == 20_000
    assert 0.9 * most < 8 * 1000 * default_pilot_rows(m, 1000) < 1.1 * most


@pytest.mark.parametrize("arguments", [["--help"], ["sketch", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(cli_command, arguments):
    code = (
        "import sys, contextlib; sys.argv = ['nysketch', *sys.argv[1:]]\n"
        "from nysketch.cli import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    command = [cli_command[0][0], "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=cli_command[1], timeout=PATIENCE)
    assert result.stderr == "[]\n"


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_the_package_version(run_cli, flag):
    assert nysketch.__version__ in run_cli(flag).stdout


def test_an_unknown_command_is_answered_with_the_likely_one(run_cli):
    result = run_cli("skecth")
    assert (result.returncode, result.stdout) == (2, "")
    assert "Did you mean 'sketch'?" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["sketch", "a.parquet"],
        ["sketch", "-o", "x.nysk"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--nonsense"],
        ["sketch", "a.parquet", "-o", "x.nysk", "-m", "0"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--blocks", "0"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--seed", "-1"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--bandwidth", "wide"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--bandwidth", "-1"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--lock-wait", "nan"],
        ["sketch", "a.parquet", "-o", "x.nysk", "--batch-rows", "0"],
        ["sketch", "a.parquet", "-o", "a.parquet", "--if-exists", "overwrite"],
        ["sketch", "a.parquet", "-o", ""],
        ["sketch", "a.parquet", "-o", "."],
        ["basis", "a.parquet", "-o", "a.parquet", "--if-exists", "overwrite"],
        ["basis", "a.parquet", "-o", "x.nysk", "--seed", "-1"],
        ["merge", "-o", "x.nysk"],
        ["subtract", "a.nysk", "-o", "x.nysk"],
        ["export", "a.nysk", "-o", "x.txt"],
        ["merge", "a.nysk", "*.nysk", "-o", "x.nysk"],
        ["verify", ".", "a.nysk"],
        ["export", "a.nysk", "-o", "a.nysk", "--to", "npz", "--if-exists", "overwrite"],
        ["export", "a.nysk", "-o", "../{here}/a.nysk", "--to", "npz", "--if-exists", "overwrite"],
        ["info"],
        ["verify"],
    ],
    ids=" ".join,
)
def test_a_wrong_request_exits_with_2_and_writes_nothing(run_cli, shelf, arguments):
    before = {path.name: path.read_bytes() for path in shelf.iterdir()}
    result = run_cli(*(argument.replace("{here}", shelf.name) for argument in arguments), cwd=shelf)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr and "Traceback" not in result.stderr
    assert {path.name: path.read_bytes() for path in shelf.iterdir()} == before


JSON_COMMANDS = {
    "sketch": ["a.parquet", "-m", "5", "-o", "{out}.nysk"],
    "basis": ["a.parquet", "-m", "5", "-o", "{out}.nysk"],
    "info": ["a.nysk"],
    "verify": ["a.nysk", "basis.nysk"],
    "merge": ["a.nysk", "b.nysk", "-o", "{out}.nysk"],
    "subtract": ["ab.nysk", "b.nysk", "-o", "{out}.nysk"],
    "learn": ["kmeans", "a.nysk", "-k", "2", "-o", "{out}.json"],
    "assign": ["model.json", "a.parquet", "-o", "{out}.parquet"],
    "score": ["model.json", "a.parquet"],
    "compare": ["a.nysk", "b.nysk"],
    "independence": ["a.parquet", "--group", "p=x", "--group", "q=y", "-m", "5", "--permutations", "50"],
    "coreset": ["a.parquet", "-m", "9", "-s", "3", "-o", "{out}.csv"],
    "export": ["a.nysk", "-o", "{out}.npz"],
    "report": ["{store}", "-o", "{out}.html"],
    "plot": ["a.nysk", "--model", "model.json", "-o", "{out}.svg"],
    "run": ["job.toml", "--set", "job.store={out}"],
    "status": ["{store}"],
}


def arguments_of(command, folder):
    """Return arguments that write into a folder, in which there is also a store that holds nothing yet."""
    store = folder / "store"
    store.mkdir(exist_ok=True)
    (store / "store.json").write_text('{"name": "new", "schema_version": 1, "settings": {}}')
    return [argument.format(out=folder / "out", store=store) for argument in JSON_COMMANDS[command]]


@pytest.mark.parametrize(
    "command", ["sketch", "basis", "merge", "subtract", "learn", "assign", "coreset", "export"]
)
def test_no_result_goes_to_a_file_called_dash(run_cli, shelf, command):
    before = sorted(shelf.iterdir())
    arguments = [argument if "{out}" not in argument else "-" for argument in JSON_COMMANDS[command]]
    result = run_cli(command, *arguments, cwd=shelf)
    assert (result.returncode, result.stdout) == (2, "")
    assert "results cannot be written to a stream" in result.stderr
    assert sorted(shelf.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object_with_sorted_keys_and_nothing_else(run_cli, shelf, tmp_path, command):
    arguments = arguments_of(command, tmp_path)
    result = run_cli(command, *arguments, "--json", cwd=shelf)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert result.stdout == json.dumps(report, sort_keys=True) + "\n"
    assert report["schema_version"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_stdout_has_results_only_and_no_control_codes(run_cli, shelf, tmp_path, command):
    arguments = arguments_of(command, tmp_path)
    result = run_cli(command, *arguments, cwd=shelf)
    assert result.returncode == 0, result.stderr
    assert result.stdout and all(line.isprintable() for line in result.stdout.splitlines())
    assert "left out" not in result.stdout
    assert all(line.isprintable() for line in result.stderr.splitlines())


def test_quiet_says_nothing(run_cli, shelf, tmp_path):
    result = run_cli("sketch", "a.parquet", "-m", "5", "-o", tmp_path / "out.nysk", "-q", cwd=shelf)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_names_with_control_codes_do_not_reach_the_terminal(run_cli, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = "evil\x1b[31m\nname"
    pq.write_table(pa.table({name: [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
    assert run_cli("sketch", "a.parquet", "-o", "a.nysk", cwd=tmp_path).returncode == 0
    shown = run_cli("info", "a.nysk", cwd=tmp_path)
    assert "\x1b" not in shown.stdout and r"evil\x1b[31m\nname" in shown.stdout
    listed = run_cli("info", "a.nysk", "--json", cwd=tmp_path)
    assert json.loads(listed.stdout)["columns"][0]["name"] == name


def test_log_lines_can_be_json(run_cli, shelf, tmp_path):
    result = run_cli(
        "merge", "a.nysk", "a.nysk", "--force", "-o", tmp_path / "x.nysk", "--log-format", "json", cwd=shelf
    )
    (line,) = result.stderr.splitlines()
    assert json.loads(line)["level"] == "warning"
    result = run_cli("merge", "--from-file", "none", "-o", tmp_path / "y.nysk", "--log-format", "json")
    assert json.loads(result.stderr)["level"] == "error"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sketch", "a.parquet", "-o", "x.nysk", "--nonsense"], "No such option"),
        (
            ["sketch", "a.parquet", "-o", "x.nysk", "-m", "0"],
            "'0' is neither a number",
        ),
        (["sketch", "a.parquet"], "Missing option '-o'"),
        (["skecth", "a.parquet"], "Did you mean 'sketch'?"),
    ],
)
@pytest.mark.parametrize("flag", [["--log-format", "json"], ["--log-format=json"]], ids=["two", "one"])
def test_complaints_about_the_request_can_be_json(run_cli, shelf, arguments, complaint, flag):
    result = run_cli(*arguments, *flag, cwd=shelf)
    assert (result.returncode, result.stdout) == (2, "")
    line = json.loads(result.stderr)
    assert line["level"] == "error" and complaint in line["message"]


def test_complaints_follow_the_log_format_wherever_it_is_set(run_cli, tmp_path):
    (tmp_path / "settings.toml").write_text('[info]\nlog-format = "json"\n')
    configured, variable = ["--config", tmp_path / "settings.toml"], {"NYSKETCH_INFO_LOG_FORMAT": "json"}
    for result in (
        run_cli(*configured, "info", "--nonsense"),
        run_cli("info", "--nonsense", env=variable),
    ):
        assert result.returncode == 2 and "--nonsense" in json.loads(result.stderr)["message"]
    result = run_cli("info", "--nonsense", "--log-format", "text", env=variable)
    assert result.returncode == 2 and result.stderr.startswith("Usage: ")


@pytest.mark.parametrize("target", ["/dev/full", None], ids=["full", "closed"])
def test_results_that_cannot_be_written_are_no_traceback(cli_command, shelf, target):
    command, environment = cli_command
    options = {"cwd": shelf, "env": environment, "stderr": subprocess.PIPE, "text": True, "timeout": PATIENCE}
    if target is not None:
        with open(target, "w") as full:  # noqa: PTH123 - a device
            result = subprocess.run([*command, "info", "a.nysk"], stdout=full, **options)
        assert "No space left" in result.stderr
    else:
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([*command, "info", "a.nysk"], stdout=writer, **options)
        os.close(writer)
        assert result.stderr == ""
    assert result.returncode == 1 and "Traceback" not in result.stderr


def test_flags_win_over_variables_over_the_file_over_defaults(run_cli, shelf, tmp_path):
    config, output = tmp_path / "settings.toml", tmp_path / "out.nysk"
    config.write_text('[sketch]\nlandmarks = 7\ncolumns = ["y"]\nblocks = 3\nif-exists = "overwrite"\n')

    def sketch(*arguments, **environment):
        arguments = ["sketch", shelf / "a.parquet", "-o", output, *arguments]
        result = run_cli("--config", config, *arguments, env=environment)
        assert result.returncode == 0, result.stderr
        return nysketch.load(output)

    from_file = sketch()
    assert [column.name for column in from_file.basis.columns] == ["y"]
    assert (from_file.basis.m, len(from_file.block_rows)) == (7, 3)
    assert from_file.settings["precision"] == "float32"
    variables = {"NYSKETCH_SKETCH_LANDMARKS": "6", "NYSKETCH_SKETCH_BLOCKS": "2"}
    from_variables = sketch(**variables)
    assert (from_variables.basis.m, len(from_variables.block_rows)) == (6, 2)
    from_flag = sketch("-m", "5", **variables)
    assert (from_flag.basis.m, len(from_flag.block_rows)) == (5, 2)


def test_the_settings_file_can_come_from_a_variable(run_cli, shelf, tmp_path):
    (tmp_path / "settings.toml").write_text("[info]\njson = true\n")
    result = run_cli("info", "a.nysk", cwd=shelf, env={"NYSKETCH_CONFIG": str(tmp_path / "settings.toml")})
    assert json.loads(result.stdout)["rows"] == 600


@pytest.mark.parametrize("option", ["basis", "json"])
def test_variables_are_named_after_flags(run_cli, shelf, tmp_path, option):
    values = {"basis": str(shelf / "basis.nysk"), "json": "1"}
    name = f"NYSKETCH_SKETCH_{option.upper()}"
    result = run_cli("sketch", shelf / "a.parquet", "-o", tmp_path / "a.nysk", env={name: values[option]})
    assert result.returncode == 0, result.stderr
    assert nysketch.load(tmp_path / "a.nysk").basis.m == (20 if option == "basis" else 600)
    assert result.stdout.startswith("{") == (option == "json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[sketch]\nlandmark = 7\n", "[sketch] has no option 'landmark'"),
        ("[sketches]\nlandmarks = 7\n", "[sketches] is not a command"),
        ("landmarks = 7\n", "[landmarks] is not a command"),
        ("[sketch]\nlandmarks = 7.5\n", "'7.5' is neither a number"),
        ("[sketch]\nlandmarks = true\n", "'True' is neither a number"),
        ("[sketch\n", "settings.toml"),
        ("[sketch]\nm = " + 500 * "{a = " + "1" + 500 * "}", "nested more than 64 levels deep"),
        ("[sketch]\nblocks = [1]\n", "[sketch] blocks must be one value, not a list"),
        ("[sketch]\nm = {a = 1}\n", "[sketch] m must be one value, not a table"),
        ("[sketch]\ncolumns = [['x']]\n", "[sketch] columns must be one value, not a list"),
        ('[sketch]\noutput = "\\u0000"\n', "[sketch] output must not hold null characters"),
        (b"\xff\xfe".decode("latin-1"), "settings.toml"),
        (None, "No such file"),
    ],
)
def test_a_wrong_settings_file_exits_with_2(run_cli, shelf, tmp_path, text, complaint):
    if text is not None:
        (tmp_path / "settings.toml").write_bytes(text.encode("latin-1"))
    result = run_cli(
        "--config", tmp_path / "settings.toml", "sketch", shelf / "a.parquet", "-o", tmp_path / "x.nysk"
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert complaint in result.stderr


def test_variables_are_named_once_when_a_command_is_loaded(monkeypatch):
    context = click.Context(group)
    options = {
        "score": group.get_command(context, "score").params,
        "learn kmeans": group.get_command(context, "learn").commands["kmeans"].params,
    }
    for command, params in options.items():
        option = next(option for option in params if option.name == "as_json")
        assert option.envvar == f"NYSKETCH_{command}_JSON".replace(" ", "_").upper()
        monkeypatch.setattr(option, "envvar", "ANOTHER")
    assert group.get_command(context, "score").params is options["score"]
    assert [option.envvar for option in options["score"] if option.name == "as_json"] == ["ANOTHER"]


def test_stacked_options_are_listed_in_their_order():
    @click.command()
    @stack(click.option("--one"), stack(click.option("--two"), click.option("--three")))
    @click.option("--four")
    def command(**values):
        return values

    assert [option.name for option in command.params] == ["one", "two", "three", "four"]
    assert command.main(["--two", "2"], standalone_mode=False)["two"] == "2"
