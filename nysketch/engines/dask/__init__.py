"""A Dask cluster as an engine.

engine.py     connecting, and what every engine offers
session.py    handing out fragments, retries, results as they arrive
batching.py   how many fragments a worker is given at a time
worker.py     what runs on a worker, and what it sends back
"""

from nysketch.engines.dask.engine import DaskEngine, cluster

__all__ = ["DaskEngine", "cluster"]
