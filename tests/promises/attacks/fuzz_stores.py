"""Mutated files of a store: damaged, of another shape, or changed by somebody who computes the checksum.

Commands that read the store say what is damaged or show what was there before; and a run makes the store what
it was, or names what it cannot make again.
"""

import json
import shutil
from functools import cache

from nysketch.jobs.store_io import as_json, digest_of
from tests.jobs.jobs import JOB, Nightly
from tests.promises.attacks.mutations import OF_BYTES, changed_json
from tests.promises.attacks.mutations import as_json as odd_json
from tests.promises.attacks.outcomes import ACCEPTED, FAILED, REFUSED, UNCHANGED, Outcome, command

SETTINGS = """
[retention]
partitions = 3
[report]
output = "report.html"
"""
# What a run compares with sketches and inputs. With a checksum that is right, the rest may say anything.
_COMPARED = {
    "partitions": ("rows", "dropped_rows", "request", "sketch"),
    "windows": ("members", "partitions", "digest"),
}


@cache
def _nightly(folder):
    """Keep a store of three partitions, and one that has retired."""
    nightly = Nightly(folder / "nightly", JOB + SETTINGS).with_days(1, 2, 3, 4)
    nightly.run()
    shutil.copytree(nightly.folder / "store", folder / "whole")
    return nightly


@cache
def _shown(folder):
    """Return what status tells of the whole store, but for what depends on more than it."""
    store = _nightly(folder).folder / "store"
    content = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    _restore(folder)
    shown = json.loads(command("status", store, "--json")[1])
    for path, data in content.items():
        path.write_bytes(data)
    return {key: value for key, value in shown.items() if key not in ("bytes", "last_run", "runs", "ignored")}


def _restore(folder):
    store = _nightly(folder).folder / "store"
    shutil.rmtree(store)
    shutil.copytree(folder / "whole", store)
    return store


def _files(folder):
    _nightly(folder)
    names = (path.relative_to(folder / "whole") for path in (folder / "whole").rglob("*"))
    return sorted(name for name in names if name.suffix in (".json", ".jsonl"))


def mutate_store(random, folder):
    """Change one file, look at the store, and run the job, now and then."""
    name = random.choice(_files(folder))
    store = _restore(folder)
    path = store / name
    original = path.read_bytes()
    mutation, content = _changed(random, name, original)
    if content == original:
        return Outcome(mutation, UNCHANGED)
    path.write_bytes(content)
    looked = _looked_at(random, mutation, name, folder)
    if looked.result == FAILED or random.random() < 0.75:
        return looked
    return _run(mutation, name, original, folder)


def _changed(random, name, original):
    dice = random.random()
    if dice < 0.3:
        data, change = bytearray(original), random.choice(OF_BYTES)
        change(random, data, bytes(random.randbytes(len(original))))
        return "damaged", bytes(data)
    lines = original.splitlines() if name.suffix == ".jsonl" else [original]
    at = random.randrange(len(lines))
    value = json.loads(lines[at])
    sealed = "checksum" in value and dice < 0.65
    value = changed_json(random, value)
    if sealed and isinstance(value, dict):
        value.pop("checksum", None)
        try:
            value["checksum"] = digest_of(value)
            as_json(value)
        except ValueError:  # NaN
            sealed = False
    lines[at] = odd_json(value)
    there = isinstance(value, dict) and ("checksum" in value or "digest" in str(value.get("nightly")))
    return ("sealed" if sealed or not there else "damaged"), b"\n".join(lines) + b"\n"


def _looked_at(random, mutation, name, folder):
    """Return what becomes of a command that reads the store."""
    store = folder / "nightly" / "store"
    looks = [["status", store], ["status", store, "--json"], ["report", store, "-o", folder / "r.html"]]
    given = random.choice(looks)
    code, printed, said = command(*given)
    what = f"{given[0]}, {mutation} of {name}"
    if code in (3, 5) or (code == 2 and "Upgrade nysketch" in said):
        named = name.name.split(".json")[0] in said and said.isprintable()
        return Outcome(mutation, REFUSED if named else FAILED, f"{what}: {said[:200]}")
    if code:
        return Outcome(mutation, FAILED, f"exit code {code}: {what}: {said[:200]}")
    if given[0] == "report" and "<script>alert" in (folder / "r.html").read_text():
        return Outcome(mutation, FAILED, f"script: {what}")
    if "--json" in given:
        shown = json.loads(printed, parse_constant=_refuse)
        noticed = mutation == "damaged" and not name.name.startswith(("history", "report", "alarms"))
        if noticed and any(shown[key] != value for key, value in _shown(folder).items()):
            return Outcome(mutation, FAILED, f"shown: {what}")
    return Outcome(mutation, ACCEPTED, what)


def _run(mutation, name, original, folder):
    nightly = _nightly(folder)
    path = nightly.folder / "store" / name
    changed = path.read_bytes()
    code, _, said = command("run", nightly.job, "-q")
    what = f"run, {mutation} of {name}"
    named = name.name in said or "was made with different settings" in said
    if code in (5, 2) and path.read_bytes() == changed and named:  # nothing can be made again without it
        return Outcome(mutation, REFUSED, said)
    if code not in (0, 7):
        return Outcome(mutation, FAILED, f"exit code {code}: {what}: {said[:200]}")
    if name.suffix != ".jsonl" and not _made_again(mutation, name, path.read_bytes(), original):
        return Outcome(mutation, FAILED, f"left as it is: {what}")
    return Outcome(mutation, ACCEPTED, what)


def _made_again(mutation, name, content, original):
    if content == original:
        return True
    value, before = json.loads(content), json.loads(original)
    keys = (
        _COMPARED.get(name.parts[0], ()) if mutation == "sealed" else before.keys() - {"checksum", "software"}
    )
    return all(value.get(key) == before[key] for key in keys)


def _refuse(constant):
    raise ValueError(f"{constant} in JSON")
