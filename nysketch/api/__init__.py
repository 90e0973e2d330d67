"""The Python interface: what people have → what the library takes. One function for all that a command does.

Every function has a full signature, with the names and defaults of the command line's options, and a
docstring in numpydoc sections. `nysketch/__init__.py` lists them; docs/reference/python.md is made from
them.

sketching.py     sketch
files.py         info, verify, merge, subtract, export
learning.py      learn_kmeans, learn_gmm
applying.py      assign, score
comparing.py     compare, compare_all, independence
coreset.py       coreset
stores.py        run, status, write_report
plotting.py      plot
_data.py         opening data, and saying which columns and rows were left out
"""
