import json
import os

import pytest

from tests.jobs.jobs import Nightly


@pytest.fixture
def nightly(tmp_path):
    """A folder with a job file and three days of data; nothing has run yet."""
    return Nightly(tmp_path / "work").with_days(1, 2, 3)


@pytest.fixture
def run(run_cli):
    """Run a job in a process of its own: `run(nightly, "--dry-run")` → its summary and `stderr`."""

    def run(nightly, *flags, code=0, **options):
        result = run_cli("run", nightly.job, "--json", *flags, **options)
        assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        return (json.loads(result.stdout) if result.stdout else {}) | {"stderr": result.stderr}

    return run


@pytest.fixture
def not_root():
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
