"""Real tables, where they lie beside the checkout: odd ranges, nulls, duplicates, constant columns."""

from collections import Counter

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import InvalidRowsError, SchemaError
from tests import naive
from tests.helpers import ROOT

DATA = ROOT.parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the checkout")


@pytest.mark.parametrize(
    "name", ["dwd_weather_349x3", "uci_bike_17379x18", "uci_keggundirected_63608x28", "nyc_taxi_360k"]
)
@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_sums_of_real_rows_against_the_definition(name, scaling):
    made = nysketch.sketch(DATA / f"{name}.parquet", landmarks=50, nulls="drop", scale=scaling)
    # One of them has a constant, which is left out.
    table = pq.read_table(DATA / f"{name}.parquet", columns=[column.name for column in made.basis.columns])
    rows = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    assert made.rows == len(rows)
    assert made.dropped_rows == len(table) - len(rows)
    assert np.allclose(made.kernel_sums, naive.kernel_sums(made.basis, rows), rtol=1e-5)
    assert np.array_equal(made.column_ranges[0], rows.min(axis=0))
    assert np.array_equal(made.column_ranges[1], rows.max(axis=0))


def test_nulls_in_real_rows_are_named():
    with pytest.raises(InvalidRowsError, match=r"row group \d+: column 'congestion_surcharge' has .* nulls"):
        nysketch.sketch(DATA / "nyc_taxi_360k.parquet", landmarks=10, nulls="error")
    kept = nysketch.sketch(DATA / "nyc_taxi_360k.parquet", landmarks=10)
    assert (kept.rows, kept.dropped_rows) == (pq.read_metadata(DATA / "nyc_taxi_360k.parquet").num_rows, 0)


def test_of_a_table_of_text_only_the_category_is_taken():
    path = DATA / "splice_3190_strings60.parquet"
    made = nysketch.sketch(path)
    (column,) = made.basis.columns
    counts = Counter(pq.read_table(path)[column.name].to_pylist())
    assert set(column.kind.values) == set(counts)
    assert made.basis.origin["left_out"] == {"name": "identifier", "sequence": "identifier"}
    with pytest.raises(SchemaError, match=f"column {column.name!r} has type .*string; .* holds numbers"):
        nysketch.sketch(path, kinds={column.name: "number"})


def test_the_spring_of_2020_and_a_sorted_month_are_found_in_taxi_trips():
    trips = pq.read_table(DATA / "nyc_taxi_360k.parquet")
    columns = ["duration_s", "passenger_count", "trip_distance", "fare_amount", "tip_amount", "tolls_amount"]

    def month(number):
        return trips.filter(pc.equal(trips["file_month"], number)).select(columns)

    months = [201901, 202001, 202002, 202003, 202004, 202010, 202011]
    basis = nysketch.Basis.fit(month(201810), landmarks=200, scale="robust", nulls="drop")
    made = {n: nysketch.sketch(month(n), basis=basis, nulls="drop", threads=1) for n in months}
    spring = nysketch.compare(made[202003], made[202004])
    ordinary = [
        nysketch.compare(made[a], made[b]) for a, b in ((202001, 202002), (202002, 202003), (202010, 202011))
    ]
    assert spring.rejected and spring.mmd > 3 * max(other.mmd for other in ordinary)
    # Of the durations, a few of a day and more hold nearly all variance: the median fell by a quarter.
    duration, tip = spring.explanation.shifts[:2]
    assert duration.feature == "duration_s" and duration.shift < -0.3 and min(duration.set_aside) > 10
    assert tip.feature == "tip_amount" and tip.shift < -0.2
    assert not ordinary[2].rejected
    # The trips of this month are sorted by the number of passengers.
    found = nysketch.compare(made[202010], made[201901], explain=False)
    assert [side.found for side in found.dependences] == [False, True] and found.blocks == "consecutive"
