"""Scales, colours, and drawings as files."""

import io
import math
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.errors import UsageError
from nysketch.plotting import png
from nysketch.plotting.charts import NARROW, WIDE, Series, bars, heat_map, heat_style, lines, panels
from nysketch.plotting.colours import DARK, LIGHT, SERIES, STEPS, contrast
from nysketch.plotting.drawing import (
    SHAPES,
    STYLES,
    Box,
    Drawing,
    Path,
    Symbol,
    Words,
    outline,
    shape_of,
    shortened,
)
from nysketch.plotting.scales import Scale, compact, number, plural, share, signed, ticks
from nysketch.plotting.svg import document, inline, style_sheet, text, themes

HOSTILE = """<script>alert(1)</script>&"'\x00\x1b[31m\u202e]]>"""
NAMESPACE = "{http://www.w3.org/2000/svg}"


# ---- numbers ------------------------------------------------------------------------------------------

numbers = st.floats(-1e12, 1e12, allow_nan=False)


@given(numbers, numbers, st.integers(2, 12))
def test_ticks_are_even_round_and_hold_the_range(a, b, most):
    low, high = min(a, b), max(a, b)
    found = ticks(low, high, most)
    steps = [y - x for x, y in pairwise(found)]
    assert 2 <= len(found) <= max(most, 3)
    assert all(step > 0 for step in steps)
    assert max(steps) - min(steps) <= 1e-6 * max(steps) + 1e-9 * max(map(abs, found))
    slack = 0.01 * max(steps)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack


def test_ticks_of_what_is_no_range():
    assert ticks(0, 0.3, 5) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert ticks(math.nan, 1) == [0, 1]
    assert ticks(0, math.inf) == [0, 1]
    assert ticks(0, 0)[0] <= 0 < ticks(0, 0)[-1]
    assert ticks(5, 5)[0] <= 5 <= ticks(5, 5)[-1]
    assert ticks(-5, -5)[0] <= -5 <= ticks(-5, -5)[-1]
    assert len(ticks(1e300, 1.0000001e300)) >= 2


def test_scales_end_where_the_axis_does():
    scale = Scale(0, 10, 100, 0)
    assert (scale(0), scale(5), scale(10)) == (100, 50, 0)
    assert (scale(-3), scale(1e9)) == (100, 0)
    assert Scale(2, 2, 0, 10)(2) == 5


def test_numbers_for_people():
    assert [number(v) for v in (0.0, 1234567, 0.12345, -0.5, 12.34, 1.5e-7, None, math.nan)] == [
        "0", "1,234,567", "0.123", "−0.5", "12.3", "1.50e−7", "–", "–",
    ]  # fmt: skip
    assert [signed(v) for v in (0.001, -0.001, 1.234, -12.34, 1234.5, None)] == [
        "0.00", "0.00", "+1.23", "−12.3", "+1,234", "–",
    ]  # fmt: skip
    assert [compact(v) for v in (0, 950, 25000, 1.5e6, -2e9)] == ["0", "950", "25k", "1.5M", "−2G"]
    assert [share(v) for v in (0, 0.5, 0.0123)] == ["0 %", "50 %", "1.2 %"]
    assert [plural(n, "row") for n in (0, 1, 2000)] == ["no rows", "1 row", "2,000 rows"]


# ---- colours ------------------------------------------------------------------------------------------


def test_contrast_is_that_of_wcag():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_what_is_behind_them(theme):
    for behind in ("page", "surface"):
        for words in ("text", "muted", "alarm", "quiet", "link"):
            assert contrast(theme[words], theme[behind]) >= 4.5, (words, behind)
    for i in range(SERIES):
        assert contrast(theme[f"series{i}"], theme["surface"]) >= 3, i
    for step in range(STEPS + 1):
        for side in ("less", "more"):
            assert contrast(theme["text"], theme[f"{side}{step}"]) >= 4.5, (side, step)


# Machado, Oliveira and Fernandes (2009), severity 1: what colour-blind people see, in linear light.
BLINDNESS = {
    "protan": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deutan": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritan": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


def lab(colour, matrix=None):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    if matrix:
        light = [min(max(sum(m * c for m, c in zip(row, light, strict=True)), 0), 1) for row in matrix]
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = [sum(m * c for m, c in zip(row, light, strict=True)) for row in to_xyz]
    relative = [value / white for value, white in zip(xyz, (0.9505, 1.0, 1.089), strict=True)]
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in relative]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", [None, *BLINDNESS])
def test_colour_blind_people_can_tell_the_first_colours_apart(theme, kind):
    # The first four: models rarely have more large clusters, and shapes tell all of them apart.
    for i, j in combinations(range(4), 2):
        pair = (theme[f"series{n}"] for n in (i, j))
        distance = math.dist(*(lab(colour, BLINDNESS.get(kind)) for colour in pair))
        assert distance > 10, (i, j, distance)


def test_series_differ_in_more_than_colour():
    looks = [(shape_of(n), n % SERIES) for n in range(64)]
    assert len(set(looks)) == 64
    assert len({shape for shape, _ in looks[:8]}) == 8


# ---- files --------------------------------------------------------------------------------------------


