"""The job file: what is refused and how, and what overrides what."""

import tomllib

import pytest

from nysketch.errors import InputError, UsageError
from nysketch.jobs.config import as_toml, load_job

SMALL = '[job]\nstore = "s"\n[inputs]\npaths = "data/{date}.parquet"\n'


def load(tmp_path, text=SMALL, changes=(), environment=None):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return load_job(path, changes=changes, environment=environment or {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL + "[bais]\n", ["table 'bais' is unknown", "Did you mean 'basis'?"]),
        (SMALL + "[basis]\nlandmark = 5\n", ["[basis]: key 'landmark'", "Did you mean 'landmarks'?"]),
        (SMALL + "[basis]\nm = 5\n", ["[basis]: key 'm'", "Did you mean 'landmarks'?"]),
        (SMALL + '[[models]]\nkind = "kmean"\nk = 2\n', ["kind must be one of", "Did you mean 'kmeans'?"]),
        (SMALL + '[[comparisons]]\nagainst = "previous"\nalhpa = 0.1\n', ["[[comparisons]]", "'alpha'"]),
        (SMALL + "[basis]\nlandmarks = 'many'\n", ["[basis] landmarks must be a whole number", "'many'"]),
        (SMALL + "[sketch]\ncells = 1\n", ["[sketch] cells must be true or false, not 1"]),
        (SMALL + "[windows]\nlast = 7\n", ["write [[windows]]"]),
        (SMALL + "[[basis]]\n", ["write [basis]"]),
        (SMALL + "[[windows]]\nlast = 7\n[[windows]]\nlast = 7\n", ["two are named 'last-7'"]),
        (SMALL + '[[models]]\nkind = "gmm"\nk = 2\nwindow = "last-9"\n', ["window 'last-9' is unknown"]),
        (SMALL + '[[models]]\nkind = "gmm"\n', ["[[models]] gmm: k is missing"]),
        (SMALL + '[[models]]\nkind = "gmm"\nk = "5:2"\n', ["range such as"]),
        (SMALL + '[[models]]\nkind = "kmeans"\nk = 2\ncovariance = "full"\n', ["covariance applies to gmm"]),
        (SMALL + "[retention]\npartitions = 5\n[[windows]]\nlast = 7\n", ["last-7 is over 7", "keeps 5"]),
        (SMALL + '[[comparisons]]\nagainst = "reference"\n', ["needs reference"]),
        (
            SMALL + '[[comparisons]]\nagainst = "previous"\npermutations = 5\n',
            ["previous", "at alpha = 0.05. Use more perm"],
        ),
        (SMALL + "[sketch]\npairs = true\nshuffles = 0\n", ["leave out pairs or permutations = 0"]),
        (SMALL + '[basis]\nfile = "b.nysk"\nscale = "robust"\n', ["scale applies to a new basis"]),
        (SMALL + '[basis]\nsampling = "best"\n', ["[basis]: sampling must be one of"]),
        ('[job]\nstore = "s"\n', ["[inputs] paths is missing"]),
        ('[inputs]\npaths = "a"\n', ["[job] store is missing"]),
        (SMALL + 'partition = "date2"\n', ['"hive:KEY"']),
        (SMALL.replace("{date}", "x") + 'partition = "date"\n', ["no {date} in data/x.parquet"]),
        (SMALL.replace("{date}", "{day}"), ["{day} is unknown"]),
        (SMALL.replace("{date}", "{date:%m}"), ["needs the year"]),
        (SMALL.replace("{date}", "{date:%A}"), ["%A is not allowed in {date}"]),
        ("[job\n", ["not a job file"]),
        (SMALL + "x = " + 500 * "[" + 500 * "]", ["not a job file", "nested"]),
        (SMALL + "x = " + 500 * "{a = " + "1" + 500 * "}", ["not a job file", "nested"]),
        (SMALL + f"[basis]\n{'.'.join(['kernel'] + 500 * ['a'])} = 1\n", ["not a job file", "nested"]),
        (SMALL.replace('"data', '["x", "x", "data').replace('et"', 'et"]'), ["paths: 'x' is there twice"]),
        (SMALL + "[sketch]\nseed = 99999999999999999999\n", ["seed must be at most 9223372036854775807"]),
        (SMALL.replace('"s"', f'"{256 * "s"}"'), ["store must be a path, with names of at most 255 bytes"]),
        (SMALL.replace('"s"', r'"s\u0000"'), ["store must be a string without null characters"]),
        (SMALL + "[basis]\nlandmarks = [" + 9999 * "1," + "]\n", ["not [1, 1, 1, 1, 1, 1, ...]"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_was_meant(tmp_path, text, words):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert all(word in str(caught.value) for word in ["job.toml", *words]), str(caught.value)


def test_a_job_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: cannot read the job file"):
        load_job(tmp_path / "none.toml")


def test_flags_beat_variables_which_beat_the_file_which_beats_defaults(tmp_path):
    text = SMALL + "[basis]\nlandmarks = 5\n"
    variable = {"NYSKETCH_RUN_BASIS_LANDMARKS": "6", "NYSKETCH_RUN_LOCK_WAIT": "1"}

    def landmarks(*args, **options):
        return load(tmp_path, *args, **options).settings["basis"]["landmarks"]

    assert landmarks() == 1000
    assert landmarks(text) == 5
    assert landmarks(text, environment=variable) == 6
    assert landmarks(text, ["basis.landmarks=7"], variable) == 7


def test_settings_in_lists_are_overridden_by_name(tmp_path):
    text = SMALL + '[[comparisons]]\nagainst = "previous"\n[[windows]]\nlast = 7\n'
    environment = {"NYSKETCH_RUN_WINDOWS_LAST_7_LAST": "14"}
    job = load(tmp_path, text, ["comparisons.previous.alpha=0.5"], environment)
    assert job.comparisons[0]["alpha"] == 0.5
    assert job.windows == [{"name": "last-7", "last": 14}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("basis.landmark=5", "Did you mean 'landmarks'?"),
        ("bases.landmarks=5", "Did you mean 'basis'?"),
        ("landmarks=5", "does not have the form table.key=value"),
        ("windows.last-8.last=5", "name 'last-8' is unknown"),
        ("basis.landmarks=x", "must be a whole number"),
    ],
)
def test_an_override_that_makes_no_sense(tmp_path, change, words):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, SMALL + "[[windows]]\nlast = 7\n", [change])
    assert words in str(caught.value) and change in str(caught.value)


def test_a_variable_that_names_no_key(tmp_path):
    with pytest.raises(UsageError, match=r"NYSKETCH_RUN_BASIS_LANDMARK: .*Did you mean 'landmarks'"):
        load(tmp_path, environment={"NYSKETCH_RUN_BASIS_LANDMARK": "6"})


def test_text_that_looks_like_a_number_stays_text(tmp_path):
    text = SMALL + '[[comparisons]]\nagainst = "reference"\nreference = "a"\n'
    job = load(tmp_path, text, ["comparisons.reference.reference=202004"])
    assert job.comparisons[0]["reference"] == "202004"


def test_the_settings_that_are_shown_give_the_same_settings(tmp_path):
    text = SMALL + '[basis]\nkernel = { a = "gaussian", "b c" = "linear" }\n'
    text += '[basis.groups]\na = ["x"]\n"b c" = ["y", "quote\\"d"]\n[[windows]]\nlast = 7\n'
    job = load(tmp_path, text)
    shown = as_toml(job.settings)
    tomllib.loads(shown)
    assert load(tmp_path, shown).settings == job.settings


def test_columns_can_count_more(tmp_path):
    job = load(tmp_path, SMALL + "[basis.emphasis]\nprice = 2\n")
    assert job.basis_options().emphasis == {"price": 2.0}
    assert load(tmp_path, as_toml(job.settings)).settings == job.settings
    with pytest.raises(UsageError, match=r"\[basis\] emphasis must be a table such as"):
        load(tmp_path, SMALL + "[basis]\nemphasis = 2\n")
    with pytest.raises(UsageError, match=r"emphasis of column 'price' must be a number between"):
        load(tmp_path, SMALL + "[basis.emphasis]\nprice = 0\n")


def test_show_config_prints_what_would_be_used(tmp_path, run_cli):
    (tmp_path / "job.toml").write_text(SMALL)
    flags = ["run", tmp_path / "job.toml", "--show-config", "--set", "sketch.blocks=8", "--threads", "3"]
    shown = tomllib.loads(run_cli(*flags, env={"NYSKETCH_RUN_JOB_NAME": "night"}).stdout)
    assert (shown["sketch"]["blocks"], shown["job"]["name"], shown["job"]["threads"]) == (8, "night", 3)
    wrong = run_cli("run", tmp_path / "job.toml", "--set", "sketch.block=8")
    assert wrong.returncode == 2 and "Did you mean 'blocks'?" in wrong.stderr
    assert not (tmp_path / "s").exists()


def test_names_that_overrides_make_equal_are_refused(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        '[job]\nstore = "s"\n[inputs]\npaths = "*.parquet"\n[[windows]]\nlast = 2\n[[windows]]\nlast = 3\n'
    )
    with pytest.raises(UsageError, match="two are named 'last-3'"):
        load_job(path, changes=["windows.last-2.name=last-3"], environment={})


def test_a_glob_that_makes_no_sense(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[job]\nstore = "s"\n[inputs]\npaths = "[z-a]-{date}.parquet"\n')
    with pytest.raises(UsageError, match="not a valid glob"):
        load_job(path, environment={})


def test_settings_of_a_sketch_have_the_names_of_the_command_line_and_those_of_files(tmp_path):
    old, new = (tmp_path / f"{name}.toml" for name in ("old", "new"))
    old.write_text(SMALL + "[sketch]\nruns = 3\nshuffles = 7\nshuffle_rows = 9\n")
    new.write_text(SMALL + "[sketch]\nspans = 3\npermutations = 7\npermutation_rows = 9\n")
    changes = ["sketch.spans=3", "sketch.shuffles=7", "sketch.permutation_rows=9"]
    (tmp_path / "set.toml").write_text(SMALL)
    jobs = [load_job(old), load_job(new), load_job(tmp_path / "set.toml", changes=changes)]
    assert jobs[0].fixed() == jobs[1].fixed() == jobs[2].fixed()
    assert jobs[0].fixed()["sketch"].items() >= {"runs": 3, "shuffles": 7, "shuffle_rows": 9}.items()
    assert "spans = 3" in as_toml(jobs[0].settings)
    new.write_text(SMALL + "[sketch]\nspans = 3\nruns = 3\n")
    with pytest.raises(UsageError, match="spans and runs are the same setting"):
        load_job(new)
