"""Scaling: what users expect on clean columns, and what a few wild values may not do."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.basis.fit import fit_rows
from nysketch.basis.options import BasisOptions
from nysketch.basis.scaling import is_wild
from nysketch.columns import Column
from nysketch.errors import NysketchWarning
from tests import naive

N = 10_000
RANDOM = np.random.default_rng(3)
CLEAN = {
    "normal": RANDOM.normal(5.0, 2.0, N),
    "uniform": RANDOM.random(N),
    "exponential": RANDOM.exponential(3.0, N),
    "laplace": RANDOM.laplace(size=N),
    "lognormal": RANDOM.lognormal(sigma=0.5, size=N),
    "binary": RANDOM.integers(0, 2, N).astype(float),
    "rare flag": (np.arange(N) % 1000 == 0).astype(float),
    "counts": RANDOM.poisson(3.0, N).astype(float),
    "rare counts": RANDOM.poisson(0.04, N).astype(float),
    "mostly zeros": np.where(RANDOM.random(N) < 0.94, 0.0, RANDOM.exponential(size=N)),
    "bimodal": np.where(RANDOM.random(N) < 0.5, 0.0, 100.0) + RANDOM.normal(size=N),
    "tenth far away": np.where(RANDOM.random(N) < 0.1, 100.0, 0.0) + RANDOM.normal(size=N),
}
CONTINUOUS = ["normal", "uniform", "exponential", "laplace", "lognormal", "counts", "bimodal"]


def fit(rows, **options):
    rows = np.asarray(rows)
    rows = rows[:, None] if rows.ndim == 1 else rows
    named = [Column(f"x{i}") for i in range(rows.shape[1])]
    return fit_rows(rows, named, BasisOptions.of({"m": 5} | options))


@pytest.mark.parametrize("name", CLEAN)
def test_of_clean_columns_it_is_the_standard_deviation_to_the_last_bit(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        basis = fit(CLEAN[name])
    assert basis.scale[0] == CLEAN[name].std()
    assert basis.center[0] == CLEAN[name].mean()
    assert basis.scaling == "standard"
    assert "wild" not in basis.origin
    assert basis == fit(CLEAN[name], scaling="standard")


def test_a_constant_column_keeps_its_units():
    assert fit(np.full(100, 0.1)).scale[0] == 1.0
    assert fit(np.full(3, 7.0)).scale[0] == 1.0


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("share", [1 / N, 0.003, 0.03])
@pytest.mark.parametrize("wild", [1e6, -1e9, 1e30])
def test_a_few_per_cent_of_wild_values_have_no_say(name, share, wild):
    values = CLEAN[name].copy()
    count = round(share * N)
    values[:count] = wild
    if count > 1:
        values[: count // 2] = -wild
    with pytest.warns(NysketchWarning, match=rf"column 'x0': {count} of 10,000 pilot rows holds? nearly all"):
        basis = fit(values)
    assert basis.scale[0] == pytest.approx(CLEAN[name].std(), rel=0.03)
    assert basis.center[0] == pytest.approx(CLEAN[name].mean(), abs=0.03 * CLEAN[name].std())
    (found,) = basis.origin["wild"]
    assert found == {"column": "x0", "rows": count, "share": pytest.approx(1.0, abs=1e-3), "left_out": True}


def test_a_rare_flag_survives_a_wild_value():
    flag = CLEAN["rare flag"].copy()
    flag[1] = 1e6
    with pytest.warns(NysketchWarning, match="wild|left out of the scale"):
        basis = fit(flag)
    assert basis.scale[0] == pytest.approx(CLEAN["rare flag"].std(), rel=0.01)


def test_values_too_large_for_distances_stay_in_the_deviation():
    values = CLEAN["normal"].copy()
    values[0] = 1e120
    with pytest.warns(NysketchWarning, match="1 of 10,000"):
        assert fit(values).scale[0] == values.std()


@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
def test_kernels_that_grow_with_wild_values_keep_the_whole_deviation(kernel):
    values = CLEAN["normal"].copy()
    values[0] = 1e6
    with pytest.warns(NysketchWarning, match="1 of 10,000"):
        assert fit(values, kernel=kernel).scale[0] == values.std()


def test_in_groups_each_kernel_decides():
    rows = np.column_stack([CLEAN["normal"], CLEAN["uniform"]])
    rows[0] = 1e6
    groups = {"a": ["x0"], "b": ["x1"]}
    with pytest.warns(NysketchWarning) as said:
        basis = fit(rows, groups=groups, kernel={"a": "gaussian", "b": "linear"})
    left_out, not_left_out = (str(one.message) for one in said)
    assert "'x0'" in left_out and "left out of the scale. If" in left_out
    assert "'x1'" in not_left_out and "look alike" in not_left_out
    assert basis.scale[0] == pytest.approx(CLEAN["normal"].std(), rel=0.01)
    assert basis.scale[1] == pytest.approx(rows[:, 1].std())


def test_standard_is_what_it_was_and_says_what_it_hides():
    values = CLEAN["normal"].copy()
    values[7] = 1e6
    with pytest.warns(NysketchWarning, match='look alike. `scale="auto"` leaves'):
        basis = fit(values, scaling="standard")
    assert (basis.center[0], basis.scale[0]) == (values.mean(), values.std())


def test_a_heavy_tail_is_reported_with_its_share_and_the_option():
    tail = np.random.default_rng(0).lognormal(0.0, 3.0, N)
    with pytest.warns(NysketchWarning, match="of 10,000 .* of its variance.*robust"):
        basis = fit(tail)
    assert 0.5 < basis.origin["wild"][0]["share"] <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(tail, scaling="robust")
        fit(tail, scaling="none")


def test_many_columns_are_counted_not_listed():
    rows = np.tile(CLEAN["normal"][:, None], 6)
    rows[0] = 1e6
    with pytest.warns(NysketchWarning, match="'x0'.*'x1'.*'x2'.*; and 3 more columns"):
        fit(rows)


def test_what_is_said_of_wild_values_is_kept_in_files(tmp_path):
    values = CLEAN["normal"].copy()
    values[0] = 1e6
    with pytest.warns(NysketchWarning):
        sketch = nysketch.sketch(pa.table({"price": values}), landmarks=5)
    nysketch.save(sketch, tmp_path / "a.nysk")
    back = nysketch.load(tmp_path / "a.nysk").basis
    assert back == sketch.basis
    assert back.origin["wild"] == [{"column": "price", "rows": 1, "share": 1.0, "left_out": True}]


# ---- which values are wild --------------------------------------------------------------------------

COLUMNS = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, allow_subnormal=False)),
    min_size=1,
    max_size=60,
)


@settings(deadline=None)
@given(COLUMNS)
def test_wild_values_are_those_of_the_definition(values):
    assert is_wild(np.array(values)).tolist() == naive.wild(values)


@settings(deadline=None)
@given(COLUMNS.filter(lambda values: len(values) >= 20), st.integers(-8, 8), st.randoms())
def test_wild_values_do_not_depend_on_units_sign_or_order(values, power, random):
    values = np.round(np.array(values) * 2**10) / 2**10  # no rounding when it is halved
    wild = is_wild(values)
    assert (is_wild(values * 2.0**power) == wild).all()
    assert (is_wild(-values) == wild).all()
    order = list(range(len(values)))
    random.shuffle(order)
    assert (is_wild(values[order]) == wild[order]).all()


@settings(deadline=None)
@given(COLUMNS)
def test_never_more_than_a_tenth_is_wild(values):
    wild = is_wild(np.array(values))
    assert wild.sum() <= max(2, 0.1 * len(values) + 2)


# ---- what it is for ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wild", [0, 1, 40])
def test_wild_values_in_the_pilot_hide_no_shift(wild):
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 2000, 3))
    b[:, 0] += 0.4
    a[:wild, 0] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NysketchWarning)
        first = nysketch.sketch(a, landmarks=50, cells=False)
    second = nysketch.sketch(b, basis=first.basis, cells=False)
    assert nysketch.compare(first, second, explain=False, permutations=199).p_value <= 0.01


def test_a_wild_value_hides_no_dependence():
    random = np.random.default_rng(2)
    x, v = random.normal(size=(2, 2000))
    u = x + 0.5 * random.normal(size=2000)
    u[17] = 1e6
    table = pa.table({"x": x, "u": u, "v": v})
    with pytest.warns(NysketchWarning, match="'u'"):
        sketch = nysketch.sketch(table, landmarks=60, groups={"a": ["x"], "b": ["u", "v"]})
    assert nysketch.independence(sketch).p_value <= 0.01
