"""The matrix product of tiles: the same bits for a row and a landmark, wherever they are."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nysketch.tiles.product import Marks, TileProduct

# Both sides of where blocks of features and of landmarks end, for registers of 4 to 16 numbers.
DEPTHS = [1, 2, 3, 4, 5, 8, 11, 17, 51, 255, 256, 257, 300, 512, 513, 1001]
WIDTHS = [*range(1, 52), 63, 64, 65, 77, 96, 97, 130, 500, 1000, 4000]
kinds = st.sampled_from([np.float32, np.float64])


def numbers(shape, kind=np.float32, seed=0):
    """Numbers with all digits, whose sums round at every step."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(kind)


def multiplied(rows, matrix):
    tile = np.full((len(rows), matrix.shape[1]), np.nan, matrix.dtype)
    TileProduct(matrix)(rows, tile)
    return tile


def rounded(value, kind):
    """The nearest number of this kind to a fraction; of two, the one with an even last digit."""
    nearby = kind(float(value))
    candidates = [np.nextafter(nearby, kind(-np.inf)), nearby, np.nextafter(nearby, kind(np.inf))]
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - value), c.tobytes()[0] & 1))


def one_number(x, z, fused):
    """x₀z₀ + x₁z₁ + …, in fractions, rounded after every feature; and every product, unless it is fused."""
    total = x.dtype.type(0)
    for a, b in zip(x, z, strict=True):
        product = Fraction(float(a)) * Fraction(float(b))
        if not fused:
            product = Fraction(float(rounded(product, x.dtype.type)))
        total = rounded(Fraction(float(total)) + product, x.dtype.type)
    return total


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 120), st.integers(1, 40), kinds, st.integers(0, 99))
@example(2, 100, 600, np.float32, 0)
@example(2, 50, 600, np.float64, 0)
def test_numbers_are_summed_feature_by_feature(eights, m, depth, kind, seed):
    rows, matrix = numbers((8 * eights, depth), kind, seed), numbers((depth, m), kind, seed)
    tile = multiplied(rows, matrix)
    random = np.random.default_rng(seed)
    places = [
        (0, 0),
        (len(rows) - 1, m - 1),
        *zip(random.integers(len(rows), size=6), random.integers(m, size=6), strict=True),
    ]
    wrong = {
        fused: sum(tile[i, j] != one_number(rows[i], matrix[:, j], fused) for i, j in places)
        for fused in (True, False)
    }
    assert 0 in wrong.values()  # which of them, depends on the processor


@given(st.sampled_from(WIDTHS), st.sampled_from(DEPTHS), kinds)
def test_neither_the_place_of_a_row_nor_of_a_landmark_matters(m, depth, kind):
    rows, matrix = numbers((48, depth), kind), numbers((depth, m), kind)
    tile = multiplied(rows, matrix)
    random = np.random.default_rng(0)
    other_rows, other_columns = random.permutation(48), random.permutation(m)
    assert np.array_equal(multiplied(rows[other_rows], matrix), tile[other_rows])
    assert np.array_equal(multiplied(rows, matrix[:, other_columns]), tile[:, other_columns])
    assert np.array_equal(multiplied(rows[16:24], matrix), tile[16:24])
    some = other_columns[: max(1, m // 3)]
    assert np.array_equal(multiplied(rows, matrix[:, some]), tile[:, some])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "depth"), [(1, 11), (130, 17), (500, 18), (1000, 11), (1000, 51), (77, 301)])
def test_a_row_is_the_same_at_every_place(m, depth, kind):
    matrix, row = numbers((depth, m), kind), numbers((1, depth), kind, seed=1)
    everywhere = multiplied(np.repeat(row, 144, axis=0), matrix)
    assert (everywhere == everywhere[0]).all()
    for place in range(0, 144, 5):
        rows = numbers((144, depth), kind, seed=place)
        rows[place] = row
        assert np.array_equal(multiplied(rows, matrix)[place], everywhere[0])


