"""Unforeseen errors in one line."""

from __future__ import annotations

import pytest

from tidemark.errors import of_cassandra, root_cause


class JavaError:
    """An exception of the JVM, as py4j hands it over."""

    def __init__(self, text: str, cause: JavaError | None = None) -> None:
        self.text, self.cause = text, cause

    def toString(self) -> str:
        return self.text

    def getCause(self) -> JavaError | None:
        return self.cause


class FailedJob(Exception):
    """A failed Spark job."""

    def __init__(self, java_exception: JavaError) -> None:
        super().__init__("An error occurred while calling o12.save")
        self.java_exception = java_exception


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.IllegalStateException: Control channel not available, aborting schema refresh",
        "com.datastax.oss.driver.api.core.AllNodesFailedException: Could not reach any contact"
        " point\n\tat a trace",
    ],
)
def test_spark_job_that_cassandra_failed_says_so(text: str) -> None:
    error = FailedJob(JavaError("org.apache.spark.SparkException: Job aborted", JavaError(text)))
    assert root_cause(error) == (
        f"Cassandra failed a Spark job: {text.splitlines()[0]};"
        " check that its servers are up, and run again"
    )


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        # Its trace is of use: the server is up, and the statement is Tidemark's own.
        "com.datastax.oss.driver.api.core.servererrors.InvalidQueryException: no such table",
    ],
)
def test_spark_job_that_something_else_failed_has_its_own_cause(text: str) -> None:
    error = FailedJob(JavaError("a job", JavaError(text)))
    assert root_cause(error) == text
    assert of_cassandra(error) is None
