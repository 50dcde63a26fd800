"""Turns failures of Spark into failures of events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidemark import termination
from tidemark.event_groups.failure import EventFailed
from tidemark.text import one_line


@contextmanager
def failing() -> Iterator[None]:
    """Turn failures of Spark into a failure of the event."""
    try:
        yield
    except PySparkException as error:
        termination.check()
        raise EventFailed(one_line(str(error))) from None
    except Py4JJavaError as error:
        termination.check()
        raise EventFailed(cause(error)) from None


def cause(error: Py4JJavaError) -> str:
    """Return the root cause of a failure, in one line."""
    exception = error.java_exception
    while exception.getCause() is not None:
        exception = exception.getCause()
    # Exceptions of users' functions need not have a message.
    message = str(exception.getMessage() or exception.toString())
    if "UnknownReason" in message:
        # The driver lacks the class of a JAR's own exception, so Spark reports nothing of it.
        return "a function has thrown an exception of its JAR's own; see the log of the executor"
    return one_line(message)
