"""What may seed random numbers."""

from __future__ import annotations

from nysketch.errors import UsageError


def require_seed(seed: int) -> None:
    """Raise a UsageError unless this can seed everything random."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"`seed` must be between 0 and 2**63 - 1, not {seed}")
