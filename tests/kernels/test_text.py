"""Sketches of one column of strings."""

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.errors import InputError, NysketchError
from nysketch.sketches.describe import describe
from tests import naive
from tests.kernels.kinds import random_strings

OPTIONS = [
    *({"kernel": "spectrum", "length": length} for length in (1, 2, 3)),
    *(
        {"kernel": "subsequence", "length": length, "decay": decay}
        for length in (1, 2, 3)
        for decay in (0.5, 1.0)
    ),
]
every = pytest.mark.parametrize("options", OPTIONS, ids=str)


def table(count=60, seed=0):
    return pa.table({"s": list(random_strings(count, seed))})


def naive_sums(sketch, texts, weights=None):
    values = naive.kernel_matrix(sketch.basis.kernel.describe(), list(texts), list(sketch.basis.landmarks))
    return values.sum(axis=0) if weights is None else weights @ values


@every
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_are_those_of_the_definition(options, precision):
    data = table()
    sketch = nysketch.sketch(data, landmarks=10, precision=precision, threads=1, **options)
    assert sketch.rows == 60
    assert sketch.kernel_sums == pytest.approx(
        naive_sums(sketch, data["s"].to_pylist()), rel=1e-12, abs=1e-11
    )


@every
def test_landmarks_are_strings_of_the_data(options):
    data = table()
    texts = set(data["s"].to_pylist())
    for sampling in ("uniform", "kmeans++", "leverage", "greedy", "rpcholesky"):
        basis = nysketch.Basis.fit(data, landmarks=8, sampling=sampling, threads=1, **options)
        assert set(basis.landmarks) <= texts


@every
def test_merging_subtracting_saving(options, tmp_path):
    basis = nysketch.Basis.fit(table(), landmarks=8, threads=1, **options)
    a = nysketch.sketch(table(), basis=basis, threads=1)
    b = nysketch.sketch(table(seed=1), basis=basis, threads=1)
    nysketch.save(a + b, tmp_path / "both.nysk")
    both = nysketch.load(tmp_path / "both.nysk")
    assert both == b + a
    assert list(both.basis.landmarks) == list(basis.landmarks)
    assert np.array_equal((both - b).kernel_sums, a.kernel_sums)
    texts = table()["s"].to_pylist() + table(seed=1)["s"].to_pylist()
    assert both.kernel_sums == pytest.approx(naive_sums(both, texts), abs=1e-11)
    again = nysketch.sketch(table(), basis=tmp_path / "both.nysk", threads=1)
    assert np.array_equal(again.kernel_sums, a.kernel_sums)


@every
def test_features_have_the_kernel_at_landmarks(options):
    basis = nysketch.Basis.fit(table(), landmarks=12, threads=1, **options)
    features = basis.to_features(basis.gram())
    assert features @ features.T == pytest.approx(basis.gram(), abs=1e-6)


def test_weights_and_blocks():
    weights = np.random.default_rng(0).uniform(0.5, 2, 60)
    data = table().append_column("w", pa.array(weights))
    sketch = nysketch.sketch(
        data, columns=["s"], weights="w", landmarks=8, kernel="spectrum", length=1, blocks=7, threads=1
    )
    expected = naive_sums(sketch, data["s"].to_pylist(), weights)
    assert sketch.kernel_sums == pytest.approx(expected, abs=1e-10)
    assert sketch.block_kernel_sums.sum(axis=0) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kernel", ["spectrum", "subsequence"])
def test_sums_do_not_depend_on_threads_or_batches(kernel):
    data = table(500)
    basis = nysketch.Basis.fit(data, landmarks=8, kernel=kernel, length=2, threads=1)
    sketches = [
        nysketch.sketch(data, basis=basis, threads=threads, batch_rows=batch)
        for threads, batch in ((1, None), (2, 64), (1, 7))
    ]
    assert sketches[0] == sketches[1] == sketches[2]


