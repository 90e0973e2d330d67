"""The hot loop at bases whose columns have kinds, against the plain definitions."""

import numpy as np
import pytest

from nysketch.tiles.float64 import RowValues
from nysketch.tiles.gaussian import GaussianTiles
from nysketch.tiles.general import GeneralTiles
from nysketch.tiles.points import PointMaker
from nysketch.tiles.summer import RowSummer
from tests import mixed
from tests.tiles.test_summer import chunk_of

TABLES = {
    "everything": ["plain", "city", "holes", "list", "flag", "when", "log", "zip", "rank"],
    "categories alone": ["city", "flag", "zip"],
    "one category": ["city"],
    "a time alone": ["hour"],
    "numbers with holes": ["holes", "rank"],
    "many categories": ["zip", "city", "flag", "plain"],
}
KERNELS = {
    "gaussian": {},
    "narrow": {"bandwidth": 0.3},
    "wide": {"bandwidth": 20.0},
    "several": {"bandwidth": [0.5, 1.0, 4.0]},
    "laplacian": {"kernel": "laplacian-l1"},
    "matern32": {"kernel": "matern32"},
    "polynomial": {"kernel": "polynomial"},
    "cosine": {"kernel": "cosine"},
    "fourier": {"features": "fourier", "m": 40},
}


def made(table, n=700, **options):
    columns = mixed.columns(*TABLES[table])
    rows = mixed.numbers(np.random.default_rng(5), n, columns)
    return mixed.basis_of(rows, columns, **options), rows


def sums_of(basis, rows, *, precision="float32", weights=None, keep=None, nearest=False):
    """Return sums by block, the nearest landmarks of all rows, and how many rows have none."""
    summer = RowSummer(basis, blocks=3, seed=1, precision=precision, nearest=nearest)
    into, workspace, found, beyond = summer.zeros(), summer.workspace(256), [], 0
    for start in range(0, len(rows), 256):
        part = slice(start, start + 256)
        kept, taken = None if keep is None else keep[part], None if weights is None else weights[part]
        evaluated = summer.add(chunk_of(rows[part], start, kept, taken), into, workspace)
        if nearest:
            found.append(evaluated.nearest.copy())
            beyond += evaluated.out_of_range
    return summer.sums(into), np.concatenate(found) if nearest else None, beyond


def require_close(got, expected, tolerance=2e-5):
    scale = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max())
    assert np.max(np.abs(got - expected) / scale) < tolerance


