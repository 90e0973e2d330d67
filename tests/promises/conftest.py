"""The files that engines are tested on."""

from tests.engines.conftest import files

__all__ = ["files"]
