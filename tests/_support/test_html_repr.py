"""How results present themselves: one line each, and tables in which hostile names do no harm."""

import re
from functools import cache
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch._support.html_repr import counted, html_table, listed, one_line, verdict, with_error
from nysketch.models.score import score
from nysketch.sources.open import open_source
from nysketch.twosample.compare import compare_all

PLAIN = ("temperature", "pressure", "humidity")
LONG = tuple(f"{name} " * 100 for name in PLAIN)
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a\x1b[31mb\n\tc\u202e&amp;")


def table(names, rows=300, seed=0):
    return {name: np.random.default_rng([seed, i]).normal(size=rows) for i, name in enumerate(names)}


def objects(names):
    """Yield a name and one of each kind of result, made from columns and groups of these names."""
    data = table(names)
    sketch = nysketch.sketch(data, landmarks=30)
    other = nysketch.sketch(table(names, seed=1), basis=sketch.basis)
    yield "Sketch", sketch
    yield "Sketch", nysketch.sketch(data, features="fourier", landmarks=20)
    yield "Sketch", sketch - sketch
    yield "Basis", sketch.basis
    grouped = nysketch.sketch(data, landmarks=30, groups={name: [name] for name in names}, pairs=True)
    yield "Sketch", grouped
    yield "Independence", nysketch.independence(grouped, pairs=True)
    yield "Independence", nysketch.independence(grouped, permutations=0)
    kmeans = nysketch.learn_kmeans(sketch, k=3)
    mixture = nysketch.learn_gmm(sketch, k=2)
    yield "KMeansModel", kmeans
    yield "MixtureModel", mixture
    yield "Score", score(kmeans, open_source(data))
    yield "Score", score(mixture, open_source(data))
    yield "Coreset", nysketch.coreset(data, functions=5, landmarks=30)
    yield "Comparison", nysketch.compare(sketch, other)
    yield "Comparison", nysketch.compare(sketch, other, test="none")
    every = [sketch, other, nysketch.sketch(table(names, seed=2), basis=sketch.basis)]
    yield "Comparisons", compare_all(every, [f"{name}.nysk" for name in names], [*combinations(range(3), 2)])


@pytest.fixture(scope="module", params=[PLAIN, LONG, HOSTILE], ids=["plain", "long", "hostile"])
def results(request):
    return results_of(request.param)


@cache
def results_of(names):
    return list(objects(names))


class Reader(HTMLParser):
    """Notes the tags of a document, and its text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert not attributes
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
def test_reprs_are_one_short_printable_line(results):
    for name, result in results:
        text = repr(result)
        assert text.startswith(f"<{name}: ") and text.endswith(">")
        assert len(text) <= 120
        assert text.isprintable()


def test_tables_of_notebooks_hold_no_markup_but_their_own(results):
    for name, result in results:
        found = Reader(result._repr_html_())
        assert found.tags == {"table", "caption", "tr", "th", "td"}
        assert not found.open
        assert found.text[0] == name
        assert "".join(found.text).isprintable()
        assert len(result._repr_html_()) < 20_000


def test_tables_name_the_columns():
    shown = {name: "".join(Reader(result._repr_html_()).text) for name, result in results_of(PLAIN)}
    for name in ("Sketch", "Basis", "KMeansModel", "MixtureModel", "Coreset", "Independence"):
        assert "temperature, pressure, humidity" in shown[name]
    assert "temperature.nysk – pressure.nysk" in shown["Comparisons"]


def test_what_they_say():
    found = {}
    for name, result in results_of(PLAIN):
        found.setdefault(name, []).append(repr(result))
    assert found["Sketch"] == [
        "<Sketch: 300 rows × 3 columns, 30 landmarks, gaussian kernel>",
        "<Sketch: 300 rows × 3 columns, 20 Fourier features, gaussian kernel>",
        "<Sketch: 0 rows × 3 columns, 30 landmarks, gaussian kernel>",
        "<Sketch: 300 rows × 3 columns, 30 landmarks, product kernel>",
    ]
    assert found["Basis"] == ["<Basis: 3 columns, 30 landmarks, gaussian kernel>"]
    assert found["KMeansModel"] == ["<KMeansModel: 3 clusters × 3 features>"]
    assert found["MixtureModel"] == ["<MixtureModel: 2 diag components × 3 features>"]
    patterns = {
        "Comparison": r"<Comparison: MMD [\d.]+ ± [\d.]+, (p [\d.]+, (not )?different at 0.05|not tested)>",
        "Comparisons": r"<Comparisons: 3 pairs of 3 sketches, \d different at 0.05>",
        "Independence": r"<Independence: 3 groups, HSIC \S+ ± \S+, (p .*dependent at 0.05|not tested)>",
        "Coreset": r"<Coreset: \d of 300 rows, MMD \S+( ± \S+)?>",
        "Score": r"<Score: mean cost [\d.]+ ± [\d.]+, 300 rows>",
    }
    for name, pattern in patterns.items():
        for text in found[name]:
            assert re.fullmatch(pattern, text), text


@pytest.mark.slow
def test_many_comparisons_make_no_long_table():
    sketches = [nysketch.sketch(table(["x"]), landmarks=5)]
    sketches += [nysketch.sketch(table(["x"], seed=i), basis=sketches[0].basis) for i in range(1, 8)]
    found = compare_all(
        sketches, [f"s{i}" for i in range(8)], [*combinations(range(8), 2)], test="none", explain=False
    )
    assert "8 pairs" in "".join(Reader(found._repr_html_()).text)
    assert found._repr_html_().count("<tr>") == 21
    assert repr(found) == "<Comparisons: 28 pairs of 8 sketches, not tested>"


# ---- the helpers


@pytest.mark.slow
@given(st.text(), st.lists(st.text()))
def test_any_text_makes_one_line(kind, facts):
    text = one_line(kind, *facts, None)
    assert len(text) <= 120
    assert text.isprintable()


@given(st.text(), st.dictionaries(st.text(), st.one_of(st.none(), st.text(), st.floats())))
def test_any_text_makes_a_table(title, facts):
    found = Reader(html_table(title, facts))
    assert found.tags <= {"table", "caption", "tr", "th", "td"}
    assert html_table(title, facts).count("<tr>") == sum(fact is not None for fact in facts.values())


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.03123, 0.0021, "0.031 ± 0.002"),
        (12.3456, 1.7, "12 ± 2"),
        (1234.5, 17.0, "1234 ± 17"),
        (1.5, None, "1.5"),
        (1.5, 0.0, "1.5"),
        (1.5, float("nan"), "1.5"),
        (float("inf"), 1.0, "inf"),
        (1.23e-9, 2e-10, "1.23e-09 ± 2e-10"),
        (1.23e8, 2e6, "1.23e+08 ± 2e+06"),
    ],
)
def test_errors_decide_on_digits(value, error, text):
    assert with_error(value, error) == text


def test_lists_counts_and_verdicts():
    assert listed(range(3)) == "0, 1, 2"
    assert listed(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert (counted(1, "row"), counted(2000, "row")) == ("1 row", "2,000 rows")
    assert verdict(True, 0.001, 0.05, "different") == ("p 0.001", "different at 0.05")
    assert verdict(False, 0.5, 0.05, "different") == ("p 0.5", "not different at 0.05")
    assert verdict(None, None, 0.05, "different") == ("not tested",)
