"""The cluster that engines are tested on."""

from tests.engines.conftest import client, cluster

__all__ = ["client", "cluster"]
