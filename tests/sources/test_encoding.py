"""Values of tables become codes and seconds: the same from every type, layout, batch and file format."""

import datetime
import zoneinfo
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch.columns import Column
from nysketch.errors import InputError, NysketchError, SchemaError
from nysketch.kinds import Category, Time
from nysketch.sources.encoding import digest_of, encode, seconds

VALUES = ("b", "a", "", "ä\x00", "(other)")
KIND = Category(VALUES)
TEXTS = ["a", None, "zebra", "b", "", "ä\x00", "(other)", "(missing)", None, "a"]
CODES = [1, 6, 5, 0, 2, 3, 4, 5, 6, 1]


def codes_of(array, kind=KIND):
    return encode(array, Column("c", kind=kind), "here")


def layouts(texts):
    """Yield the same texts as every type that Arrow has for them."""
    plain = pa.array(texts, pa.string())
    yield "plain", plain
    yield "large", plain.cast(pa.large_string())
    yield "view", pa.array(texts, pa.string_view())
    yield "sliced", pa.array(["x", *texts, None], pa.string()).slice(1, len(texts))
    yield "dictionary", plain.dictionary_encode()
    known = sorted({text for text in texts if text is not None}, reverse=True)
    for name, values in (("reversed", known), ("with others", ["?", *known, "!"])):
        at = [None if text is None else values.index(text) for text in texts]
        yield (
            name,
            pa.DictionaryArray.from_arrays(pa.array(at, pa.int8()), pa.array(values, pa.large_string())),
        )
    # A null of the values, and one of the indices.
    hidden = [None, *known]
    at = [(0 if i % 2 else None) if t is None else hidden.index(t) for i, t in enumerate(texts)]
    yield (
        "hidden nulls",
        pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), pa.array(hidden, pa.string())),
    )
    twice = [*known, *known]
    at = [None if t is None else known.index(t) + (i % 2) * len(known) for i, t in enumerate(texts)]
    yield "doubled", pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), pa.array(twice, pa.string()))


@pytest.mark.parametrize(
    ("name", "array"), list(layouts(TEXTS)), ids=lambda value: value if type(value) is str else ""
)
def test_all_layouts_of_text_have_the_same_codes(name, array):
    found = codes_of(array)
    assert found.values.tolist() == CODES
    assert found.nulls == 2


@pytest.mark.parametrize(
    ("name", "array"), list(layouts(TEXTS)), ids=lambda value: value if type(value) is str else ""
)
def test_all_layouts_have_the_same_digests(name, array):
    found = codes_of(array, Category())
    expected = [np.nan if text is None else digest_of(text) for text in TEXTS]
    np.testing.assert_array_equal(found.values, expected)
    assert found.nulls == 2
    # Values that no row has may be known, too.
    assert {digest_of(t): t for t in TEXTS if t is not None}.items() <= found.texts.items()


@given(texts=st.lists(st.none() | st.text(alphabet="ab\x00é😀", max_size=3), max_size=12))
def test_codes_are_places_in_the_vocabulary(texts):
    slow = [6 if t is None else VALUES.index(t) if t in VALUES else 5 for t in texts]
    for _, array in layouts(texts):
        assert codes_of(array).values.tolist() == slow


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([5, None, -1]), ["5", None, "-1"]),
        (pa.array([5, None], pa.uint64()), ["5", None]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([5.0, 0.5, -0.0, np.nan, None]), ["5", "0.5", "0", None, None]),
        (pa.array([5.0, 0.5], pa.float32()), ["5", "0.5"]),
        (pa.array([Decimal("5"), None], pa.decimal128(5, 0)), ["5", None]),
        (pa.array([5, 7, 5, None]).dictionary_encode(), ["5", "7", "5", None]),
        (pa.array([], pa.string()), []),
        (pa.array([None, None], pa.string()), [None, None]),
        (pa.array([None, None], pa.string()).dictionary_encode(), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_value_is_known_by_its_text(array, texts):
    kind = Category(("5", "true", "0.5", "0"))
    expected = [5 if t is None else kind.values.index(t) if t in kind.values else 4 for t in texts]
    assert codes_of(array, kind).values.tolist() == expected


def invalid_utf8():
    data = pa.py_buffer(b"ok\xff\xfe")
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes())
    return pa.StringArray.from_buffers(2, offsets, data)


@pytest.mark.parametrize("kind", [KIND, Category()])
@pytest.mark.parametrize("coded", [False, True])
def test_invalid_utf8_is_named(kind, coded):
    array = invalid_utf8()
    if coded:
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1]), array)
    try:
        found = codes_of(array, kind)
    except NysketchError as error:
        assert "'c'" in str(error) and "here" in str(error)
    else:  # with a vocabulary, it is no value of it
        assert kind.values and found.values.tolist() == [5, 5]


# ---- times


MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59),
    datetime.datetime(2024, 2, 29, 12, 30, 15),
    datetime.datetime(9999, 12, 31, 23, 59, 59),
]
EPOCH = datetime.datetime(1970, 1, 1)
SINCE = [(moment - EPOCH).total_seconds() for moment in MOMENTS]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_seconds_of_all_units_and_years(unit):
    array = pa.array([*MOMENTS, None], pa.timestamp(unit))
    np.testing.assert_array_equal(seconds(array), [*SINCE, np.nan])
    np.testing.assert_array_equal(seconds(array.dictionary_encode()), [*SINCE, np.nan])
    found = encode(array, Column("t", kind=Time(("hour",))), "here")
    assert found.nulls == 1


