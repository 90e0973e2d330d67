"""The files and the cluster that engines are tested on."""

from tests.engines.conftest import client, cluster, engine, files

__all__ = ["client", "cluster", "engine", "files"]
