"""Columns that count more: the factor multiplies what they add to squared distances, and nothing else."""

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.basis.options import BasisOptions
from nysketch.columns import owners
from nysketch.errors import SchemaError, UsageError

N = 400


def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": rng.standard_normal(N),
            "price": pa.array(np.exp(rng.standard_normal(N)), mask=rng.random(N) < 0.2),
            "city": rng.choice(["a", "b", "c"], N),
            "place": pa.FixedSizeListArray.from_arrays(rng.standard_normal(3 * N), 3),
        }
    )


def sketch(**options):
    wanted = {"kinds": {"price": "log", "city": "category"}, "landmarks": 20, "nulls": "keep", "threads": 1}
    return nysketch.sketch(table(), **wanted | options)


@pytest.mark.parametrize("column", ["x", "price", "city", "place"])
def test_the_factor_multiplies_squared_distances_of_every_kind(column):
    plain, basis = sketch().basis, sketch(emphasis={column: 4}).basis
    rows = plain.landmarks
    own = np.array(owners(basis.columns)) == column
    before, after = (np.square(b.transform(rows) - b.transform(rows[:1])) for b in (plain, basis))
    assert np.allclose(after[:, own], 4 * before[:, own])
    assert np.array_equal(after[:, ~own], before[:, ~own])
    assert np.array_equal(basis.center, plain.center)
    assert basis.origin["emphasis"] == {column: 4.0}


def test_unscaled_columns_can_count_more():
    basis = nysketch.sketch(table().select(["x"]), scale="none", landmarks=5, emphasis={"x": 9}).basis
    assert basis.scale == pytest.approx(1 / 3)


def test_a_factor_of_one_changes_no_distance():
    assert sketch(emphasis={"x": 1}).basis == sketch().basis


def test_the_hot_loop_agrees_with_the_plain_definitions():
    made = sketch(emphasis={"city": 5, "price": 0.2})
    exact = sketch(basis=made.basis, kinds=None, landmarks=1000, precision="float64")
    assert np.allclose(made.kernel_sums, exact.kernel_sums, rtol=1e-5)
    assert np.array_equal(made.cells.rows, exact.cells.rows)
    assert np.allclose(made.cells.squares.high, exact.cells.squares.high)


def test_emphasis_survives_a_file(tmp_path):
    made = sketch(emphasis={"city": 5})
    nysketch.save(made, tmp_path / "s.nysk")
    again = nysketch.load(tmp_path / "s.nysk")
    assert again.basis == made.basis
    assert again.basis.origin["emphasis"] == {"city": 5.0}


def test_options_say_nothing_of_emphasis_unless_used():
    assert "emphasis" not in BasisOptions().describe()
    assert BasisOptions(emphasis={"x": 2}).describe()["emphasis"] == {"x": 2.0}
    assert BasisOptions(emphasis=["a=b=2", "x=0.5"]).emphasis == {"a=b": 2.0, "x": 0.5}


@pytest.mark.parametrize("factor", [0, -1, np.nan, np.inf, "much", True, None, 1e9])
def test_other_factors_are_refused(factor):
    with pytest.raises(UsageError, match="`emphasis` of column 'x' must be a number between"):
        BasisOptions(emphasis={"x": factor})


def test_what_names_no_column_is_refused():
    with pytest.raises(SchemaError, match="`emphasis` names column 'prize', which is not among"):
        sketch(emphasis={"prize": 2})
    with pytest.raises(UsageError, match="column=factor, such as price=2"):
        BasisOptions(emphasis=["x"])
    with pytest.raises(UsageError, match="names column 'x' twice"):
        BasisOptions(emphasis=["x=1", "x=2"])
    with pytest.raises(UsageError, match="string kernels"):
        BasisOptions(kernel="spectrum", emphasis={"x": 2})


def test_a_basis_that_is_there_has_its_own():
    with pytest.raises(UsageError, match="the basis determines"):
        sketch(basis=sketch().basis, kinds=None, landmarks=1000, emphasis={"x": 2})


def test_every_way_to_a_basis_takes_it():
    basis = nysketch.Basis.fit(table().select(["x", "place"]), landmarks=20, emphasis={"x": 4})
    same = nysketch.sketch(table().select(["x", "place"]), landmarks=20, emphasis={"x": 4}).basis
    assert basis == same
    chosen = nysketch.coreset(table().select(["x", "place"]), 10, landmarks=20, emphasis={"x": 4})
    assert len(chosen.weights) <= 11
