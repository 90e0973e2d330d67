"""Numbers at the ends of what float64 holds: a basis is refused with a reason, or all works in silence."""

from dataclasses import replace

import numpy as np
import pytest

import nysketch
from nysketch.basis.base import SCALINGS
from nysketch.errors import InputError, InvalidRowsError, NysketchError, UsageError

ROWS = 80
random = np.random.default_rng(0)
normal, few = random.normal(size=ROWS), random.integers(-50, 50, ROWS)
first = np.arange(ROWS) < ROWS - 3

COLUMNS = {
    "denormal": np.abs(few) * 5e-324,
    "±denormal": few * 5e-324,
    "large denormal": normal * 1e-310,
    "1e-300": normal * 1e-300,
    "1e-160": normal * 1e-160,
    "float32 denormal": (few * 1e-45).astype(np.float32),
    "float32 huge": (few * 6e36).astype(np.float32),
    "constant": np.full(ROWS, 3.7),
    "constant denormal": np.full(ROWS, 5e-324),
    "constant huge": np.full(ROWS, 1e300),
    "constant at first": np.where(first, 2.0, 50.0),
    "constant, then huge": np.where(first, 2.0, 1e300),
    "constant, then denormal": np.where(first, 0.0, 5e-324),
    "1e155": normal * 1e155,
    "1e300": normal * 1e300,
    "largest": np.where(few > 0, 1.7e308, -1.7e308),
    "one at 1e300": np.where(first, normal, 1e300),
    "mostly denormal": np.where(few > 40, 1.0, 5e-324),
    "denormal and huge": np.where(few > 0, 1e300, 5e-324),
}
KERNELS = [{}, {"kernel": "linear"}, {"features": "fourier"}]

pytestmark = pytest.mark.filterwarnings("default::nysketch.errors.NysketchWarning")


@pytest.mark.parametrize("scale", [*SCALINGS, "auto"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_basis_is_refused_or_sketches_can_be_saved(name, scale):
    """Refused is what cannot be used, before the pass; NumPy warns of nothing, which would be an error."""
    column = COLUMNS[name]
    for kernel in KERNELS:
        for table in ({"a": column}, {"a": column, "b": normal[::-1]}):
            pilot = {key: values[:40] if "constant" in name else values for key, values in table.items()}
            try:
                basis = nysketch.Basis.fit(pilot, columns=list(table), landmarks=8, scale=scale, **kernel)
            except (InputError, UsageError) as error:
                assert any(word in str(error) for word in ("too large", "too small", "between 1e-50")), error
                continue
            try:
                sketch = nysketch.sketch(table, basis=basis, threads=1)
            except InputError as error:  # rows that the pilot did not have
                assert "too large for the kernel" in str(error) and "constant" in name
                continue
            assert nysketch.from_bytes(nysketch.to_bytes(sketch)) == sketch


@pytest.mark.parametrize("name", ["denormal", "1e-160", "one at 1e300", "float32 huge", "mostly denormal"])
def test_what_such_columns_end_in_can_be_used(name, tmp_path):
    table = {"a": COLUMNS[name], "b": normal[::-1]}
    for scale in ("auto", "none"):
        try:
            sketch = nysketch.sketch(table, columns=["a", "b"], landmarks=8, scale=scale, threads=1)
        except NysketchError as error:
            assert "values beyond" in str(error) or "too large" in str(error) or "between 1e-50" in str(error)
            continue
        nysketch.compare(sketch, sketch)
        for learn in (nysketch.learn_kmeans, nysketch.learn_gmm):
            try:
                learn(sketch, k=2)
            except InputError as error:
                assert "vary far less" in str(error)


def test_columns_that_hardly_vary_are_named():
    table = {"a": COLUMNS["±denormal"], "b": normal}
    with pytest.warns(nysketch.NysketchWarning, match="less than 1e-200 have no effect: 'a'"):
        basis = nysketch.Basis.fit(table, columns=["a", "b"], landmarks=8, scale="robust")
    assert basis.scale[0] == 1.0


def test_infinities_beside_denormals_are_invalid_rows():
    table = {"a": np.where(few > 40, np.inf, 5e-324), "b": normal}
    with pytest.raises(InvalidRowsError, match="infinities"):
        nysketch.sketch(table, columns=["a", "b"], landmarks=8)
    sketch = nysketch.sketch(table, columns=["a", "b"], landmarks=8, nulls="drop")
    assert sketch.dropped_rows == (few > 40).sum()


def test_a_basis_that_cannot_be_saved_is_refused_before_a_row_is_read():
    basis = nysketch.Basis.fit({"a": normal}, landmarks=8)
    broken = replace(basis, scale=np.array([5e-324]))  # made by hand, or by an older version
    rows = {"a": np.full(ROWS, np.nan)}  # reading them would be another error
    with pytest.raises(InputError, match="could not be saved: its landmarks are out of range"):
        nysketch.sketch(rows, basis=broken)
