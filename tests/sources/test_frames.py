"""Frames of pandas and polars, dicts, lists of rows, sparse matrices: the same bytes as the equal table."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import scipy.sparse.linalg

import nysketch
from nysketch.basis.base import Basis
from nysketch.columns import Column
from nysketch.errors import InputError, InvalidRowsError, SchemaError, UsageError
from nysketch.provenance import Provenance
from nysketch.sources.open import open_source
from tests.helpers import ROOT
from tests.sources.helpers import counted_nulls, read_all

OPTIONS = {"landmarks": 10, "threads": 1, "blocks": 4}


def contents(data, **options):
    """Return the bytes of a sketch, but for what it says of its inputs."""
    return nysketch.to_bytes(replace(nysketch.sketch(data, **OPTIONS | options), provenance=Provenance()))


def columns(rows=500):
    """Return columns of several types, as lists."""
    random = np.random.default_rng(3)
    return {
        "a": random.normal(size=rows).tolist(),
        "n": random.integers(0, 50, rows).tolist(),
        "s": ["text"] * rows,
        "flag": (random.uniform(size=rows) < 0.5).tolist(),
        "w": random.uniform(0.5, 2, rows).tolist(),
    }


def as_pandas(data):
    return pytest.importorskip("pandas").DataFrame(data)


def as_polars(data):
    return pytest.importorskip("polars").DataFrame(data)


def as_lazy(data):
    return pytest.importorskip("polars").LazyFrame(data)


def as_relation(data):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_arrow(pa.table(data))


def as_dataset(data):
    return pytest.importorskip("pyarrow.dataset").dataset(pa.table(data))


TABULAR = [as_pandas, as_polars, as_lazy, as_relation, as_dataset, dict]


@pytest.fixture(params=TABULAR, ids=lambda make: make.__name__)
def make(request):
    return request.param


# ---- what all of them share


def test_sketches_have_the_bytes_of_the_equal_table(make):
    assert contents(make(columns())) == contents(pa.table(columns()))


def test_a_column_of_weights_is_named(make):
    expected = contents(pa.table(columns()), weights="w")
    assert contents(make(columns()), weights="w") == expected != contents(pa.table(columns()))


def test_columns_of_text_are_left_out(make):
    source = open_source(make(columns()))
    assert [column.name for column in source.columns] == ["a", "n", "flag", "w"]
    assert list(source.left_out) == ["s"]
    with pytest.raises(SchemaError, match=r"column 's' has type .*not numeric"):
        open_source(make(columns()), columns=["a", "s"])


def test_a_column_of_text_can_be_read_by_a_text_kernel(make):
    data = {"a": [1.0] * 60, "s": [f"{i % 7} text {i % 11}" for i in range(60)]}
    options = {"kernel": "spectrum", "landmarks": 5}
    assert contents(make(data), **options) == contents(pa.table(data), **options)


def test_nulls_are_refused_dropped_or_kept(make):
    data = columns(100) | {"a": [None if i % 10 == 0 else i**0.5 for i in range(100)]}
    with pytest.raises(InvalidRowsError, match="column 'a' has 10 nulls"):
        nysketch.sketch(make(data), nulls="error", **OPTIONS)
    assert nysketch.sketch(make(data), **OPTIONS).rows == 100
    found = nysketch.sketch(make(data), nulls="drop", **OPTIONS)
    assert (found.rows, found.dropped_rows) == (90, 10)
    assert contents(make(data), nulls="drop") == contents(pa.table(data), nulls="drop")


def test_no_rows_are_an_input_error(make):
    empty = pa.table({"a": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
    data = {"a": np.empty(0), "s": []} if make in (dict, as_pandas) else empty
    data = pytest.importorskip("polars").from_arrow(empty) if make in (as_polars, as_lazy) else data
    data = data.lazy() if make is as_lazy else data if make is as_polars else make(data)
    for use in (nysketch.sketch, Basis.fit, nysketch.coreset):
        with pytest.raises(InputError, match="no rows"):
            use(data, **({"functions": 2} if use is nysketch.coreset else {"landmarks": 2}))


def test_a_basis_chooses_columns_by_name_in_any_order(make):
    table = pa.table(columns())
    basis = Basis.fit(table.select(["n", "a"]), landmarks=8)
    turned = dict(reversed(columns().items()))
    found, expected = (nysketch.sketch(data, basis=basis, threads=1) for data in (make(turned), table))
    assert replace(found, provenance=expected.provenance) == expected
    with pytest.raises(SchemaError, match="no column 'n'"):
        nysketch.sketch(make({"a": [1.0], "b": [2.0]}), basis=basis)


def test_bases_and_coresets_are_those_of_the_equal_table(make):
    table = pa.table(columns())
    assert Basis.fit(make(columns()), landmarks=9) == Basis.fit(table, landmarks=9)
    found, expected = (nysketch.coreset(data, functions=5, landmarks=20) for data in (make(columns()), table))
    assert np.array_equal(found.numbers, expected.numbers)
    assert np.array_equal(found.weights, expected.weights)


def test_estimators_learn_the_same(make):
    from nysketch import SketchedKMeans

    data = {name: values for name, values in columns().items() if name != "s"}
    found, expected = (
        SketchedKMeans(3, landmarks=30, random_state=0).fit(each).cluster_centers_
        for each in (make(data), np.column_stack([np.asarray(v, float) for v in data.values()]))
    )
    np.testing.assert_allclose(found, expected)


# ---- pandas


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


def test_two_columns_of_one_name_cannot_be_told_apart(pd):
    with pytest.raises(SchemaError, match="there are two columns 'a'; rename one"):
        open_source(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    with pytest.raises(SchemaError, match="there are two columns '1'"):
        open_source(pd.DataFrame([[1.0, 2.0]], columns=["1", 1]))


def test_columns_of_several_levels_are_called_as_pandas_shows_them(pd):
    names = pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")])
    source = open_source(pd.DataFrame([[1.0, 2.0]], columns=names), columns=["('b', 'y')"])
    np.testing.assert_array_equal(read_all(source), [[2]])


def test_numbers_as_names_are_text(pd):
    assert [c.name for c in open_source(pd.DataFrame([[1.0, 2.0]])).columns] == ["0", "1"]


def test_categories_of_numbers_are_numbers_and_those_of_text_are_not(pd):
    frame = pd.DataFrame({"c": pd.Categorical([3, 4, 3]), "t": pd.Categorical(["u", "v", "u"])})
    source = open_source(frame)
    np.testing.assert_array_equal(read_all(source), [[3], [4], [3]])
    assert list(source.left_out) == ["t"]


def test_objects_that_arrow_has_no_type_for_are_left_out(pd):
    frame = pd.DataFrame({"a": [1.0, 2.0], "o": [1, "x"], "z": [1j, 2j], "l": [{1}, object()]})
    source = open_source(frame)
    np.testing.assert_array_equal(read_all(source), [[1], [2]])
    assert source.left_out == {"o": "object", "z": "complex128", "l": "object"}
    with pytest.raises(SchemaError, match="column 'o' has type object, which is not numeric"):
        open_source(frame, columns=["o"])


def test_objects_that_are_numbers_are_read(pd):
    frame = pd.DataFrame({"a": pd.Series([1, None, 2.5], dtype=object)})
    source = open_source(frame)
    np.testing.assert_array_equal(read_all(source), [[1], [np.nan], [2.5]])
    assert counted_nulls(source) == [1]


@pytest.mark.parametrize("name", [None, "id"])
def test_an_index_is_left_out_unless_it_is_named(pd, name):
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([7, 9], name=name))
    stored = name or "__index_level_0__"
    source = open_source(frame)
    np.testing.assert_array_equal(read_all(source), [[1], [2]])
    assert "`columns`" in source.left_out[stored] or "--columns" in source.left_out[stored]
    np.testing.assert_array_equal(read_all(open_source(frame, columns=[stored])), [[7], [9]])
    np.testing.assert_array_equal(read_all(open_source(frame, like=[Column(stored)])), [[7], [9]])


def test_several_levels_of_an_index_are_left_out(pd):
    index = pd.MultiIndex.from_tuples([("u", 1), ("v", 2)], names=["key", "day"])
    source = open_source(pd.DataFrame({"a": [1.0, 2.0]}, index=index))
    assert set(source.left_out) == {"key", "day"}


def test_a_text_index_is_no_column_of_text(pd):
    frame = pd.DataFrame({"s": ["p", "q"]}, index=pd.Index(["u", "v"], name="id"))
    assert [column.name for column in open_source(frame, text=True).columns] == ["s"]


def test_nullable_and_arrow_types_of_pandas(pd):
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "f": pd.array([1.5, None], dtype=pd.ArrowDtype(pa.float32())),
        }
    )
    source = open_source(frame)
    np.testing.assert_array_equal(read_all(source), [[1, 1, 1.5], [np.nan] * 3])
    assert counted_nulls(source) == [1, 1, 1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["speed", None])
def test_a_series_is_one_column(library, name):
    series = (
        pytest.importorskip(library).Series(data := [1.0, 2.0], name=name)
        if (library == "pandas")
        else pytest.importorskip(library).Series(name, data := [1.0, 2.0])
    )
    source = open_source(series)
    assert source.columns == (Column(name or "x0"),)
    np.testing.assert_array_equal(read_all(source)[:, 0], data)
    if name is None:
        assert open_source(series, like=[Column("v")]).columns == (Column("v"),)


# ---- dicts


def test_columns_of_a_dict_may_be_of_any_kind():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    source = open_source(
        {
            "list": [1, None],
            "tuple": (1.5, 2),
            "range": range(2),
            "big": np.array([1, 2], ">i4"),
            "long": np.array([1, 2], np.longdouble),
            "masked": np.ma.masked_array([1, 2], mask=[0, 1]),
            "pandas": pd.Series([3, 4], index=[9, 8]),
            "polars": pl.Series([5, 6]),
            "arrow": pa.array([7, 8]),
            "chunked": pa.chunked_array([[7], [8]]),
            "matrix": np.array([[1.0, 2.0], [3.0, 4.0]]),
            9: [True, False],
        }
    )
    nan = np.nan
    expected = [[1, 1.5, 0, 1, 1, 1, 3, 5, 7, 7, 1, 2, 1], [nan, 2, 1, 2, 2, nan, 4, 6, 8, 8, 3, 4, 0]]
    np.testing.assert_array_equal(read_all(source), expected)
    assert source.columns[10] == Column("matrix", 2)
    assert source.columns[11] == Column("9")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"a": [1, 2], "b": [1, 2, 3]},
            "column 'b' has 3 values, column 'a' has 2; all must be",
        ),
        ({"a": [1], "b": 5}, "column 'b' is a int; columns are arrays, lists or series"),
        ({"a": [1], "b": "x"}, "column 'b' is a str"),
        ({"a": [1, "x"]}, "column 'a' cannot be read"),
        ({"a": np.ones((2, 2, 2))}, "column 'a' cannot be read"),
        ({"a": np.ones(2, complex)}, "column 'a' cannot be read"),
        ({"a": np.array(1.0)}, "column 'a'"),
        ({"1": [1.0], 1: [2.0]}, "two columns '1'"),
        ({}, "no columns at all"),
    ],
)
def test_dicts_that_are_no_tables_name_the_column(data, message):
    with pytest.raises(SchemaError, match=message):
        open_source(data)


# ---- lists of rows


def test_rows_may_hold_nothing_in_places():
    np.testing.assert_array_equal(read_all(open_source([[1, None], [True, 2.5]])), [[1, np.nan], [1, 2.5]])


def test_a_list_of_numbers_is_one_column():
    np.testing.assert_array_equal(read_all(open_source([1, 2.5, np.float32(3)])), [[1], [2.5], [3]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3]], "row 1 has 1 column, row 0 has 2 columns"),
        ([[1, 2], 3], "row 1 has no columns: it is a number"),
        ([[1, 2], [3, "4"]], "row 1 holds '4', a str; rows must hold numbers"),
        ([[1, [2]]], r"row 0 holds \[2\], a list"),
        ([[1, 2j]], "row 0 holds 2j, a complex"),
        ([[], []], "no columns at all"),
    ],
)
def test_lists_that_are_no_rows_name_the_row(rows, message):
    with pytest.raises(SchemaError, match=message):
        open_source(rows)


def test_rows_have_no_weights():
    with pytest.raises(UsageError, match="an array has no weights column"):
        open_source([[1.0]], weights="w")


# ---- sparse matrices


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [scipy.sparse.random, scipy.sparse.random_array], ids=["matrix", "array"])
def test_sparse_matrices_of_every_format_are_read(format, kind):
    if kind is scipy.sparse.random:
        dense = kind(40, 6, 0.3, random_state=1)
    else:
        dense = kind((40, 6), density=0.3, random_state=1)
    np.testing.assert_array_equal(read_all(open_source(dense.asformat(format)), 7), dense.toarray())


def test_sparse_sketches_have_the_bytes_of_dense_ones():
    matrix = scipy.sparse.random(500, 4, 0.3, random_state=1, format="csr")
    assert contents(matrix) == contents(matrix.toarray())
    basis = Basis.fit(pa.table({name: matrix.toarray()[:, i] for i, name in enumerate("abcd")}), landmarks=5)
    assert nysketch.sketch(matrix, basis=basis).basis == basis


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_sparse_types_of_numbers(dtype):
    matrix = scipy.sparse.csr_array(np.eye(3, dtype=dtype))
    np.testing.assert_array_equal(read_all(open_source(matrix)), np.eye(3))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (scipy.sparse.csr_array((3, 10_001)), "has 10,001 columns.*10,000 are the most.*TruncatedSVD"),
        (
            scipy.sparse.csr_array((3, 3), dtype=complex),
            "of complex128; it must be rows × columns",
        ),
        (scipy.sparse.coo_array(np.ones(3)), "rows × columns of numbers"),
    ],
)
def test_sparse_matrices_that_cannot_be_sketched_say_why(matrix, message):
    with pytest.raises(SchemaError, match=message):
        open_source(matrix)


def test_a_linear_operator_is_no_matrix():
    with pytest.raises(UsageError, match="cannot read rows from a"):
        open_source(scipy.sparse.linalg.aslinearoperator(np.eye(3)))


@pytest.mark.slow
def test_a_sparse_matrix_is_never_dense_as_a_whole():
    # Dense, it would take 1.6 GB.
    matrix = scipy.sparse.random_array((20_000, 10_000), density=1e-5, random_state=0, format="csr")
    basis = Basis.fit(matrix[:20], landmarks=3, scale="none", threads=1)
    source = open_source(matrix, like=basis.columns)
    tracemalloc.start()
    try:
        rows = sum(len(batch) for part in source.fragments() for batch in source.read(part, 1 << 16))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == 20_000
    assert peak < 64 << 20


# ---- what is loaded


@pytest.mark.slow
def test_no_library_of_frames_is_loaded_unless_it_is_there_already():
    # But for pandas: pyarrow loads it, if it can, to recognise its missing values.
    code = (
        "import sys, numpy as np, nysketch\n"
        "nysketch.sketch({'a': [1.0, 2.0, 3.0]}, landmarks=2)\n"
        "nysketch.sketch(np.arange(3.0), landmarks=2)\n"
        "print(*{'polars', 'duckdb'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert not done.stdout.split()
