"""scripts/quickstart does the main job: all of its commands, with the environment that is there already."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT


@pytest.mark.slow
def test_quickstart_in_small(tmp_path):
    script = (ROOT / "scripts" / "quickstart").read_text()
    for here, there in (
        ('cd "$(dirname "$0")/.."', f'cd "{ROOT}"'),
        ("./scripts/setup\n", "true\n"),
        (".venv/bin/", f"{Path(sys.executable).parent}/"),
        ("mkdir -p demo\n", ""),
        (" demo/", f" {tmp_path}/"),
    ):
        assert here in script
        script = script.replace(here, there)
    done = subprocess.run(["bash", "-c", script, "quickstart", "20000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    truth = done.stdout.partition("the table itself says:")[2]
    offs = [
        float(line.split()[2]) for line in truth.splitlines() if len(line.split()) == 5 and line[:3] == "   "
    ]
    assert len(offs) == 20 and max(offs) < 0.1
