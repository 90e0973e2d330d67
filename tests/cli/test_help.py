"""Help that can be read, shell completion, and old names of options."""

import os
import re
import shutil
import subprocess

import click
import pytest

import nysketch
from nysketch.cli import ABOUT, COMMANDS, group
from nysketch.cli._sections import COMMON, SECTIONS, Command, Option
from tests.helpers import ROOT


def all_commands():
    """Return contexts of all commands that are no groups, by their names."""
    root = click.Context(group, info_name="nysketch", help_option_names=["-h", "--help"])
    found = {}
    for name in (*COMMANDS, *ABOUT):
        command = group.get_command(root, name)
        context = click.Context(command, info_name=name, parent=root)
        if isinstance(command, click.Group):
            for inner_name, inner in command.commands.items():
                found[f"{name} {inner_name}"] = click.Context(inner, info_name=inner_name, parent=context)
        else:
            found[name] = context
    return found


ALL = all_commands()
# The options that people need on the first day, and those that few ever need.
FIRST = {
    "sketch": ["--output", "--columns", "--exclude", "--nulls", "--landmarks", "--bandwidth", "--scale"],
    "basis": ["--output", "--columns", "--nulls", "--landmarks"],
    "learn kmeans": ["-k", "--output"],
    "learn gmm": ["-k", "--output", "--covariance"],
    "compare": ["--reference", "--alpha", "--alarm"],
    "independence": ["--group", "--permutations", "--alpha", "--alarm"],
    "coreset": ["--functions", "--output"],
    "assign": ["--output", "--keep"],
}
EXPERTS = {
    "--decay",
    "--frequencies",
    "--retries",
    "--allow-external",
    "--worker-wait",
    "--worker-silence",
    "--scheduler",
}


def longest(option):
    return max(option.opts, key=len)


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_in_one_section(name):
    context = ALL[name]
    command = context.command
    assert isinstance(command, Command)
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    assert all(isinstance(option, Option) for option in options if "--help" not in option.opts)
    assert {option.section for option in options if isinstance(option, Option)} <= set(SECTIONS) - {COMMON}
    sections = command.sections(context)
    shown = [option for members in sections.values() for option in members]
    assert sorted(map(longest, shown)) == sorted(map(longest, options))
    assert all(sections.values())
    if len(options) <= 10:
        assert list(sections) == ["Options"]
        return
    assert list(sections) == [title for title in SECTIONS if title in sections]
    assert 4 <= len(sections[COMMON]) <= 12 and longest(sections[COMMON][-1]) == "--help"
    first = [longest(option) for option in sections[COMMON]]
    assert [flag for flag in first if flag in FIRST.get(name, [])] == FIRST.get(name, [])
    for title, members in sections.items():
        if EXPERTS & set(map(longest, members)):
            assert title.endswith("(advanced)")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_help_fits_a_terminal_and_has_every_title_once(run_cli, name):
    result = run_cli(*name.split(), "-h", env={"COLUMNS": "80"})
    assert (result.returncode, result.stderr) == (0, "")
    *lines, example = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert example.startswith(f"  Example: nysketch {name.split()[0]} ")
    titles = [line[:-1] for line in lines if re.fullmatch(r"[A-Z].*:", line)]
    assert titles == list(ALL[name].command.sections(ALL[name]))
    assert "RANGE" not in result.stdout and "x>=" not in result.stdout
    # All options start in the same column, and so does all that is said about them.
    described = [line for line in lines if line.startswith("  -")]
    starts = {match.end() for line in described if (match := re.match(r"  -\S.{0,24}?\s{2,}(?=\S)", line))}
    assert starts == {30}


def test_help_has_no_odd_phrases():
    # A command remembers its option for help from the first context that asks for it.
    texts = [group.get_help(click.Context(group, **group.context_settings))]
    texts += [context.command.get_help(context) for context in ALL.values()]
    for text in texts:
        for phrase in (
            "stand for",
            "stands for",
            "so many",
            "of which",
            " told",
            "Tell ",
            "nobody",
            "shuffle",
        ):
            assert phrase not in " ".join(text.split())


