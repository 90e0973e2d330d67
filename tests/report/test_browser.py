"""The report in a real browser: content, no complaints, light and dark, wide and narrow."""

import re
import shutil
import subprocess

import pytest

from nysketch.plotting.colours import DARK, LIGHT
from nysketch.report.write import write_report
from tests.helpers import ROOT
from tests.report.browser import executable
from tests.report.stores import CHANGED, describe_partition, make_store, month

PHONE = {"width": 360, "height": 780, "mobile": True}
HOSTILE = "<script>document.title='broken'</script>"


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A report on names as long and as bad as can be."""
    folder = tmp_path_factory.mktemp("hostile")
    columns = [HOSTILE, '"><svg onload=alert(1)>', "x" * 300, "a column with a rather long name of words"]
    store = make_store(folder / "store", partitions=3, columns=columns, m=12, models=("gmm",), name=HOSTILE)
    describe_partition(store, month(3), 10**12, 1, name="p" * 200 + HOSTILE)
    write_report(store, folder / "hostile.html")
    return folder / "hostile.html"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, PHONE], ids=["desktop", "phone"])
def test_the_report_is_shown_without_complaints(browser, report, scheme, size):
    browser.open(report, scheme=scheme, **size)
    assert browser.complaints() == []
    assert browser.requests() == [report.resolve().as_uri()]
    assert f"{month(CHANGED)} brought 760 rows" in browser.ask("document.querySelector('.lead').innerText")
    assert browser.ask("document.querySelectorAll('section').length") == 8
    theme = LIGHT if scheme == "light" else DARK
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == rgb(theme["page"])
    assert browser.ask("getComputedStyle(document.querySelector('.n-line0')).stroke") == rgb(theme["series0"])


@pytest.mark.parametrize("width", [320, 360, 600, 719, 720, 1280])
def test_pages_do_not_scroll_sideways(browser, report, hostile, width):
    for page in (report, hostile):
        browser.open(page, width=width, height=780, mobile=width < 600)
        browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
    assert browser.ask("document.title").startswith("<script>")


def test_words_in_pictures_can_be_read_on_a_phone(browser, report):
    browser.open(report, **PHONE)
    shown = "[...document.querySelectorAll('figure > svg')].filter(s => s.getBoundingClientRect().width > 0)"
    assert browser.ask(f"{shown}.every(s => s.classList.contains('narrow'))")
    sizes = browser.ask(
        f"{shown}.flatMap(s => [...s.querySelectorAll('text')].map(t => parseFloat("
        "getComputedStyle(t).fontSize) * s.getBoundingClientRect().width / s.viewBox.baseVal.width))"
    )
    assert len(sizes) > 50
    assert min(sizes) >= 9
    browser.open(report, width=1280, height=900)
    assert browser.ask(f"{shown}.every(s => s.classList.contains('wide'))")


def test_pictures_have_names_for_those_who_do_not_see_them(browser, report):
    browser.open(report)
    tree = browser.send("Accessibility.getFullAXTree")["nodes"]
    # Chromium calls role=img "image".
    images = [node["name"]["value"] for node in tree if node["role"]["value"] in ("image", "img")]
    assert "Drift over time" in images
    assert all(images)
    regions = [node for node in tree if node["role"]["value"] == "region"]
    assert len(regions) >= 8


def test_nothing_scrolls_in_print_and_prints_are_light(browser, report):
    browser.open(report, scheme="dark")
    browser.send("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.ask("getComputedStyle(document.querySelector('.tall')).maxHeight") == "none"
    assert browser.ask("getComputedStyle(document.body).color") == rgb(LIGHT["text"])
    browser.send("Emulation.setEmulatedMedia", {"media": ""})


def test_a_picture_of_the_page_is_light_or_dark(browser, report, tmp_path):
    pictures = {}
    for scheme in ("light", "dark"):
        browser.open(report, scheme=scheme)
        browser.screenshot(tmp_path / f"{scheme}.png")
        pictures[scheme] = (tmp_path / f"{scheme}.png").read_bytes()
    assert all(len(content) > 20_000 for content in pictures.values())
    assert pictures["light"] != pictures["dark"]


def test_a_script_would_not_run(browser, report, tmp_path):
    content = report.read_text().replace("</main>", f"{HOSTILE}</main>")
    (tmp_path / "attacked.html").write_text(content)
    browser.open(tmp_path / "attacked.html")
    assert browser.ask("document.title") == "taxi"
    assert any(re.search("Content Security Policy", str(told)) for told in browser.complaints())


def test_plots_are_pictures_to_a_browser(browser, store, run_cli, tmp_path):
    output = tmp_path / "plot.svg"
    made = run_cli("plot", store / "models" / "gmm.json", "-o", output)
    assert made.returncode == 0, made.stderr
    browser.open(output, scheme="dark")
    assert browser.complaints() == []
    assert browser.ask("document.documentElement.tagName") == "svg"
    assert browser.ask("getComputedStyle(document.querySelector('.n-surface')).fill") == rgb(DARK["surface"])


def test_chromium_itself_dumps_the_content(report, tmp_path):
    if executable() is None:
        pytest.skip("there is no chromium here; on Debian: apt-get install chromium")
    run = subprocess.run(
        [
            executable(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--enable-logging=stderr", f"--user-data-dir={tmp_path}", "--dump-dom", report.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "Column shifts" in run.stdout
    assert "CONSOLE" not in run.stderr


def test_the_script_that_installs_it_never_stands_in_the_way(tmp_path):
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    script = ROOT / "scripts" / "browser"
    run = subprocess.run(
        [shutil.which("bash"), script],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "will be skipped" in run.stderr
