"""Mutated job files and settings files: every key with values of every type, and damaged text."""

import shutil
from functools import cache

import click

import nysketch
from nysketch import cli
from nysketch.jobs.schema import LISTS, TABLES
from tests.jobs.jobs import JOB, Nightly
from tests.promises.attacks.mutations import OF_BYTES
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, Outcome, command

VALUES = [
    *("true", "false", "-1", "0", "1", "2", "7.5", "1e308", "nan", "inf", '""', '"x"', "[]", "[[]]", "{}"),
    *("1979-05-27", "9223372036854775807", "9" * 30, "9" * 5000, '"../../../etc"', '"\\u0000"', '"/"', '"."'),
    *('"s3://"', '"http://127.0.0.1:9/x.parquet"', '["a",1]', '"{date:%q}"', '"["', '"[z-a]{date}"', '"**"'),
    *(
        '"{date}{date}"',
        '"last-7"',
        '"512QB"',
        '"1e999GB"',
        '"-5MB"',
        '"2:1"',
        '"1:100000"',
        '"all"',
        '"auto"',
    ),
    *('"' + "a" * 5000 + '"', '"iceberg:x"', '"delta:x"', '"hive:"', '"hive:a,,b"', '"file"', '"date"'),
    *(
        '"reference:///x.json"',
        '"data://text/plain;base64,UEFSMQ=="',
        '"generic://file:///x"',
        '"nowhere://x"',
    ),
    *(
        '"cached::file://x"',
        "{a={b={c=1}}}",
        '"\\ud800"',
        '"\\u202e"',
        "[" * 500 + "]" * 500,
        "{a=" * 99 + "1",
    ),
    *(
        '"gaussian"',
        '"product"',
        '{x="gaussian"}',
        '{x=["x"],y=["y"]}',
        '"kmeans"',
        '"previous"',
        "['x', 'y']",
    ),
]
LIKELY = [
    "true",
    "1",
    "2",
    "0.5",
    '"x"',
    '["x", "y"]',
    '"all"',
    '"auto"',
    '"2:3"',
    '"512MB"',
    '"previous"',
    '"ends"',
]
# Commands that read settings, with all that they need.
_COMMANDS = {
    "sketch": ["sketch", "{d}", "-o", "{out}.nysk", "--dry-run"],
    "basis": ["basis", "{d}", "-m", "5", "-o", "{out}.nysk"],
    "info": ["info", "{s}"],
    "compare": ["compare", "{s}", "{s}"],
    "learn.kmeans": ["learn", "kmeans", "{s}", "-k", "2", "-o", "{out}.json"],
    "learn.gmm": ["learn", "gmm", "{s}", "-k", "2", "-o", "{out}.json"],
    "coreset": ["coreset", "{s}", "-s", "3", "-o", "{out}.csv"],
    "independence": ["independence", "{s}"],
    "assign": ["assign", "{m}", "{d}", "-o", "{out}.csv"],
    "score": ["score", "{m}", "{d}"],
    "export": ["export", "{s}", "-o", "{out}.json"],
    "plot": ["plot", "{s}", "-o", "{out}.svg"],
    "merge": ["merge", "{s}", "-o", "{out}.nysk"],
    "run": ["run", "{job}", "--dry-run"],
}


@cache
def _nightly(folder):
    """Write a job whose data are there."""
    return Nightly(folder / "jobs").with_days(1)


def _value(random):
    return random.choice(random.choice([VALUES, LIKELY]))


def mutate_job(random, folder):
    """Change a job file, and say what it would do."""
    nightly = _nightly(folder)
    if random.random() < 0.15:
        data = bytearray(JOB.encode())
        random.choice(OF_BYTES)(random, data, random.randbytes(len(data)))
        mutation, content = "bytes", bytes(data)
    else:
        mutation, content = "settings", _with_settings(random).encode()
    nightly.job.write_bytes(content)
    for given in (["--show-config"], ["--dry-run"]):
        code, _, said = command("run", nightly.job, *given)
        if code in (2, 3) and said:
            return Outcome(mutation, REFUSED, said)
        if code:
            return Outcome(mutation, FAILED, f"exit code {code}: {given[0]}: {said[:200]}")
    if b'"/"' in content or b".." in content:  # nothing is to be written there
        return Outcome(mutation, ACCEPTED)
    before = set(nightly.folder.iterdir())
    code, _, said = command("run", nightly.job, "-q", "--set", "job.threads=1")
    for path in set(nightly.folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if code and not said:
        return Outcome(mutation, FAILED, f"exit code {code}, and not a word")
    return Outcome(f"{mutation}, run", REFUSED if code else ACCEPTED, said)


def _with_settings(random):
    lines = JOB.splitlines()
    for _ in range(random.choice([1, 1, 2])):
        table = random.choice([*TABLES, *LISTS])
        key = random.choice(list((TABLES | LISTS)[table]))
        header = f"[{table}]" if table in TABLES else f"[[{table}]]"
        if header not in lines:
            lines.append(header)
        at = lines.index(header) + 1
        lines = [line for line in lines if not (table in TABLES and line.startswith(f"{key} ="))]
        lines.insert(at, f"{key} = {_value(random)}")
    if random.random() < 0.2:
        gone = random.choice(["store", "paths", "last", "kind", "k ", "against"])
        lines = [line for line in lines if not line.startswith(gone)]
    return "\n".join(lines)


@cache
def _files(folder):
    """Write data, a sketch, a model and a job: paths by what commands have for them."""
    nightly = Nightly(folder / "settings").with_days(1)
    made = {"d": nightly.input(1), "s": folder / "s.nysk", "m": folder / "m.json", "job": nightly.job}
    sketch = nysketch.sketch(str(made["d"]), landmarks=8, blocks=4, threads=1)
    nysketch.save(sketch, made["s"])
    nysketch.save_model(nysketch.learn_kmeans(sketch, 2), made["m"])
    return {name: str(path) for name, path in made.items()}


@cache
def _options():
    """Return the options of the commands."""
    context = click.Context(cli.group)
    found = {}
    for name in _COMMANDS:
        first, _, second = name.partition(".")
        given = cli.group.get_command(context, first)
        given = given.commands[second] if second else given
        found[name] = [max(each.opts, key=len).lstrip("-") for each in given.params if each.name != "help"]
    return found


def mutate_settings(random, folder):
    """Change a settings file, and have its command read it."""
    files = _files(folder)
    name = random.choice(sorted(_COMMANDS))
    keys = set(random.choices(_options()[name], k=random.choice([1, 1, 2, 3])))
    lines = [f"[{name}]", *(f"{key} = {_value(random)}" for key in sorted(keys))]
    content = "\n".join(lines).encode()
    if random.random() < 0.15:
        data = bytearray(content)
        random.choice(OF_BYTES)(random, data, random.randbytes(len(data)))
        content = bytes(data)
    settings = folder / "settings.toml"
    settings.write_bytes(content)
    given = [part.format(out=folder / "out", **files) for part in _COMMANDS[name]]
    code, _, said = command("--config", settings, *given)
    for path in folder.glob("out.*"):
        path.unlink()
    if code in (2, 3, 4) and said:
        return Outcome(name, REFUSED, said)
    return Outcome(name, FAILED, f"exit code {code}: {said[:200]}") if code else Outcome(name, ACCEPTED)
