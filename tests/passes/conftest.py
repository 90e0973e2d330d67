"""The rows that sources are tested on."""

from tests.sources.conftest import rows, small_pieces, table

__all__ = ["rows", "small_pieces", "table"]
