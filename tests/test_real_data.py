"""Real tables, where they lie beside the checkout: odd ranges, nulls, duplicates, constant columns."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import InvalidRowsError, SchemaError
from tests import naive

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the checkout")


@pytest.mark.parametrize(
    "name", ["dwd_weather_349x3", "uci_bike_17379x18", "uci_keggundirected_63608x28", "nyc_taxi_360k"]
)
@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_sums_of_real_rows_against_the_definition(name, scaling):
    made = nysketch.sketch(DATA / f"{name}.parquet", m=50, nulls="drop", scaling=scaling)
    table = pq.read_table(DATA / f"{name}.parquet")
    rows = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    assert made.rows == len(rows)
    assert made.dropped_rows == len(table) - len(rows)
    assert np.allclose(made.kernel_sums, naive.kernel_sums(made.basis, rows), rtol=1e-5)
    assert np.array_equal(made.column_ranges[0], rows.min(axis=0))
    assert np.array_equal(made.column_ranges[1], rows.max(axis=0))


def test_nulls_in_real_rows_are_named():
    with pytest.raises(InvalidRowsError, match=r"row group \d+: column 'congestion_surcharge' has .* nulls"):
        nysketch.sketch(DATA / "nyc_taxi_360k.parquet", m=10)


def test_a_table_of_text_is_refused():
    with pytest.raises(SchemaError, match="no numeric columns"):
        nysketch.sketch(DATA / "splice_3190_strings60.parquet")
