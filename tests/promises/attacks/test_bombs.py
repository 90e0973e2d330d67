"""Files of a few kilobytes that would take gigabytes of memory: refused for less than they weigh."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nysketch
from tests.helpers import canonical, small_sketch, unseal

MEGABYTE = 1 << 20

# The kernel's own high-water mark, before and after: what loading the file took.
LOADING = """
import re, sys
from pathlib import Path
import nysketch, nysketch.models.files, nysketch.files.format
from nysketch.errors import NysketchError
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1))
before = peak()
try:
    getattr(nysketch, sys.argv[1])(sys.argv[2])
except NysketchError as error:
    print(error.exit_code, error)
print(peak() - before)
"""


def loading(function, path):
    """Load a file in a new process: what was said, and the megabytes that it took."""
    run = subprocess.run(
        [sys.executable, "-c", LOADING, function, path], capture_output=True, text=True, check=True
    )
    *said, kilobytes = run.stdout.splitlines()
    return " ".join(said), int(kilobytes) / 1024


def claiming(path, numbers, *, allocated):
    """Write a sketch file that claims so many numbers more than it has, as holes or as blank blocks."""
    sketch = small_sketch()
    header, _, _ = unseal(nysketch.to_bytes(sketch))
    layout = {name: entry for name, entry in header.items() if name != "__metadata__"}
    layout["blocks.sums"]["shape"] = [4, numbers // 4]
    sizes, offset = {"F64": 8, "F32": 4, "I64": 8, "U8": 1}, 0
    for _, entry in sorted(layout.items()):
        size = int(np.prod(entry["shape"])) * sizes[entry["dtype"]]
        entry["data_offsets"], offset = [offset, offset + size], offset + size
    text = canonical(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)
        if allocated:
            os.posix_fallocate(file.fileno(), 0, 8 + len(text) + offset)
    return path


def holes(path):
    """6 GB on 8 kB of the disk."""
    assert claiming(path, 750_000_000, allocated=False).stat().st_blocks * 512 < MEGABYTE
    return "load", "the rest are holes"


def blank(path):
    """300 MB that are there, with a wrong checksum."""
    claiming(path, 300 * MEGABYTE // 8, allocated=True)
    return "load", "checksum"


def too_large(path):
    claiming(path, 40_000_000_000, allocated=False)
    return "load", "more than the format's"


def zip_bomb(path):
    """200 MB of text that are packed into a thousandth of that."""
    size = 200 * MEGABYTE
    text = f"{{'descr': '<U{size // 4}', 'fortran_order': False, 'shape': (), }}".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        content = b"\x93NUMPY\x01\x00v\x00" + text.ljust(117) + b"\n" + b" \0\0\0" * (size // 4)
        archive.writestr("nysketch_model.npy", content)
    assert path.stat().st_size < MEGABYTE
    return "load_model", "compressed"


def zip_of_many(path):
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(20_000):
            archive.writestr(f"{i}.npy", b"")
    return "load_model", "more members than a model"


def huge_member(path):
    """A member without compression that is a hole of a gigabyte."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nysketch_model.npy", b"")
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 20 : at + 28] = (1 << 30).to_bytes(4, "little") * 2
    path.write_bytes(content)
    return "load_model", "too large"


def json_of(item, size=63 * MEGABYTE):
    def write(path):
        start, end = b'{"kind": [', b"0]}"
        path.write_bytes(start + item * ((size - 100) // len(item)) + end)
        return "load_model", "lists or"

    write.__name__ = f"JSON of {item.decode()}"
    return write


def long_json(path):
    path.write_bytes(b'{"kind": [' + b"1.5," * (17 * MEGABYTE) + b"0]}")
    return "load_model", "too large"


def long_footer(path):
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write((900 * MEGABYTE).to_bytes(4, "little") + b"PAR1")
    return "load_model", "too large"


BOMBS = [holes, blank, too_large, zip_bomb, zip_of_many, huge_member, long_json, long_footer]
BOMBS += [json_of(item) for item in (b"[],", b"{},", b'"ab",', b'{"a":[]},')]


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_refused_for_little_memory(bomb, tmp_path):
    path = Path(tmp_path / "bomb")
    function, why = bomb(path)
    said, megabytes = loading(function, path)
    assert said.startswith(f"5 {path}: ") and why in said
    # JSON may have 64 MiB; everything else is read a megabyte at a time, or not at all.
    assert megabytes < (150 if "JSON" in bomb.__name__ or bomb is long_json else 30)


@pytest.mark.slow
def test_numbers_take_a_multiple_of_the_text(tmp_path):
    (tmp_path / "m.json").write_bytes(b'{"kind": [' + b"1e0," * (4 * MEGABYTE) + b"0]}")
    said, megabytes = loading("load_model", tmp_path / "m.json")
    assert "not the description of a model" in said
    assert megabytes < 14 * 16


@pytest.mark.parametrize("harmless", [0, 1 << 30])
def test_large_sketches_are_read_in_two_steps_as_in_one(harmless, tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.files.container.HARMLESS_BYTES", harmless)
    sketch = small_sketch()
    nysketch.save(sketch, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == sketch
    assert nysketch.from_bytes(nysketch.to_bytes(sketch)) == sketch
    content = bytearray(nysketch.to_bytes(sketch))
    content[-1] ^= 1
    with pytest.raises(nysketch.NysketchError, match="checksum"):
        nysketch.from_bytes(content)