def everything():
    drawing = Drawing(300, 200, HOSTILE, HOSTILE)
    drawing.add(Path(((0, 0), (10.04, -0.01)), "line0", note=HOSTILE), Box(1, 2, 3, 4, "bar1", HOSTILE))
    drawing.add(Path(((0, 0), (10, 0), (0, 10)), "area0", closed=True), Path(((0, 9), (9, 9)), "threshold"))
    drawing.add(*(Symbol(20 * i, 50, 5, shape, "point2", HOSTILE) for i, shape in enumerate(SHAPES)))
    drawing.add(Words(5, 5, HOSTILE), Words(9, 9, "$x_1$ ≤ Größe", "muted", "middle", turned=True))
    return drawing


def test_svg_is_well_formed_and_holds_names_as_text():
    root = ET.fromstring(document(everything()))
    assert root.get("role") == "img"
    title, description = root.find(f"{NAMESPACE}title"), root.find(f"{NAMESPACE}desc")
    assert title.text.startswith("<script>alert(1)</script>&\"'�")
    assert (title.get("id"), description.get("id")) == (
        root.get("aria-labelledby"),
        root.get("aria-describedby"),
    )
    assert not list(root.iter(f"{NAMESPACE}script"))
    assert len(list(root.iter(f"{NAMESPACE}text"))) == 2
    assert "-0 " not in document(everything())


def test_every_style_is_in_the_style_sheet():
    sheet = style_sheet()
    colours = themes(":root")
    for name, style in STYLES.items():
        assert f".n-{name}{{" in sheet
        for colour in (style.fill, style.stroke):
            assert colour is None or colours.count(f"--{colour}:") == 2, colour


@given(st.text())
def test_any_text_can_be_in_a_picture(words):
    root = ET.fromstring(inline(Drawing(10, 10, words, "", [Words(0, 0, words)]), "x"))
    assert len(list(root)) == 2
    assert "<" not in text(words)


def test_symbols_have_about_the_same_place():
    for shape in SHAPES[1:]:
        for polygon in outline(Symbol(10, 20, 5, shape, "point0")):
            assert all(math.dist(corner, (10, 20)) < 10 for corner in polygon)


def test_png_is_a_picture_of_twice_the_size_and_always_the_same():
    pytest.importorskip("matplotlib")
    first, second = io.BytesIO(), io.BytesIO()
    for file in (first, second):
        png.write_png(everything(), file)
    content = first.getvalue()
    assert content.startswith(b"\x89PNG")
    assert content == second.getvalue()
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (600, 400)


def test_png_without_matplotlib_says_what_helps(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'nysketch\[report\]'\), or write \.svg"):
        png.require_matplotlib()


def test_long_names_are_shortened():
    assert shortened("short", 100) == "short"
    assert shortened("x" * 100, 100).endswith("…")
    assert len(shortened("x" * 100, 100)) < 20
    assert shortened("xyz", 0) == "x…"


# ---- charts -------------------------------------------------------------------------------------------


def words_of(drawing):
    return [mark.text for mark in drawing.marks if isinstance(mark, Words)]


def inside(drawing):
    for mark in drawing.marks:
        points = mark.points if isinstance(mark, Path) else [(mark.x, mark.y)]
        assert all(-1 <= x <= drawing.width + 1 and -1 <= y <= drawing.height + 1 for x, y in points), mark


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("n", [1, 2, 30, 120])
def test_charts_stay_in_their_frames(width, n):
    names = [f"partition {i:04}" for i in range(n)]
    values = [None if i % 7 == 3 else float(i) for i in range(n)]
    series = [
        Series(f"series {c}", values, values, values, [i % 5 == 0 for i in range(n)], c, names)
        for c in range(12)
    ]
    said = {"title": "a", "description": "b", "width": width}
    inside(panels(names, series[:3], **said))
    inside(lines(names, series, **said))
    inside(bars(names, [float(i) for i in range(n)], notes=names, **said))
    inside(heat_map(names[:12], names[:16], [values[:16]] * len(names[:12]), **said))


def test_alarms_are_diamonds_and_gaps_stay_gaps():
    one = Series("x", [1.0, None, 2.0, 3.0], alarms=[False, False, False, True])
    drawing = panels(["a", "b", "c", "d"], [one], title="", description="")
    symbols = [mark for mark in drawing.marks if isinstance(mark, Symbol)]
    assert [s.style for s in symbols] == ["point0", "point0", "alarm"]
    assert symbols[-1].shape == "diamond"
    lines_drawn = [m for m in drawing.marks if isinstance(m, Path) and m.style == "line0"]
    assert [len(line.points) for line in lines_drawn] == [2]


def test_labels_at_the_ends_of_lines_do_not_cover_each_other():
    series = [Series(f"s{i}", [1.0, 1.0], colour=i) for i in range(8)]
    drawing = lines(["a", "b"], series, title="", description="")
    places = sorted(m.y for m in drawing.marks if isinstance(m, Words) and m.text.startswith("s"))
    assert min(b - a for a, b in pairwise(places)) > 12


def test_heat_maps_write_their_numbers():
    drawing = heat_map(["r"], ["a", "b", "c"], [[1.0, -2.0, None]], title="", description="", words=signed)
    assert {"+1.00", "−2.00"} <= set(words_of(drawing))
    assert [m.style for m in drawing.marks if isinstance(m, Box)] == ["more2", "less5"]
    assert heat_style(0.0, 0.0) == heat_style(math.nan, 1.0) == "more0"
