"""Columns and the features they make."""

from nysketch.columns import Column, feature_names, total_width


def test_every_feature_has_a_name_in_the_order_of_the_columns():
    columns = [Column("x"), Column("v", 3), Column("y")]
    assert feature_names(columns) == ["x", "v[0]", "v[1]", "v[2]", "y"]
    assert len(feature_names(columns)) == total_width(columns)
    assert feature_names([Column("name", text=True)]) == ["name"]
