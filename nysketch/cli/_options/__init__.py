"""Options that several commands share.

types.py    values that click has no type for
common.py   inputs, outputs, reporting, threads
basis.py    how a basis is made
engine.py   who runs the pass
"""
