"""Sketches: values that add and subtract, and what can be said of them.

sketch.py     the algebra: sums, differences, mean embedding, mean features
quality.py    how good its basis is for its rows
losses.py     rows that were dropped, and the columns that cost them; unknown values
coverage.py   whether its rows have drifted away from the landmarks
columns_table.py  what its basis made of each column, in words
describe.py   everything about it in plain values, ready for JSON
"""