def test_seconds_of_nanoseconds():
    array = pa.array(MOMENTS[1:3], pa.timestamp("ns"))
    np.testing.assert_array_equal(seconds(array), SINCE[1:3])


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_seconds_of_dates(kind):
    days = [moment.date() for moment in MOMENTS]
    since = [(day - EPOCH.date()).days * 86_400.0 for day in days]
    np.testing.assert_array_equal(seconds(pa.array([*days, None], kind)), [*since, np.nan])


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
def test_seconds_of_times_of_the_day(kind):
    assert seconds(pa.array([datetime.time(9, 30)], kind)).tolist() == [9.5 * 3600]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "+05:30"])
def test_times_are_those_of_the_clock_of_their_zone(zone):
    if zone.startswith("+"):
        there = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    else:
        there = zoneinfo.ZoneInfo(zone)
    moments = [datetime.datetime(2024, month, 3, 9, 15, tzinfo=there) for month in (1, 7)]
    found = seconds(pa.array(moments, pa.timestamp("us", tz=zone)))
    expected = [(moment.replace(tzinfo=None) - EPOCH).total_seconds() for moment in moments]
    assert found.tolist() == expected


def test_a_zone_that_does_not_exist_is_named():
    array = pa.Array.from_buffers(pa.timestamp("s", tz="Mars/Olympus"), 1, [None, pa.py_buffer(bytes(8))])
    with pytest.raises((SchemaError, InputError), match=r"'t'.*Mars/Olympus"):
        encode(array, Column("t", kind=Time(("hour",))), "here")


# ---- the vocabulary of the pilot


def table(rows=900, seed=0):
    random = np.random.default_rng(seed)
    word = np.array(["u", "v", "w", "é", "rare"], object)[
        random.choice(5, rows, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    ]
    number = random.integers(0, 4, rows)
    moments = np.datetime64("2024-03-01T00", "s") + random.integers(0, 720, rows).astype("timedelta64[h]")
    return pa.table({"x": random.normal(size=rows), "word": word, "code": number, "ts": moments})


KINDS = {"word": "category", "code": "category", "ts": "hour,weekday"}


def digest(data):
    return nysketch.Basis.fit(data, kinds=KINDS, landmarks=20, pilot_rows=500).digest


def test_the_basis_depends_on_neither_format_nor_layout(tmp_path):
    data = table()
    expected = digest(data)
    coded = data.set_column(1, "word", data["word"].dictionary_encode())
    parts = pa.concat_tables(
        [
            coded.slice(0, 100),
            data.slice(100).set_column(
                1, "word", data["word"].slice(100).combine_chunks().dictionary_encode()
            ),
        ]
    )
    large = data.set_column(1, "word", data["word"].cast(pa.large_string()))
    as_text = data.set_column(2, "code", data["code"].cast(pa.string()))
    for name, other in (("coded", coded), ("parts", parts), ("large", large), ("as text", as_text)):
        assert digest(other) == expected, name
    for rows in (7, 64, 900):
        path = tmp_path / f"{rows}.parquet"
        pq.write_table(data, path, row_group_size=rows)
        assert digest(path) == expected
        pq.write_table(coded, path, row_group_size=rows, use_dictionary=False)
        assert digest(path) == expected
    pa.feather.write_feather(data, tmp_path / "a.arrow", chunksize=50, compression="uncompressed")
    assert digest(tmp_path / "a.arrow") == expected
    pa.feather.write_feather(coded, tmp_path / "c.arrow", compression="lz4")
    assert digest(tmp_path / "c.arrow") == expected
    pa.csv.write_csv(data, tmp_path / "a.csv")
    assert digest(tmp_path / "a.csv") == expected
    assert digest(data.to_pandas()) == expected


def test_the_vocabulary_has_the_most_frequent_values_first():
    data = pa.table({"word": ["b"] * 20 + ["a"] * 20 + ["z"] * 40 + ["ä"] * 20, "x": np.arange(100.0) ** 2})
    basis = nysketch.Basis.fit(data, kinds={"word": "category"}, landmarks=10)
    assert basis.columns[0].kind.values == ("z", "a", "b", "ä")
    again = nysketch.Basis.fit(
        data.take(np.random.default_rng(0).permutation(100)), kinds={"word": "category"}, landmarks=10
    )
    assert again.columns[0].kind.values == ("z", "a", "b", "ä")


def test_sketches_have_the_same_bytes_from_all_layouts():
    data = table()
    basis = nysketch.Basis.fit(data, kinds=KINDS, landmarks=20)
    expected = nysketch.sketch(data, basis=basis)
    others = [
        data.set_column(1, "word", data["word"].dictionary_encode()),
        data.set_column(1, "word", data["word"].cast(pa.large_string())),
        data.set_column(2, "code", data["code"].cast(pa.string())),
        data.set_column(2, "code", data["code"].cast(pa.float64())),
    ]
    for other in others:
        assert nysketch.to_bytes(nysketch.sketch(other, basis=basis)) == nysketch.to_bytes(expected)
    batched = nysketch.sketch(data, basis=basis, batch_rows=13, threads=2)
    assert nysketch.to_bytes(batched) == nysketch.to_bytes(expected)


def test_unseen_and_missing_values_are_kept():
    basis = nysketch.Basis.fit(table(), kinds=KINDS, landmarks=20)
    new = pa.table(
        {"x": [0.0, 0.0], "word": ["never seen", None], "code": [99, None], "ts": table()["ts"][:2]}
    )
    found = nysketch.sketch(new, basis=basis, nulls="keep")
    assert found.rows == 2
    lower, upper = found.column_ranges
    word = basis.columns[1].kind
    assert (lower[1], upper[1]) == (word.other, word.missing)