@pytest.mark.parametrize("words", [[], ["sketch"], ["learn"], ["learn", "gmm"], ["help"], ["completion"]])
def test_help_is_also_a_command(run_cli, words):
    asked, shown = run_cli("help", *words), run_cli(*words, "--help")
    assert (asked.returncode, asked.stderr, asked.stdout) == (0, "", shown.stdout)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["skecth"], "No such command 'skecth'. Did you mean 'sketch'?"),
        (["learn", "kmean"], "No such command 'kmean'. Did you mean 'kmeans'?"),
        (["sketch", "more"], "No such command 'more'."),
    ],
)
def test_help_on_something_else_is_refused(run_cli, words, complaint):
    result = run_cli("help", *words)
    assert (result.returncode, result.stdout) == (2, "") and complaint in result.stderr


# ---- completion ------------------------------------------------------------------------------------


def completions(run_cli, *words):
    """Ask as bash does, with the cursor behind the last word."""
    request = {"COMP_WORDS": " ".join(["nysketch", *words]), "COMP_CWORD": str(len(words))}
    result = run_cli(env=request | {"_NYSKETCH_COMPLETE": "bash_complete"})
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["co"], ["plain,compare", "plain,coreset", "plain,completion"]),
        (["learn", "k"], ["plain,kmeans"]),
        (["sketch", "--ex"], ["plain,--exclude"]),
        (["sketch", "--permutation"], ["plain,--permutations", "plain,--permutation-rows"]),
        (["learn", "gmm", "--cov"], ["plain,--covariance"]),
        (["compare", "--adjust", "h"], ["plain,holm"]),
        (["sketch", "da"], ["file,da"]),
        (["verify", "da"], ["file,da"]),
        (["help", "ind"], ["plain,independence"]),
        (["help", "learn", "g"], ["plain,gmm"]),
        (["help", "nonsense", "g"], []),
        (["completion", "z"], ["plain,zsh"]),
        # Old names work, and are not offered.
        (["sketch", "--shuf"], []),
        (["sketch", "--run"], []),
    ],
    ids=" ".join,
)
def test_shells_complete(run_cli, words, expected):
    assert completions(run_cli, *words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(run_cli, shell):
    result = run_cli("completion", shell)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"_NYSKETCH_COMPLETE={shell}_complete" in result.stdout and "nysketch" in result.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=result.stdout, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_with_the_script(run_cli, cli_command, tmp_path):
    """The script, as bash runs it: `nysketch` is what is on the PATH."""
    starter = tmp_path / "nysketch"
    starter.write_text(f'#!/bin/sh\nexec {cli_command[0][0]} -m nysketch "$@"\n')
    starter.chmod(0o755)
    script = run_cli("completion", "bash").stdout
    script += "COMP_WORDS=(nysketch sketch --null); COMP_CWORD=2; _nysketch_completion nysketch --null\n"
    script += 'echo "${COMPREPLY[@]}"\n'
    environment = cli_command[1] | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(ROOT)
    result = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (result.stdout, result.stderr) == ("--nulls\n", "")


# ---- old names -------------------------------------------------------------------------------------

OLD = {"shuffles": "permutations", "shuffle-rows": "permutation-rows", "runs": "spans"}


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
@pytest.mark.parametrize("which", [list(OLD), list(OLD.values())], ids=["old", "new"])
def test_old_and_new_names_give_the_same_sketch(run_cli, shelf, tmp_path, how, which):
    values = dict(zip(which, (40, 60, 3), strict=True))
    arguments = ["sketch", shelf / "a.parquet", "--group", "p=x", "--group", "q=y", "-m", "5"]
    options, variables = [], {}
    if how == "flag":
        arguments += [word for name, value in values.items() for word in (f"--{name}", value)]
    elif how == "variable":
        variables = {
            f"NYSKETCH_SKETCH_{name.replace('-', '_').upper()}": str(value) for name, value in values.items()
        }
    else:
        lines = [f"{name} = {value}" for name, value in values.items()]
        (tmp_path / "settings.toml").write_text("\n".join(["[sketch]", *lines]))
        options = ["--config", tmp_path / "settings.toml"]
    made = run_cli(*options, *arguments, "--sample-rows", 10, "-o", tmp_path / "s.nysk", env=variables)
    assert made.returncode == 0, made.stderr
    settings = nysketch.load(tmp_path / "s.nysk").settings
    assert [settings[name] for name in ("shuffles", "shuffle_rows", "runs")] == [40, 60, 3]


def test_new_variables_win_over_old_ones(run_cli, shelf, tmp_path):
    variables = {"NYSKETCH_SKETCH_SPANS": "2", "NYSKETCH_SKETCH_RUNS": "4"}
    arguments = ["sketch", shelf / "a.parquet", "-m", "5", "-o", tmp_path / "s.nysk"]
    assert run_cli(*arguments, env=variables).returncode == 0
    assert nysketch.load(tmp_path / "s.nysk").settings["runs"] == 2


def test_independence_also_takes_the_old_name(run_cli, shelf):
    arguments = ["independence", "a.parquet", "--group", "p=x", "--group", "q=y", "-m", "5", "--json"]
    for given, env in ((["--shuffles", "60"], {}), ([], {"NYSKETCH_INDEPENDENCE_SHUFFLES": "60"})):
        result = run_cli(*arguments, *given, cwd=shelf, env=env)
        assert result.returncode == 0 and '"shuffles": 60' in result.stdout


# ---- something else than a sketch --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(
            (command, "x.csv")
            for command in ("verify", "export", "merge", "compare", "learn", "independence")
        ),
        *(("info", name) for name in ("some data.csv.gz", "x.h5", "x.parquet", "x.feather")),
    ],
)
def test_data_given_for_a_sketch_is_answered_with_what_to_do(run_cli, shelf, tmp_path, command, name):
    starts = {"x.h5": b"\x89HDF\r\n\x1a\n", "x.feather": b"ARROW1\0\0"}
    (tmp_path / name).write_bytes(starts.get(name, b"x,y\n1,2\n3,4\n"))
    if name == "x.parquet":
        shutil.copy(shelf / "a.parquet", tmp_path / name)
    output = ["-o", tmp_path / "out.json"]
    arguments = {
        "export": ["export", name, *output],
        "merge": ["merge", shelf / "a.nysk", name, *output],
        "compare": ["compare", name, shelf / "a.nysk"],
        "learn": ["learn", "kmeans", name, "-k", "2", *output],
    }.get(command, [command, name])
    result = run_cli(*arguments, cwd=tmp_path)
    assert result.returncode == 3
    words = {"some data.csv.gz": "'some data.csv.gz' -o 'some data.nysk'"}.get(name, f"{name} -o x.nysk")
    assert f"{name}: this is data, not a sketch. Run `nysketch sketch {words}` first" in result.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("suffix", ["json", "parquet", "npz"])
@pytest.mark.parametrize("command", ["merge", "export"])
def test_a_model_given_for_a_sketch_is_answered_with_what_reads_it(run_cli, shelf, tmp_path, command, suffix):
    model = tmp_path / f"model.{suffix}"
    nysketch.save_model(nysketch.load_model(shelf / "model.json"), model)
    result = run_cli(command, model, "-o", tmp_path / "out.npz")
    assert (result.returncode, result.stdout) == (3, "")
    readers = "`nysketch assign`, `nysketch score`, `nysketch plot` and `nysketch info`"
    assert f"{model}: this is a model, not a sketch. {readers} read models" in result.stderr


def test_other_files_are_called_what_they_are_not(run_cli, tmp_path):
    (tmp_path / "x.json").write_text('{"kind": "store"}')
    (tmp_path / "x.nysk").write_bytes(b"")
    for name in ("x.json", "x.nysk"):
        result = run_cli("info", name, cwd=tmp_path)
        assert result.returncode == 5 and f"{name}: not a usable sketch file" in result.stderr
