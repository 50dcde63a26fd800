"""The failure of an event, which does not fail the run, and the attempts before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark import termination
from tidemark.errors import CassandraUnavailable, LockLost, StatementRefused, TidemarkError
from tidemark.text import one_line

_PAUSES_S = (0.2, 1.0)


class EventFailed(Exception):
    """An event that did not succeed, with the reason in one line.

    `was_refused`: Cassandra rejected its statement at the first attempt, so nothing was written.
    """

    def __init__(self, reason: str, *, was_refused: bool = False) -> None:
        # Errors of functions may have lone surrogates, which Cassandra does not store.
        super().__init__(reason.encode("utf-8", "backslashreplace").decode())
        self.was_refused = was_refused


@contextmanager
def failing_its_event() -> Iterator[None]:
    """Turn every error into a failure of the event, except those of the cluster and of locks.

    Otherwise a group whose event raises in each run would stop its stream permanently.
    """
    try:
        yield
    except (EventFailed, LockLost):
        raise
    except Exception as error:
        if isinstance(error, CassandraUnavailable) and not isinstance(error, StatementRefused):
            raise
        termination.check()
        raise EventFailed(error_text(error)) from error


def error_text(error: Exception) -> str:
    """Return the message of an error in one line; an unexpected error is preceded by its type."""
    if isinstance(error, EventFailed | TidemarkError):
        return str(error)
    return one_line(f"{type(error).__name__}: {error}")


def attempts() -> Iterator[int]:
    """Yield the numbers of three attempts, pausing between them."""
    yield 1
    for number, pause in enumerate(_PAUSES_S, 2):
        time.sleep(pause)
        yield number
