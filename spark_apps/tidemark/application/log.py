"""The log of an application on standard error, which shows its progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.text import harmless

LIBRARY = "tidemark"
"""The parent of all loggers of the applications and of the library's modules."""


@contextmanager
def on_standard_error(application: str) -> Iterator[None]:
    """Write the library's log to standard error while the block runs.

    A line has the application's name, the seconds since the start of the block, and the text. The
    logs of other libraries are not affected: their loggers are not below `tidemark`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Elapsed(application))
    library = logging.getLogger(LIBRARY)
    library.setLevel(logging.INFO)
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)


class _Elapsed(logging.Formatter):
    """A formatter with the application's name and the seconds since its creation."""

    def __init__(self, application: str) -> None:
        super().__init__(f"{application} %(elapsed)6.1f s  %(message)s")
        self._started = time.monotonic()

    def format(self, record: logging.LogRecord) -> str:
        """Format one record, with its traceback if it has one."""
        record.elapsed = time.monotonic() - self._started
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format the line of one record."""
        record.message = harmless(record.message)
        return super().formatMessage(record)
