"""Every kind of column against a slow, obvious version of it; ends, descriptions, requests."""

import datetime
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.columns import Column
from nysketch.errors import UsageError
from nysketch.kinds import Category, KindRequest, Number, Time, parse_kinds
from nysketch.kinds.number import rank_knots
from nysketch.kinds.time import PARTS

NAN = math.nan
KNOTS = np.array([[-3.0, 0.0, 1.0, 50.0], [-2.0, -0.5, 0.5, 2.0]])
KINDS = [
    Number(),
    Number(missing=True, neutral=2.5),
    Number("log"),
    Number("log", missing=True, neutral=0.3),
    Number("rank", knots=KNOTS),
    Number("rank", missing=True, neutral=0.1, knots=KNOTS),
    Number("rank", knots=np.array([[4.0], [0.0]])),
    Category(("a", "b", "c")),
    Category(("only",)),
    Category(),
    Time(("hour",)),
    Time(("weekday", "yearday"), missing=True, neutral=(0.1, 0.2, 0.3, 0.4)),
    Time(PARTS, missing=True, neutral=(0.1, -0.2, 0.3, 0.4, 0.0, -1.0, 19000.0)),
    Time(("elapsed",)),
]

# Years 1 and 9999, and a second on either side of midnight, of a week and of a year.
SECONDS = [-62_135_596_800.0, 253_402_300_799.0, -1.0, 0.0, 1.0, 951_782_400.0, 1_709_251_199.5, 4 * 86_400.0]


def expand_slowly(kind, value):
    """Return the features of one value, as the guide describes them."""
    if isinstance(kind, Number):
        gone = math.isnan(value)
        x = kind.neutral if gone else transform_slowly(kind, value)
        return [x, float(gone)][: 1 + kind.missing]
    if isinstance(kind, Category):
        code = len(kind.values) + 1 if math.isnan(value) else int(value)
        return [float(code == i) for i in range(len(kind.values) + 2)]
    if math.isnan(value):
        return [*kind.neutral, 1.0][: kind.features]
    features = []
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value)
    midnight = datetime.datetime.combine(moment.date(), datetime.time())
    for part in kind.parts:
        if part == "elapsed":
            features.append(value / 86_400)
            continue
        turns = {
            "hour": (moment - midnight).total_seconds() / 86_400,
            "weekday": moment.weekday() / 7,
            "yearday": (moment.timetuple().tm_yday - 1) / 365.2425,
        }[part]
        features += [math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)]
    return [*features, *([0.0] if kind.missing else [])]


def transform_slowly(kind, value):
    if kind.transform == "linear":
        return value
    if kind.transform == "log":
        return math.copysign(math.log(1 + abs(value)), value) if abs(value) > 1e-6 else value
    x, y = kind.knots.tolist()
    if len(x) == 1:
        return y[0]
    i = min(max(sum(value >= each for each in x) - 1, 0), len(x) - 2)
    return y[i] + (value - x[i]) * (y[i + 1] - y[i]) / (x[i + 1] - x[i])


def values_of(kind):
    """Values that a column of this kind can have."""
    if isinstance(kind, Category):
        return st.integers(0, kind.features - 1).map(float) | st.just(NAN)
    if isinstance(kind, Time):
        seconds = st.floats(SECONDS[0], SECONDS[1]).map(lambda value: round(value, 3))
        return seconds | st.sampled_from(SECONDS) | st.just(NAN)
    return st.floats(-1e9, 1e9) | st.just(NAN)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(data=st.data())
