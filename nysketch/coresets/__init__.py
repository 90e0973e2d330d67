"""Coresets: few weighted rows with the same means as all of them (kernel quadrature).

coreset.py         what a coreset is; the choice of its test functions; notes
from_sketch.py     of the landmarks of a sketch
from_data.py       of the rows of a source, in one pass
fragments.py       a fragment → a few weighted rows; merge and reduce
testfunctions.py   the functions whose means are kept
recombination.py   fewer rows, the same means
_elimination.py    its inner loop, compiled
discrepancy.py     how far a coreset is from the data
bounds.py          what theory says of it; how many test functions are enough
files.py           coreset files
"""