@pytest.mark.parametrize("kernel", ["spectrum", "subsequence"])
@pytest.mark.parametrize(
    "texts",
    [
        ["é", "e\N{COMBINING ACUTE ACCENT}", "E", "e"],
        ["😀😀", "😀", "👩\N{ZERO WIDTH JOINER}🚀", "🚀"],
        ["\x00", "\x00\x00", "a\x00b", "ab"],
        ["\U0010ffff", "\uffff", "\ufeff", "\u200b"],
        ["", "a", "", "b"],
        ["a", "b", "c", "a"],
        ["same string"] * 4,
    ],
    ids=ascii,
)
def test_strange_strings(kernel, texts, tmp_path):
    data = pa.table({"s": texts * 10})
    sketch = nysketch.sketch(data, kernel=kernel, length=1, landmarks=4, threads=1)
    assert sketch.rows == 40
    assert sketch.kernel_sums == pytest.approx(naive_sums(sketch, texts * 10), abs=1e-11)
    assert sketch.rank <= len(set(texts) - {""})
    nysketch.save(sketch, tmp_path / "s.nysk")
    loaded = nysketch.load(tmp_path / "s.nysk")
    assert loaded == sketch
    assert list(loaded.basis.landmarks) == list(sketch.basis.landmarks)
    assert set(loaded.tally.sample.rows) == set(texts)
    assert describe(loaded, measure=True)["quality"]["rows"] == 40
    assert np.isfinite(sketch.mean_features()).all()


@pytest.mark.parametrize("kernel", ["spectrum", "subsequence"])
def test_strings_too_short_for_the_kernel(kernel):
    short = pa.table({"s": ["a", "", "bc"] * 20})
    with pytest.raises(InputError, match=r"no string has the 3 characters.*smaller `length`"):
        nysketch.sketch(short, kernel=kernel, length=3, landmarks=3)
    basis = nysketch.Basis.fit(pa.table({"s": ["abc", "bcd"] * 20}), kernel=kernel, length=3, landmarks=2)
    sketch = nysketch.sketch(short, basis=basis)
    assert sketch.rows == 60
    assert not sketch.kernel_sums.any()


def test_long_strings(tmp_path):
    texts = ["ab" * 6000, "abc" * 4000, "x" * 12_000, "ab", ""] * 5
    sketch = nysketch.sketch(pa.table({"s": texts}), kernel="spectrum", length=3, landmarks=4, threads=1)
    assert sketch.kernel_sums == pytest.approx(naive_sums(sketch, texts), abs=1e-11)
    nysketch.save(sketch, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == sketch


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_kinds_of_string_columns(kind):
    texts = table()["s"].to_pylist()
    basis = nysketch.Basis.fit(table(), landmarks=5, kernel="spectrum", length=2, threads=1)
    sketch = nysketch.sketch(pa.table({"s": pa.array(texts, kind)}), basis=basis, threads=1)
    assert sketch.kernel_sums == pytest.approx(naive_sums(sketch, texts), abs=1e-11)


def test_strings_that_are_null():
    texts = ["abc", None, "abd", "", None] * 10
    data = pa.table({"s": texts})
    with pytest.raises(NysketchError, match="null"):
        nysketch.sketch(data, kernel="spectrum", landmarks=3, threads=1)
    sketch = nysketch.sketch(data, kernel="spectrum", landmarks=3, nulls="drop", threads=1)
    assert (sketch.rows, sketch.dropped_rows) == (30, 20)
    kept = [text for text in texts if text is not None]
    assert sketch.kernel_sums == pytest.approx(naive_sums(sketch, kept), abs=1e-11)


def test_string_kernels_read_one_text_column():
    data = table().append_column("other", pa.array(["x"] * 60)).append_column("n", pa.array(range(60)))
    with pytest.raises(NysketchError, match="with `columns`"):
        nysketch.sketch(data, kernel="spectrum", landmarks=3, threads=1)
    with pytest.raises(NysketchError, match="'n'"):
        nysketch.sketch(data, kernel="spectrum", columns=["n"], landmarks=3, threads=1)
    sketch = nysketch.sketch(data, kernel="spectrum", columns=["other"], length=1, landmarks=3, threads=1)
    assert list(sketch.basis.landmarks) == ["x"]


def test_the_centres_of_strings_are_no_strings():
    with pytest.raises(NysketchError, match="kmeans"):
        nysketch.sketch(table(), kernel="spectrum", sampling="kmeans", landmarks=3, threads=1)
