"""What the library says beside its results: one log, which Python callers read as warnings.

The logger "nysketch" gets everything. The command line prints it (cli/_output.py). Where nothing else was set
up, warnings and notices become Python warnings, placed at the line of the user's code that they are about.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from nysketch.errors import NysketchWarning

log = logging.getLogger("nysketch")

# Between INFO and WARNING: nothing is wrong, but a caller who is not told may draw wrong conclusions.
NOTICE = 25
logging.addLevelName(NOTICE, "NOTICE")

_PACKAGE = str(Path(__file__).parent.parent)
_OURS = (_PACKAGE, str(Path(logging.__file__).parent))


class _AsWarnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        frame, depth = sys._getframe(1), 1
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
            frame, depth = frame.f_back, depth + 1
        warnings.warn(record.getMessage(), NysketchWarning, stacklevel=depth + 1)


def notice(message: str, *values: object) -> None:
    """Say something that callers should know and that is no reason to worry."""
    log.log(NOTICE, message, *values)


log.addHandler(_AsWarnings(NOTICE))
log.setLevel(NOTICE)  # Python's default, WARNING, would hide notices
