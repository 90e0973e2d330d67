"""Who runs a pass, and who hears how far it is: nothing that its result depends on.

What the result depends on is in accumulators/options.py; how many threads fit the memory is worked out in
memory.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from nysketch._types import Progress
from nysketch.engines.protocol import Engine


@dataclass(frozen=True)
class Execution:
    """How to run a pass: by which engine (default: threads of this process), reading this many rows at once.

    `progress` is called with the rows that were read; before that, where a basis is made, `pilot_progress`
    with the fragments of the pilot that were read and `choosing` with the landmarks that were chosen.
    """

    engine: Engine | None = None
    batch_rows: int | None = None
    progress: Progress | None = None
    pilot_progress: Progress | None = None
    choosing: Progress | None = None


# This process, with all processors; nobody listens.
HERE = Execution()