def test_features_are_those_of_the_guide(kind, data):
    values = data.draw(st.lists(values_of(kind), max_size=8))
    if isinstance(kind, Number | Time) and not kind.missing:
        values = [0.0 if math.isnan(value) else value for value in values]
    found = kind.expand(np.array(values, float))
    assert found.shape == (len(values), kind.features)
    for row, value in zip(found.tolist(), values, strict=True):
        assert row == pytest.approx(expand_slowly(kind, value), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(data=st.data())
def test_ends_contain_the_features_of_everything_between(kind, data):
    values = np.array(data.draw(st.lists(values_of(kind), min_size=1, max_size=8)))
    known = values[~np.isnan(values)]
    ends = (known.min(), known.max()) if len(known) else (np.inf, -np.inf)
    if not len(known) and isinstance(kind, Number | Time) and not kind.missing:
        return
    low, high = kind.ends(*map(float, ends))
    features = kind.expand(values)
    assert (features >= low - 1e-12).all() and (features <= high + 1e-12).all()
    if len(known):
        assert np.isfinite(low).all() and np.isfinite(high).all()


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_a_description_brings_back_the_kind(kind):
    again = type(kind).from_parts(kind.describe(), kind.arrays())
    assert again == kind
    assert len(kind.labels("x")) == kind.features == len(kind.indicators)
    column = Column("x", kind=kind)
    assert Column.from_description(*column.describe(), arrays=kind.arrays()) == column


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_indicators_are_zero_or_one(kind):
    features = kind.expand(np.array([0.0, 1.0, NAN]) if not isinstance(kind, Time) else np.array([0.0, NAN]))
    assert np.isin(features[:, kind.indicators], [0, 1]).all()


@pytest.mark.parametrize("kind", [k for k in KINDS if isinstance(k, Number)], ids=repr)
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
def test_transforms_increase_and_can_be_undone(kind, values):
    x = np.sort(np.array(values))
    y = kind.transformed(x)
    assert (np.diff(y) >= 0).all()
    if kind.knots is None or kind.knots.shape[1] > 1:
        assert kind.restored(y) == pytest.approx(x, rel=1e-9, abs=1e-9)


def test_ranks_are_normal_scores():
    values = np.random.default_rng(0).normal(size=5000)
    knots = rank_knots(values)
    assert knots.shape[1] <= 201
    kind = Number("rank", knots=knots)
    scores = kind.transformed(values)
    assert abs(scores.mean()) < 0.01 and abs(scores.std() - 1) < 0.02
    at = NormalDist().inv_cdf((np.sort(values) < 1.0).mean())
    assert float(kind.transformed(np.array([1.0]))[0]) == pytest.approx(at, abs=0.02)


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 5.0], [1.0, NAN, 2.0]])
def test_ranks_of_few_different_values(values):
    kind = Number("rank", missing=True, knots=rank_knots(np.array(values)))
    features = kind.expand(np.array([*values, 1e6, -1e6]))
    assert np.isfinite(features).all()


@pytest.mark.parametrize("weird", [1e308, -1e308, 1.7e308])
def test_the_largest_numbers_have_features(weird):
    for kind in KINDS:
        if not isinstance(kind, Time) or "elapsed" not in kind.parts:
            with np.errstate(over="ignore", invalid="ignore"):
                assert not np.isnan(kind.expand(np.array([weird]))).any()


def test_times_beyond_the_calendar_are_missing():
    kind = Time(("hour",), missing=True, neutral=(0.5, 0.5))
    found = kind.expand(np.array([1e18, -1e18, np.inf]))
    assert found.tolist() == [[0.5, 0.5, 1.0]] * 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("log", KindRequest("number", "log")),
        ("number", KindRequest("number")),
        ("category", KindRequest("category")),
        ("time", KindRequest("time")),
        ("weekday, hour", KindRequest("time", parts=("hour", "weekday"))),
    ],
)
def test_requests_are_read_and_written(text, kind):
    assert KindRequest.parse(text, "x") == kind
    assert KindRequest.parse(str(kind), "x") == kind
    assert parse_kinds({"a=b": text}) == parse_kinds([f"a=b={text}"]) == {"a=b": kind}


@pytest.mark.parametrize("text", ["", "Log", "hour,log", "time,hour", "category,", "hour,hour"])
def test_what_is_no_kind_is_refused(text):
    with pytest.raises(UsageError, match=r"'col'.*category"):
        KindRequest.parse(text, "col")


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "number", "transform": "cube", "missing": False, "neutral": 0.0},
        {"kind": "number", "transform": "rank", "missing": False, "neutral": 0.0},
        {"kind": "number", "transform": "log", "missing": 1, "neutral": 0.0},
        {"kind": "number", "transform": "log", "missing": True, "neutral": NAN},
        {"kind": "category", "values": 3},
        {"kind": "time", "parts": ["hour", "hour"], "missing": False, "neutral": []},
        {"kind": "time", "parts": ["minute"], "missing": False, "neutral": []},
        {"kind": "time", "parts": ["hour"], "missing": False, "neutral": [1.0]},
        {"kind": "time", "parts": ["hour"], "missing": True, "neutral": [1.5, 0.0]},
        {"kind": "lunar"},
    ],
)
def test_impossible_descriptions_are_refused(wrong):
    with pytest.raises((ValueError, KeyError)):
        Column.from_description("x", 1, wrong, arrays={})
