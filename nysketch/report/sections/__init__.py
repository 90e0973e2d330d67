"""The sections of a report.

drift.py        drift over time, which columns moved
partitions.py   rows, quality, runs, partitions
models.py       clusters over time
map.py          where the newest rows are
"""
