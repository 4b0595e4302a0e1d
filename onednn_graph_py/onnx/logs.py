"""Logs of ONNX's libraries, which hold names that a file chose: `filter_logs`."""

import logging
from collections import Counter

from ..base.text.names import printable

_MOST = 10  # lines of one kind, for each model
_LIBRARIES = ("onnx_ir",)

_told: Counter[tuple[str, int]] = Counter()


def _passes(record: logging.LogRecord) -> bool:
    """Escape what terminals obey, and hold back what has been said often."""
    record.msg, record.args = printable(record.getMessage()), ()
    record.exc_info = record.exc_text = None  # a traceback, whose last line has names
    _told[record.pathname, record.lineno] += 1
    return _told[record.pathname, record.lineno] <= _MOST


def filter_logs() -> None:
    """Let these libraries' loggers say only what is harmless, and each thing ten times again."""
    _told.clear()
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] in _LIBRARIES and isinstance(logger, logging.Logger):
            logger.addFilter(_passes)  # which is added only once
