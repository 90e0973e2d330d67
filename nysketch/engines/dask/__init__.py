"""A Dask cluster as an engine.

engine.py     connecting to a cluster, and what every engine offers
session.py    one run: submitting tasks, retries, results as they arrive
monitor.py    is the cluster still there: its scheduler, workers that are fit and answer
batching.py   how many fragments make a task
worker.py     what runs on a worker, and what it sends back
"""

from nysketch.engines.dask.engine import DaskEngine, cluster

__all__ = ["DaskEngine", "cluster"]
