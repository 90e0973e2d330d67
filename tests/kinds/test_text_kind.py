"""Columns of kind `text`: places of texts, the same whatever the table they come from."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

import nysketch
from nysketch.columns import Column, owners
from nysketch.errors import NysketchError, SchemaError, UsageError
from nysketch.kinds import Text
from nysketch.kinds.text import DIMENSIONS
from nysketch.sources import text_vectors as module
from nysketch.sources.arrow import to_numpy
from nysketch.sources.encoding import encode
from nysketch.sources.text_vectors import LONGEST, text_vectors

WORDS = [
    "late",
    "order",
    "broken",
    "parcel",
    "great",
    "service",
    "thanks",
    "slow",
    "friendly",
    "staff",
    "bad",
]
KINDS = {"comment": "text", "city": "category"}
N = 500


def comments(seed=0, missing=0.1, n=N):
    rng = np.random.default_rng(seed)
    found = [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(n)]
    return pa.array([None if rng.random() < missing else text for text in found])


def table(column=None, seed=0):
    column = comments(seed) if column is None else column
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "x": rng.standard_normal(len(column)),
            "comment": column,
            "city": rng.choice(["a", "b"], len(column)),
        }
    )


def sketch(data=None, **options):
    wanted = {"kinds": KINDS, "nulls": "keep", "landmarks": 20, "threads": 1}
    return nysketch.sketch(table() if data is None else data, **wanted | options)


def places(array, kind=None):
    return encode(array, Column("comment", DIMENSIONS, kind=kind or Text()), "here").values


# ---- texts become places ---------------------------------------------------------------------------


def naive(text):
    """By the definition: signed counts of hashed pieces, projected one by one."""
    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=1 << 14, norm=None)
    counts = hashed.transform([text])
    place = np.zeros(DIMENSIONS)
    for count, at in zip(counts.data, counts.indices, strict=True):
        place += count * np.asarray(module._signs()[at], np.float64)
    norm = np.sqrt(sum(place**2))
    return place / norm if norm else place


@pytest.mark.parametrize(
    "text", ["", " ", "a", "Late order", "so so so so so", "çà et là 日本語 🎉", "x\n\ty\0"]
)
def test_places_are_those_of_the_definition(text):
    assert np.allclose(text_vectors([text])[0], naive(text), atol=1e-15)


def test_places_are_the_same_on_every_machine():
    found = text_vectors(["late order"])[0]
    assert found[:4].tolist() == EXPECTED


# Of the version in which text columns began: other numbers would make old sketches unlike new ones.
EXPECTED = [0.0413802944301184, 0.28966206101082875, -0.12414088329035519, -0.0413802944301184]


def test_places_are_on_the_sphere_or_in_the_middle():
    found = text_vectors(["late order", "x", "", None])
    assert np.allclose(np.linalg.norm(found[:3], axis=1), [1, 1, 0])
    assert np.isnan(found[3]).all()


def test_similar_texts_are_nearer_than_different_ones():
    first, typing_error, capitals, other = text_vectors(
        ["the parcel arrived late", "the parcel arived late", "The Parcel Arrived LATE", "friendly staff"]
    )
    assert np.array_equal(first, capitals)
    assert first @ typing_error > 0.7 > 0.5 > first @ other


def test_parts_have_no_effect(monkeypatch):
    texts = comments().to_pylist()
    whole = text_vectors(texts)
    monkeypatch.setattr(module, "_TOGETHER", 50)
    assert np.array_equal(text_vectors(texts), whole, equal_nan=True)
    assert np.array_equal(np.concatenate([text_vectors([t]) for t in texts]), whole, equal_nan=True)
    assert text_vectors([]).shape == (0, DIMENSIONS)


def test_of_long_texts_the_beginning_is_looked_at():
    long = "ab cd " * 2_000_000  # 12 MB
    first, second = text_vectors([long, long[:LONGEST]])
    assert np.array_equal(first, second)
    assert np.isfinite(text_vectors(["x" * 10_000_000])).all()


def test_long_texts_are_hashed_a_few_at_a_time(monkeypatch):
    sizes = []
    hasher = module._hasher()

    class Watched:
        def transform(self, texts):
            sizes.append(sum(map(len, texts)))
            return hasher.transform(texts)

    monkeypatch.setattr(module, "_hasher", Watched)
    text_vectors(["ab " * 4000] * 30)
    assert max(sizes) <= module._TOGETHER + LONGEST


# ---- tables ----------------------------------------------------------------------------------------


def dictionary(array):
    """Encode as a dictionary with a value that is not used, and nulls in values as in indices."""
    coded = array.dictionary_encode()
    values = pa.concat_arrays([pa.array(["never used", None]), coded.dictionary])
    indices = [
        None if i is None and k % 2 else 1 if i is None else i + 2
        for k, i in enumerate(coded.indices.to_pylist())
    ]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), values)


@pytest.mark.parametrize("kind", ["large", "dictionary", "view"])
def test_columns_of_all_kinds_of_strings_are_the_same(kind):
    plain = comments()
    other = {
        "large": lambda: plain.cast(pa.large_string()),
        "dictionary": lambda: dictionary(plain),
        "view": lambda: plain.cast(pa.string_view()),
    }[kind]()
    assert np.array_equal(places(other), places(plain), equal_nan=True)
    assert nysketch.to_bytes(sketch(table(other))) == nysketch.to_bytes(sketch())


def test_batches_have_no_effect(tmp_path):
    pq.write_table(table(), tmp_path / "t.parquet", row_group_size=100)
    basis = sketch().basis
    sketches = [
        nysketch.sketch(tmp_path / "t.parquet", basis=basis, nulls="keep", batch_rows=rows)
        for rows in (7, 100)
    ]
    assert nysketch.to_bytes(sketches[0]) == nysketch.to_bytes(sketches[1])


def test_a_column_counts_as_much_as_a_number():
    basis = sketch(pilot_rows=N).basis
    rows = np.column_stack([table()["x"], places(comments()), np.zeros(N)])
    scaled, own = basis.transform(rows), np.array(owners(basis.columns))
    missing = comments().null_count / N
    variances = scaled[:, own == "comment"].var(axis=0)
    assert variances[:-1].sum() == pytest.approx(1 - missing, rel=1e-6)
    assert variances[-1] == pytest.approx(4 * missing, rel=1e-6)
    assert scaled[:, own == "x"].var(axis=0).sum() == pytest.approx(1, rel=1e-6)


def test_the_hot_loop_agrees_with_the_plain_definitions():
    made = sketch(spans=0)
    basis = made.basis
    exact = nysketch.sketch(table(), basis=basis, nulls="keep", precision="float64", threads=1)
    assert np.allclose(made.kernel_sums, exact.kernel_sums, rtol=1e-5)
    codes = {value: code for code, value in enumerate(basis.columns[2].kind.values)}
    cities = [codes[city] for city in table()["city"].to_pylist()]
    rows = np.column_stack([table()["x"], places(comments()), cities])
    scaled, landmarks = basis.transform(rows), basis.scaled_landmarks
    nearest = ((scaled[:, None, :] - landmarks) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(np.bincount(nearest, minlength=basis.m), made.cells.rows)
    sums = np.zeros_like(landmarks)
    np.add.at(sums, nearest, scaled - landmarks[nearest])
    assert np.allclose(sums, made.cells.sums.high)


def test_a_sketch_survives_a_file_and_adds(tmp_path):
    first = sketch()
    nysketch.save(first, tmp_path / "s.nysk")
    again = nysketch.load(tmp_path / "s.nysk")
    assert nysketch.to_bytes(again) == nysketch.to_bytes(first)
    second = nysketch.sketch(table(seed=1), basis=first.basis, nulls="keep", threads=1)
    both = nysketch.sketch(
        pa.concat_tables([table(), table(seed=1)]), basis=first.basis, nulls="keep", threads=1
    )
    merged = nysketch.merge([again, second])
    assert merged.rows == both.rows
    assert np.allclose(merged.kernel_sums, both.kernel_sums)


def test_the_column_is_named():
    basis = sketch().basis
    (column,) = [c for c in basis.columns if c.name == "comment"]
    assert str(column) == "comment"
    assert column.features == DIMENSIONS + 1
    assert Column.from_description(*column.describe()) == column
    with pytest.raises(ValueError, match="unknown kind"):
        Column.from_description("comment", 31, column.kind.describe())
    with pytest.raises(ValueError, match="unknown number of dimensions"):
        Column.from_description("comment", 32, column.kind.describe() | {"dimensions": 31})


def test_changed_texts_are_found():
    first = sketch(landmarks=50)
    same, other = (
        nysketch.sketch(table(column, seed=5), basis=first.basis, nulls="keep")
        for column in (comments(5), pa.array([t and f"{t} danke schön" for t in comments(5).to_pylist()]))
    )
    assert not nysketch.compare(first, same, permutations=199, explain=False).rejected
    assert nysketch.compare(first, other, permutations=199, explain=False).rejected


# ---- missing texts, and other things in their place -------------------------------------------------


def test_missing_texts_have_an_indicator_if_the_pilot_had_some():
    assert sketch().basis.columns[1].kind == Text(missing=True)
    whole = sketch(table(comments(missing=0)))
    assert whole.basis.columns[1].kind == Text()
    # Where it had none, they are in the middle of the sphere.
    later = nysketch.sketch(table(), basis=whole.basis, nulls="keep")
    assert later.rows == N


def test_missing_texts_are_errors_unless_they_are_kept():
    whole = sketch(table(comments(missing=0))).basis
    with pytest.raises(NysketchError, match=r"column 'comment' has \d+ nulls"):
        nysketch.sketch(table(), basis=whole, nulls="error")
    dropped = nysketch.sketch(table(), basis=whole, nulls="drop")
    assert dropped.rows == N - comments().null_count


def test_a_column_without_texts_is_refused():
    with pytest.raises(NysketchError, match="'comment' has no values in the pilot"):
        sketch(table(pa.nulls(N, pa.string())))


@pytest.mark.parametrize("text", ["", "always the same"])
def test_a_column_of_one_text(text):
    made = sketch(table(pa.array([text] * N)))
    assert np.isfinite(made.kernel_sums).all()


def test_numbers_are_no_text():
    with pytest.raises(SchemaError, match="a column of kind text holds text"):
        sketch(kinds={"x": "text"})


def test_text_that_is_none():
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(NysketchError, match="not valid UTF-8"):
        places(broken)


def test_string_kernels_read_text_as_it_is():
    with pytest.raises(UsageError, match="which has no kind"):
        nysketch.sketch(table(), columns=["comment"], kernel="spectrum", kinds={"comment": "text"})
    assert to_numpy(comments(), Column("comment", text=True), "here")[0].dtype == object


def test_texts_of_hdf5_and_of_names_of_directories(tmp_path):
    texts = comments(missing=0).to_pylist()
    expected = nysketch.sketch({"x0": texts}, kinds={"x0": "text"}, landmarks=20)
    basis = expected.basis
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("x0", data=texts, dtype=h5py.string_dtype())
    stored = nysketch.sketch(tmp_path / "t.h5", basis=basis, datasets=["x0"])
    assert np.allclose(stored.kernel_sums, expected.kernel_sums, rtol=1e-6)  # in other blocks
    for word in ("late", "good"):
        folder = tmp_path / "hive" / f"comment={word}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": np.arange(50.0) ** 2 % 17}), folder / "a.parquet")
    keys = nysketch.sketch(tmp_path / "hive", kinds={"comment": "text"}, landmarks=20)
    assert keys.rows == 100 and keys.basis.width == 1 + DIMENSIONS
