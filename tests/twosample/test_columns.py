"""What moved in each column, against counts and means of the tables themselves."""

import json
import math
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.coresets.files import as_table
from nysketch.errors import IncompatibleError
from nysketch.twosample.words import change_in_words

KINDS = {"city": "category", "price": "log", "size": "rank", "ts": "hour,weekday,elapsed", "flag": "category"}
CITIES = ["New York", "LA", "a,b", "\x1b[31m"]
pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")


def table(seed, *, rows=3000, shares=(0.5, 0.3, 0.15, 0.05), cities=CITIES, missing=0.1, move=0.0, hour=8):
    random = np.random.default_rng(seed)

    def holes(share=missing):
        return random.random(rows) < share

    seconds = random.integers(0, 300, rows) * 86_400 + (hour + random.integers(0, 9, rows)) * 3600
    return pa.table({
        "city": pa.array(random.choice(cities, rows, p=shares), mask=holes()),
        "price": pa.array(np.exp(random.normal(move, 2, rows)), mask=holes()),
        "size": random.lognormal(move, 1, rows),
        "x": pa.array(random.normal(move, 3, rows), mask=holes()),
        "y": random.normal(size=rows),
        "ts": pa.array(seconds + 1_700_000_000 // 86_400 * 86_400, mask=holes()).cast(pa.timestamp("s")),
        "flag": random.random(rows) < 0.3,
    })  # fmt: skip


FIRST = table(1)
SECOND = table(
    2, rows=2000, shares=(0.3, 0.3, 0.2, 0.2), cities=["New York", "LA", "a,b", "Paris"], missing=0.2,
    move=0.4, hour=11,
)  # fmt: skip


@pytest.fixture(scope="module")
def sketches():
    first = nysketch.sketch(FIRST, kinds=KINDS, nulls="keep", landmarks=30, threads=1)
    return first, nysketch.sketch(SECOND, basis=first.basis, nulls="keep", threads=1)


@pytest.fixture(scope="module")
def found(sketches):
    made = nysketch.compare(*sketches, permutations=99).explanation
    return {change.column: change for change in made.columns} | {"all": made}


def known(data, name):
    return [value for value in data[name].to_pylist() if value is not None]


def share_missing(data, name):
    return 1 - len(known(data, name)) / data.num_rows


def test_numbers_move_by_the_means_of_those_that_are_known(found):
    for name, transform in (("x", lambda v: v), ("y", lambda v: v), ("price", math.log1p)):
        values = [[transform(v) for v in known(data, name)] for data in (FIRST, SECOND)]
        means, deviations = [np.mean(v) for v in values], [np.std(v) for v in values]
        shift = found[name].shift
        assert shift.feature == ("log(price)" if name == "price" else name)
        assert shift.means == pytest.approx(means, abs=1e-9)
        assert shift.deviations == pytest.approx(deviations)
        assert shift.shift == pytest.approx((means[1] - means[0]) / deviations[0])
        error = math.sqrt(sum(d**2 / len(v) for d, v in zip(deviations, values, strict=True)))
        assert shift.standard_error == pytest.approx(error / deviations[0])


def test_ranks_move_by_their_normal_scores(found, sketches):
    kind = next(c.kind for c in sketches[0].basis.columns if c.name == "size")
    means = [kind.transformed(data["size"].to_numpy()).mean() for data in (FIRST, SECOND)]
    assert found["size"].shift.means == pytest.approx(means)
    assert (found["size"].kind, found["size"].shift.feature) == ("rank", "rank(size)")


def test_shares_of_missing_values_are_those_of_the_tables(found):
    for name in ("city", "price", "x", "ts"):
        expected = [share_missing(data, name) for data in (FIRST, SECOND)]
        assert found[name].missing == pytest.approx(expected, abs=1e-12)
    for name in ("y", "size", "flag"):
        assert found[name].missing == (0, 0)


def test_categories_move_by_shares_of_their_values(found):
    counts = [Counter(data["city"].to_pylist()) for data in (FIRST, SECOND)]
    shares = [{v: c / sum(n.values()) for v, c in n.items()} for n in counts]
    change, values = found["city"], [*CITIES, "Paris", None]
    expected = 0.5 * sum(abs(shares[0].get(v, 0) - shares[1].get(v, 0)) for v in values)
    assert change.total_variation == pytest.approx(expected)
    assert change.other == pytest.approx((0, shares[1]["Paris"]))
    told = {value.value: value.shares for value in (*change.gained, *change.lost)}
    assert told.keys() == set(CITIES)
    for value, both in told.items():
        assert both == pytest.approx([s.get(value, 0) for s in shares], abs=1e-12)
    assert change.lost[0].value == "New York"
    assert all(v.shares[1] > v.shares[0] for v in change.gained)
    assert all(v.shares[1] < v.shares[0] for v in change.lost)
    p, q = told["LA"]
    se = math.sqrt(p * (1 - p) / 3000 + q * (1 - q) / 2000)
    (la,) = [v for v in (*change.gained, *change.lost) if v.value == "LA"]
    assert la.standard_error == pytest.approx(se)


def test_times_move_on_their_circles(found):
    hours, weekdays = found["ts"].parts
    points = [
        np.mean([np.exp(2j * np.pi * (t.hour + t.minute / 60) / 24) for t in known(data, "ts")])
        for data in (FIRST, SECOND)
    ]
    means = [np.angle(point) / (2 * np.pi) * 24 % 24 for point in points]
    assert hours.part == "hour" and hours.means == pytest.approx(means)
    assert hours.concentration == pytest.approx(np.abs(points))
    assert hours.shift == pytest.approx(means[1] - means[0])
    assert 0 < hours.standard_error < 0.2
    assert weekdays.part == "weekday" and weekdays.shift is None  # all days are as likely
    days = [
        np.mean([t.timestamp() / 86_400 for t in map(as_utc, known(data, "ts"))]) for data in (FIRST, SECOND)
    ]
    assert found["ts"].shift.feature == "ts (elapsed days)"
    assert found["ts"].shift.means == pytest.approx(days)


def as_utc(time):
    return datetime.fromisoformat(time.isoformat() + "+00:00")


def test_midnight_is_no_end_of_the_clock():
    def at(minutes):
        start = datetime(2024, 1, 1)
        times = [start + timedelta(days=i % 50, minutes=minutes + i % 19 + 0.3) for i in range(300)]
        return pa.table({"ts": times, "x": np.arange(300.0) % 17})

    basis = nysketch.sketch(at(-30), kinds={"ts": "hour"}, landmarks=15).basis
    both = [nysketch.sketch(at(minutes), basis=basis) for minutes in (-30, 10)]
    changes = {c.column: c for c in nysketch.compare(*both, permutations=99).explanation.columns}
    (part,) = changes["ts"].parts
    assert part.shift == pytest.approx(40 / 60, rel=1e-3)
    assert "23:39 → 00:19" in change_in_words(changes["ts"])


def test_columns_share_the_squared_distance_of_means(found, sketches):
    basis = sketches[0].basis
    sides = [sketch.cells for sketch in sketches]
    means = [(c.sums.high.sum(axis=0) + c.rows @ basis.scaled_landmarks) / c.rows.sum() for c in sides]
    squares = (means[0] - means[1]) ** 2
    changes = found["all"].columns
    assert sum(change.share for change in changes) == pytest.approx(1)
    assert [c.share for c in changes] == sorted((c.share for c in changes), reverse=True)
    for place in basis.layout.places:
        change = found[place.column.name]
        assert change.distance**2 == pytest.approx(squares[place.features].sum(), abs=1e-12)
        assert change.share == pytest.approx(squares[place.features].sum() / squares.sum(), abs=1e-9)
    assert found["y"].distance < 4 * found["y"].by_chance < 0.2
    assert found["flag"].total_variation < 4 * found["flag"].total_variation_by_chance < 0.1


def test_landmarks_are_rows_of_the_table(found):
    rows, seen = FIRST.to_pylist(), 0
    flags = {"true": True, "false": False}
    for region in (*found["all"].more_in_first, *found["all"].more_in_second):
        row = dict(region.landmark)
        # Some landmarks have the codes of other and missing values instead of their own.
        changed = {name for name in ("city", "flag") if row[name] in (None, "(other)")}
        row["ts"] = None if row["ts"] is None else datetime.fromisoformat(row["ts"])
        row["flag"] = flags.get(row["flag"])
        own = {name: value for name, value in row.items() if name not in changed}
        assert any(own.items() <= r.items() for r in rows)
        seen += 1
    assert seen >= 2


def test_words_name_values_and_escape_others(found):
    words = change_in_words(found["city"])
    assert "New York" in words and "other values 0.0 → 1" in words and "total variation" in words
    assert "\x1b" not in words and "missing" in words
    assert "log(price)" in change_in_words(found["price"])
    assert json.dumps(found["all"].describe())


def test_without_cells_means_are_those_of_the_sample(sketches):
    first = nysketch.sketch(FIRST, basis=sketches[0].basis, nulls="keep", cells=False, sample_rows=3000)
    made = nysketch.compare(first, sketches[1], permutations=99).explanation
    assert made.shifts_from == "sample"
    changes = {change.column: change for change in made.columns}
    share = Counter(FIRST["city"].to_pylist())["LA"] / 3000
    (la,) = [v for v in (*changes["city"].gained, *changes["city"].lost) if v.value == "LA"]
    assert la.shares[0] == pytest.approx(share, abs=1e-6)


def test_all_missing_is_no_number():
    gone = SECOND.set_column(3, "x", pa.nulls(2000, pa.float64()))
    basis = nysketch.sketch(FIRST, kinds=KINDS, nulls="keep", landmarks=30).basis
    both = [nysketch.sketch(data, basis=basis, nulls="keep") for data in (FIRST, gone)]
    (change,) = [c for c in nysketch.compare(*both, permutations=99).explanation.columns if c.column == "x"]
    assert change.missing == pytest.approx((share_missing(FIRST, "x"), 1))
    assert change.shift.deviations[1] == 0
    assert "missing 10 → 100 %" in change_in_words(change) or "→ 100 %" in change_in_words(change)


def test_plain_tables_say_their_columns_too():
    random = np.random.default_rng(0)
    both = [{"a": random.normal(i, 1, 500), "b": random.normal(size=500)} for i in (0, 1)]
    basis = nysketch.Basis.fit(both[0], landmarks=20)
    made = nysketch.compare(*(nysketch.sketch(d, basis=basis) for d in both), permutations=99).explanation
    assert [change.column for change in made.columns] == ["a", "b"]
    assert made.columns[0].shift == made.shifts[0]
    assert made.columns[0].distance == pytest.approx(abs(made.shifts[0].shift), rel=0.05)


# ---- two bases -----------------------------------------------------------------------------------------


def test_two_bases_need_the_same_vocabularies():
    kinds = {"city": "category"}
    columns = ["city", "y"]
    options = {"kinds": kinds, "columns": columns, "scale": "none", "bandwidth": 1.0, "nulls": "keep"}
    one = nysketch.sketch(FIRST, landmarks=20, seed=1, **options)
    same = nysketch.sketch(FIRST, landmarks=25, seed=2, **options)
    made = nysketch.compare(one, same, test="none", explain=True)
    assert made.mmd < 0.05
    (city,) = [change for change in made.explanation.columns if change.column == "city"]
    assert city.total_variation == pytest.approx(0)
    other = nysketch.sketch(SECOND, landmarks=20, **options)
    with pytest.raises(IncompatibleError, match=r"column 'city' .*only the second has 'Paris'"):
        nysketch.compare(one, other)
    scaled = nysketch.sketch(FIRST, landmarks=20, **{**options, "columns": ["y", "city"]})
    with pytest.raises(IncompatibleError, match="columns"):
        nysketch.compare(one, scaled)


# ---- the command line ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_prints_words_and_no_codes(sketches, tmp_path, run_cli):
    paths = [tmp_path / "a.nysk", tmp_path / "b.nysk"]
    for sketch, path in zip(sketches, paths, strict=True):
        nysketch.save(sketch, path)
    printed = run_cli("compare", *paths).stdout
    table = printed[printed.index("what moved") : printed.index("has more rows near")]
    lines = {line.split()[0]: line for line in table.splitlines() if line.startswith("  ")}
    assert "New York 4" in lines["city"] and "other values 0.0 → 1" in lines["city"]
    assert "missing 9.7 → 19 %" in lines["x"] and "deviations" in lines["x"] and "mean hour" in lines["ts"]
    assert "\x1b" not in printed
    landmarks = printed[printed.index("has more rows near") :]
    assert "city" in landmarks and "T" in landmarks and "flag " in landmarks
    facts = json.loads(run_cli("compare", *paths, "--json").stdout)
    columns = {change["column"]: change for change in facts["explanation"]["columns"]}
    assert columns["city"]["lost"][0]["value"] == "New York"
    several = run_cli("compare", *paths, paths[0], "--chain", "--explain")
    assert several.returncode == 0, several.stderr


# ---- texts ---------------------------------------------------------------------------------------------


def test_places_of_texts_are_never_shown_as_numbers():
    def texts(seed, missing):
        random = np.random.default_rng(seed)
        words = ["red", "green", "blue", "old", "new", "small", "large"]
        found = [" ".join(random.choice(words, 4)) for _ in range(400)]
        return pa.table(
            {"t": pa.array(found, mask=random.random(400) < missing), "x": random.normal(size=400)}
        )

    data = [texts(1, 0.1), texts(2, 0.4)]
    first = nysketch.sketch(data[0], kinds={"t": "text"}, nulls="keep", landmarks=20)
    second = nysketch.sketch(data[1], basis=first.basis, nulls="keep")
    made = nysketch.compare(first, second, permutations=99).explanation
    change = made.columns[0]
    assert (change.column, change.kind, change.shift) == ("t", "text", None)
    assert change.missing == pytest.approx([share_missing(d, "t") for d in data])
    assert "missing" in change_in_words(change) and [s.feature for s in made.shifts] == ["x"]
    shown = {region.landmark["t"] for region in (*made.more_in_first, *made.more_in_second)}
    assert shown <= {"(text)", None}
    assert nysketch.info(second)["columns"][0]["min"] is None
    few = as_table(nysketch.coreset(data[0], 8, basis=first, nulls="keep")).to_pylist()
    assert [row["t"] for row in few] == [data[0]["t"][row["row"]].as_py() for row in few]
    assert set(as_table(nysketch.coreset(first, 8))["t"].to_pylist()) <= {"(text)", None}