@given(st.sampled_from(WIDTHS), st.sampled_from(DEPTHS), kinds)
def test_the_layout_of_rows_and_matrix_does_not_matter(m, depth, kind):
    rows, matrix = numbers((16, depth), kind), numbers((depth, m), kind)
    tile = multiplied(rows, matrix)
    chunk = np.full((depth, 50), np.nan, kind)
    chunk[:, 7:23] = rows.T
    assert np.array_equal(multiplied(chunk[:, 7:23].T, matrix), tile)
    assert np.array_equal(multiplied(rows, np.asfortranarray(matrix)), tile)


@given(st.sampled_from(WIDTHS), st.sampled_from(DEPTHS), kinds)
def test_as_good_as_any_product(m, depth, kind):
    rows, matrix = numbers((8, depth), kind), numbers((depth, m), kind)
    exact = rows.astype(np.longdouble) @ matrix.astype(np.longdouble)
    size = np.abs(rows).astype(np.float64) @ np.abs(matrix).astype(np.float64)
    assert (np.abs(multiplied(rows, matrix) - exact) <= depth * np.finfo(kind).eps * size).all()


@pytest.mark.parametrize("m", [3, 50])
def test_infinite_numbers_stay_in_their_row(m):
    rows, matrix = numbers((16, 5)), np.abs(numbers((5, m)))
    clean = multiplied(rows, matrix)
    rows[3], rows[4, 2], rows[9] = np.inf, -np.inf, np.nan
    tile = multiplied(rows, matrix)
    assert (tile[3] == np.inf).all()
    assert (tile[4] == -np.inf).all()
    assert np.isnan(tile[9]).all()
    others = np.setdiff1d(np.arange(16), [3, 4, 9])
    assert np.array_equal(tile[others], clean[others])


@pytest.mark.parametrize(
    ("rows", "tile"),
    [((16, 4), (16, 40)), ((16, 5), (16, 41)), ((8, 5), (16, 40)), ((15, 5), (15, 40))],
    ids=str,
)
def test_shapes_that_do_not_match(rows, tile):
    with pytest.raises(ValueError, match="do not match"):
        TileProduct(numbers((5, 40)))(numbers(rows), np.empty(tile, np.float32))


def test_no_columns():
    assert multiplied(numbers((16, 3)), numbers((3, 0))).shape == (16, 0)


@settings(max_examples=40)
@given(st.integers(1, 70), st.integers(0, 9), st.integers(1, 5), st.integers(0, 99))
@example(600, 3, 4, 1)
def test_sums_begin_with_the_numbers_of_categories_that_differ(m, categories, depth, seed):
    random = np.random.default_rng(seed)
    rows, matrix = numbers((16, depth), seed=seed), numbers((depth, m), seed=seed)
    codes, of_columns = random.integers(0, 6, (16, categories)), random.integers(0, 6, (m, categories))
    differs = [np.arange(6)[:, None] != of_columns[:, c] for c in range(categories)]
    apart = numbers((categories,), seed=seed)
    tile = np.full((16, m), np.nan, np.float32)
    marks = Marks(np.concatenate([np.zeros((0, m), bool), *differs]), apart)
    places = (codes + 6 * np.arange(categories)).astype(np.int32)
    TileProduct(matrix, marks)(rows, tile, places)
    begin = np.zeros((16, m), np.float32)
    for c in range(categories):
        begin += np.where(codes[:, c][:, None] != of_columns[:, c], apart[c], np.float32(0))
    # The same as of one more feature in front, whose product is exact.
    for i in (0, 7, 13):
        row = np.append(np.float32(1), rows[i])
        assert np.array_equal(tile[i], multiplied(row[None].repeat(8, 0), np.vstack([begin[i], matrix]))[0])


def test_marks_that_do_not_match_are_refused():
    marks = Marks(np.zeros((2, 40), bool), np.ones(1))
    for places in (None, np.zeros((16, 2), np.int32), np.zeros((8, 1), np.int32)):
        with pytest.raises(ValueError, match="do not match"):
            TileProduct(numbers((5, 40)), marks)(numbers((16, 5)), np.empty((16, 40), np.float32), places)
