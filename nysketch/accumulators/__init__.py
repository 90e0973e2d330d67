"""What is summed over rows: the additive statistics of a sketch, one file each.

exact.py            sums that do not depend on the order of their terms
grids.py            how finely terms are rounded for that
blocks.py           kernel sums by random block of rows
ranges.py           smallest and largest value of each feature
sample.py           a bounded uniform sample of the rows
cells.py            counts, sums and squares of the rows nearest to each landmark
spans.py            kernel sums by span of consecutive rows
groups.py           kernel sums of groups of columns
second_moments.py   sums of products of two kernel values
tally.py            all of them together
"""
