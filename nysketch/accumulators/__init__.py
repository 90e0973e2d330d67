"""What is summed over rows: the additive statistics of a sketch, one file each.

protocol.py         what every statistic offers: its value, how a pass collects it, how it is stored
options.py          what a pass is asked to keep
tally.py            the list of all statistics; all of them together

blocks.py           kernel sums by random block of rows
dropped.py          how many rows were left out for nulls
unknown.py          in how many rows a column has no value, or one that its vocabulary does not have
ranges.py           smallest and largest value of each number of a row
sample.py           a bounded uniform sample of the rows
sample_order.py     which input a sampled row is of, and where in it
cells.py            counts, sums and squares of the rows nearest to each landmark
cell_features.py    how features of rows reach the cells: numbers and codes
cell_pass.py        how a pass collects them
far_rows.py         the rows farthest from their landmarks, kept with the cells
spans.py            kernel sums by span of consecutive rows
span_addresses.py   which span a row is in
groups.py           kernel sums of groups of columns
second_moments.py   sums of products of two kernel values

limits.py           what sums can be, given the rows
grids.py            how finely terms are rounded, so that sums are exact (_support/exact.py)
"""
