"""Failures of Spark as those of events."""

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
    """Make failures of Spark those of the event."""
    try:
        yield
    except PySparkException as error:
        termination.check()
        raise EventFailed(one_line(str(error))) from None
    except Py4JJavaError as error:
        termination.check()
        raise EventFailed(cause(error)) from None


def cause(error: Py4JJavaError) -> str:
    """Return what began a failure, in one line."""
    found = error.java_exception
    while found.getCause() is not None:
        found = found.getCause()
    # Exceptions out of users' functions need not have a message.
    told = str(found.getMessage() or found.toString())
    if "UnknownReason" in told:
        # The driver has no class of a JAR's own exception, and Spark then tells nothing of it.
        return "a function has thrown an exception of its JAR's own; see the log of the executor"
    return one_line(told)
