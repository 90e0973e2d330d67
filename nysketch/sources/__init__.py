"""Sources: tables to read, from files, directories, URIs, streams and memory, as batches of rows.

open.py                what was given → a source
options.py             how it is read
protocol.py            what every source and every file of a table offers
selection.py           which columns are read, and why others are not
identifiers.py         columns that are no features: serial numbers and constants
expand.py              paths, globs, directories and URIs → files
locations.py           a file, wherever it is: open it, tell its format, compare it
filesystems.py         connecting to the filesystems of URIs
retry.py               reading again after errors
table_directories.py   directories that are tables of Delta Lake or Iceberg → files
table_formats.py       Delta Lake and Iceberg: the data files of a version
files.py               many files as one source
opener.py              opening them as what they are, several at a time
hive.py                columns that are names of directories
arrow_file.py          what Parquet and Feather files share
parquet.py, feather.py, csv.py, hdf5.py   one format each
parquet_footers.py     footers of Parquet files, parsed once for all readers
parquet_groups.py      what a row group takes to read, and how to read it in less
parquet_pages.py       the sizes of the pages of a column
feather_batches.py     the sizes of the record batches of a Feather file
arrow.py               Arrow data: columns to numbers; tables in memory and streams
encoding.py            categories, times and texts to numbers
text_vectors.py        places of texts on a sphere
decoding.py            and back: texts of codes, times
queries.py             relations, lazy frames and data sets: computed anew whenever they are read
arrays.py              NumPy arrays, lists of rows, sparse matrices
frames.py              frames of pandas and polars, and dicts of columns
"""
