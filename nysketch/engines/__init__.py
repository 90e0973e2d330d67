"""Engines run the fragments of a pass: in threads of this process, or on a cluster.

protocol.py   what every engine offers, and what it expects of work
threads.py    threads of this process
dask/         a Dask cluster
"""
