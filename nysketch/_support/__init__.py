"""What everything else stands on and that knows nothing of sketches.

atomic.py          files that appear complete or not at all
regular.py         regular files, and what is none: devices, FIFOs
companions.py      names of the files beside an output
documents.py       JSON and TOML of others, read with care
locks.py           one writer per output
outputs.py         the guard of every output: inputs, lock, what is there already
blas.py            one BLAS thread per worker
jit.py             how functions are compiled
cancel.py          asking whether to go on, from deep inside a read
streams.py         standard streams that are closed, or not read
signals.py         Ctrl-C and SIGTERM, from the first moment to the last
notices.py         what is said beside results: one log, Python warnings
intervals.py       parts 1 to N, each held so many times, as stretches
exact.py           sums that do not depend on the order of their terms
seeds.py           what may seed random numbers
html_repr.py       how results present themselves: on one line, and as a table
allocator.py       giving freed memory back to the system
machine.py         how much memory there is
sizes.py           sizes in words: 512MB
string_arrays.py   strings as arrays of bytes
"""
