"""Our own files: bytes of sketches and bases, checkpoints, what can be done with files alone.

container.py    metadata and arrays as bytes, and whether bytes are sound
format.py       the .nysk file: sketches and bases as metadata and arrays
kinds.py        what a file is: a sketch, a model, data
validate.py     whether what a file says can be true
checkpoint.py   the progress of a pass, saved beside its output
row_counts.py   the rows of a sketch file, without reading it
merge.py        adding and subtracting sketch files
find.py         sketch files by name: globs, directories
export.py       a sketch as NPZ, JSON or Parquet
tables.py       tables as Parquet, CSV or Feather
"""
