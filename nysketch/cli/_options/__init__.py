"""Options that several commands share.

common.py   inputs, outputs, reporting, threads
basis.py    how a basis is made
engine.py   who runs the pass
"""
