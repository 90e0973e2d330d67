"""Pictures are drawn of the same store as reports."""

from tests.report.conftest import store

__all__ = ["store"]
