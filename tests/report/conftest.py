import pytest

from nysketch.report.write import write_report
from tests.report.browser import Browser, executable
from tests.report.stores import CHANGED, make_store


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A store that ends with a changed partition; for reading only."""
    return make_store(tmp_path_factory.mktemp("store"), partitions=CHANGED + 1, m=30)


@pytest.fixture(scope="session")
def report(store, tmp_path_factory):
    """The report on it."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(store, path)
    return path


@pytest.fixture(scope="session")
def browser():
    if executable() is None:
        pytest.skip("there is no chromium here; on Debian: apt-get install chromium")
    running = Browser()
    yield running
    running.close()
