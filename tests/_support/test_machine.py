"""How much memory there is, for a process in a container, too."""

import pytest

from nysketch._support import machine
from nysketch._support.machine import available_memory, default_memory

GB = 10**9


@pytest.fixture(autouse=True)
def physical(monkeypatch):
    monkeypatch.setattr(machine.os, "sysconf", {"SC_PAGE_SIZE": 1000, "SC_PHYS_PAGES": 16 * 10**6}.get)


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16 * GB),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 16 * GB),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{4 * GB}\n"}, 4 * GB),
        (  # of groups within groups, the least counts
            {
                "proc/self/cgroup": "0::/user/job\n",
                "sys/fs/cgroup/user/job/memory.max": f"{8 * GB}\n",
                "sys/fs/cgroup/user/memory.max": f"{3 * GB}\n",
            },
            3 * GB,
        ),
        (  # version 1, in a container, which is not told where it is mounted
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GB}\n",
            },
            2 * GB,
        ),
        (  # version 1 without a limit
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            16 * GB,
        ),
        ({"proc/self/cgroup": "nonsense"}, 16 * GB),
    ],
)
def test_the_least_limit_counts(tmp_path, files, expected):
    write(tmp_path, files)
    assert available_memory(tmp_path) == expected


@pytest.mark.parametrize(("available", "expected"), [(64 * GB, 8 * GB), (GB, 512 * 10**6), (0, 512 * 10**6)])
def test_the_default_is_an_eighth_but_enough_for_most(monkeypatch, available, expected):
    monkeypatch.setattr(machine, "available_memory", lambda: available)
    assert default_memory() == expected
