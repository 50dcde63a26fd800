"""Failures of Spark jobs that the rows or the user's query have caused, not the cluster."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PythonException,
    SparkRuntimeException,
)

from tidemark.errors import is_of_session

_SPARKS = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PythonException,
    SparkRuntimeException,
)
_JVMS = re.compile(
    r"org\.apache\.spark\.api\.python\.PythonException"
    r"|org\.apache\.spark\.Spark(Arithmetic|ArrayIndexOutOfBounds|DateTime|NumberFormat|Runtime)"
    r"Exception"
    r"|java\.lang\.(Arithmetic|NumberFormat|Runtime)Exception|java\.time\.[.\w]*Exception"
)
"""The JVM's causes of such failures: the user's Python, `raise_error`, arithmetic."""
_WORKER_LOST = "Python worker exited unexpectedly"
"""Spark's text for a worker that was killed, as for its memory; not for a lost executor."""


def is_of_rows(error: Exception) -> bool:
    """Return whether the rows or the query have caused the failure of a Spark job."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            if str(cause.getMessage()).startswith(_WORKER_LOST):
                return True
            cause = cause.getCause()
        is_of_job = _JVMS.fullmatch(cause.getClass().getName()) is not None
        return is_of_job and not is_of_session(str(cause.getMessage()))
    return isinstance(error, _SPARKS) and not is_of_session(str(error))