@pytest.mark.parametrize("table", TABLES)
def test_features_are_those_of_every_value_alone(table):
    basis, rows = made(table, 100)
    assert np.allclose(basis.transform(rows), mixed.slow_scaled(basis, rows), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("table", TABLES)
def test_sums_are_those_of_features(table, kernel, precision):
    basis, rows = made(table, **KERNELS[kernel])
    weights = np.random.default_rng(6).uniform(0, 2, len(rows))
    keep = np.random.default_rng(7).random(len(rows)) < 0.9
    values = basis.evaluate(mixed.slow_scaled(basis, rows))
    got, _, _ = sums_of(basis, rows, precision=precision, weights=weights, keep=keep)
    require_close(got.sum(axis=0), (weights * keep) @ values)


def test_products_of_groups_are_those_of_features():
    columns = mixed.columns("plain", "city", "holes", "flag")
    rows = mixed.numbers(np.random.default_rng(5), 500, columns)
    for kernel in ("gaussian", {"p": "gaussian", "q": "laplacian-l2"}):
        basis = mixed.basis_of(
            rows, columns, groups={"p": ["plain", "city"], "q": ["holes", "flag"]}, kernel=kernel
        )
        got, _, _ = sums_of(basis, rows)
        require_close(got.sum(axis=0), basis.evaluate(mixed.slow_scaled(basis, rows)).sum(axis=0))
        for group in (0, 1):
            part = basis.of_groups([group])
            seen = np.asfortranarray(rows[:, basis.numbers_of([group])])
            got, _, _ = sums_of(part, seen)
            require_close(got.sum(axis=0), part.evaluate(mixed.slow_scaled(part, seen)).sum(axis=0))


def nearest_by_features(basis, rows):
    """The squared distance of every row from every landmark."""
    scaled = basis.transform(rows)
    return ((scaled[:, None] - basis.scaled_landmarks[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("kernel", ["gaussian", "narrow", "wide", "several", "laplacian"])
@pytest.mark.parametrize("table", TABLES)
def test_the_nearest_landmark_is_that_of_features(table, kernel):
    basis, rows = made(table, **KERNELS[kernel])
    _, found, beyond = sums_of(basis, rows, nearest=True)
    squared = nearest_by_features(basis, rows)
    assert not beyond
    chosen = squared[np.arange(len(rows)), found]
    assert (chosen <= squared.min(axis=1) * (1 + 1e-12) + 1e-12).all()
    ties = (squared <= squared.min(axis=1)[:, None] * (1 + 1e-12) + 1e-12).sum(axis=1) > 1
    assert (found == squared.argmin(axis=1))[~ties].all()


@pytest.mark.parametrize("table", ["everything", "categories alone", "many categories"])
def test_cells_do_not_depend_on_the_kernel(table):
    found = []
    for kernel in ("gaussian", "narrow", "wide", "several", "laplacian"):
        basis, rows = made(table, **KERNELS[kernel])
        found.append(sums_of(basis, rows, nearest=True)[1].tolist())
    assert all(one == found[0] for one in found)


def test_landmarks_far_out_look_categories_up_too():
    columns = mixed.columns("plain", "city", "zip")
    rows = mixed.numbers(np.random.default_rng(8), 600, columns)
    rows[::7, 0] *= 1e4
    basis = mixed.basis_of(rows, columns, m=60, scaling="none", bandwidth=1.0)
    tiles = GaussianTiles(basis, np.ones(basis.d))
    assert len(tiles.near) and len(tiles.far)
    got, found, _ = sums_of(basis, rows, nearest=True)
    require_close(got.sum(axis=0), basis.values(rows).sum(axis=0))
    squared = nearest_by_features(basis, rows)
    assert np.allclose(squared[np.arange(len(rows)), found], squared.min(axis=1), rtol=1e-9)


def test_rows_beyond_all_landmarks_are_in_no_cell():
    columns = mixed.columns("plain", "city")
    rows = mixed.numbers(np.random.default_rng(8), 300, columns)
    basis = mixed.basis_of(rows, columns)
    rows[5, 0] = 1e12
    _, found, beyond = sums_of(basis, rows, nearest=True)
    assert beyond == 1 and found[5] == basis.m and (np.delete(found, 5) < basis.m).all()


@pytest.mark.parametrize("bandwidths", [None, 0.01, 1000.0])
def test_hundreds_of_features_of_categories_are_summed_right(bandwidths):
    columns = mixed.columns("zip", "plain", "city", values=30)
    rows = mixed.numbers(np.random.default_rng(8), 400, columns)
    basis = mixed.basis_of(rows, columns, m=50, **({} if bandwidths is None else {"bandwidth": bandwidths}))
    got, _, _ = sums_of(basis, rows)
    expected = basis.values(rows).sum(axis=0)
    assert np.allclose(got.sum(axis=0), expected, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("table", TABLES)
def test_precise_values_are_those_of_the_basis(table):
    basis, rows = made(table)
    values = basis.evaluate(mixed.slow_scaled(basis, rows))
    assert np.allclose(RowValues(basis).of(rows), values, rtol=1e-10, atol=1e-14)
    groups = np.arange(len(rows)) // 100
    weights = np.random.default_rng(3).uniform(0, 2, len(rows))
    expected = [(weights[groups == g, None] * values[groups == g]).sum(axis=0) for g in range(groups[-1] + 1)]
    assert np.allclose(RowValues(basis).group_sums(rows, weights, groups), expected, rtol=1e-10)


def test_the_fast_path_and_the_general_one_agree():
    basis, rows = made("everything")
    order, block = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    points = PointMaker(basis)(np.asfortranarray(rows))
    values = []
    widths = np.full(basis.d, basis.kernel.bandwidth)
    for tiles in (GaussianTiles(basis, widths), GeneralTiles(basis)):
        sums = np.zeros((1, basis.m))
        tiles.add(points, order, block, np.ones(len(rows)), sums, tiles.workspace(len(rows)))
        values.append(tiles.ordered(sums))
    assert np.allclose(values[0], values[1], rtol=1e-5)


def test_numbers_that_are_no_codes_are_other_values():
    columns = mixed.columns("city")
    basis = mixed.basis_of(mixed.numbers(np.random.default_rng(0), 50, columns), columns, m=3)
    values = np.array([[0.0], [5.0], [np.nan], [6.0], [-1.0], [np.inf], [-np.inf], [1e300]])
    codes = PointMaker(basis)(np.asfortranarray(values)).codes[:, 0]
    assert codes.tolist() == [0, 5, 5, 4, 4, 4, 4, 4] == columns[0].kind.codes(values[:, 0]).tolist()
