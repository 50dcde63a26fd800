"""The failure of an event, which is no failure of the run, and the attempts before it."""

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

    `was_refused` says that Cassandra has refused its statement at once: nothing was written.
    """

    def __init__(self, reason: str, *, was_refused: bool = False) -> None:
        # Errors of functions may have halves of characters, which Cassandra does not store.
        super().__init__(reason.encode("utf-8", "backslashreplace").decode())
        self.was_refused = was_refused


@contextmanager
def failing_its_event() -> Iterator[None]:
    """Make every error the failure of the event, but for those of the cluster and of the locks.

    A group whose event raises in each run would otherwise stop its stream for good.
    """
    try:
        yield
    except (EventFailed, LockLost):
        raise
    except Exception as error:
        if isinstance(error, CassandraUnavailable) and not isinstance(error, StatementRefused):
            raise
        termination.check()
        raise EventFailed(said(error)) from error


def said(error: Exception) -> str:
    """Return what an error says, in one line; of one that nobody foresaw with its type."""
    if isinstance(error, EventFailed | TidemarkError):
        return str(error)
    return one_line(f"{type(error).__name__}: {error}")


def attempts() -> Iterator[int]:
    """Yield the numbers of three attempts, with a pause between two of them."""
    yield 1
    for number, pause in enumerate(_PAUSES_S, 2):
        time.sleep(pause)
        yield number
