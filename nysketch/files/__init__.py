"""Our own files: bytes of sketches and bases, checkpoints, what can be done with files alone.

format.py       the .nysk file: bytes to values and back
validate.py     whether what a file says can be true
checkpoint.py   the progress of a pass, saved beside its output
merge.py        adding and subtracting sketch files
find.py         sketch files by name: globs, directories
inspection.py   what a sketch file holds, and whether it is sound
export.py       a sketch as NPZ, JSON or Parquet
tables.py       tables as Parquet, CSV or Feather
"""
