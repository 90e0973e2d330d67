"""Who runs the fragments of a pass: threads of this process, or a cluster.

protocol.py   what every engine offers, and what work must be like
threads.py    threads of this process
dask/         a Dask cluster
"""
