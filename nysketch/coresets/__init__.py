"""Coresets: few weighted rows with the same means as all of them (kernel quadrature).

coreset.py         what a coreset is; its test functions and its size
from_sketch.py     of the landmarks of a sketch
from_data.py       of the rows of a source, in one pass
fragments.py       what the pass does with a fragment
testfunctions.py   the functions whose means are kept
recombination.py   fewer rows, the same means
_elimination.py    its inner loop, compiled
discrepancy.py     how far a coreset is from the data
files.py           coreset files
"""
