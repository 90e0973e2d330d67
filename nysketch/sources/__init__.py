"""Sources: tables to read, from files, directories, URIs, streams and memory, as batches of rows.

open.py            what was given → a source
options.py         how it is read
protocol.py        what every source and every file of a table offers
selection.py       which columns are read, and why others are not
locations.py       paths, globs, directories and URIs → files
filesystems.py     where URIs lead
retry.py           reading again what failed
table_formats.py   Delta Lake and Iceberg: the data files of a version
files.py           many files as one source
hive.py            columns that are names of directories
parquet.py, feather.py, csv.py, hdf5.py   one file each
arrow.py           Arrow data: columns to numbers; tables in memory and streams
arrays.py          NumPy arrays
"""
