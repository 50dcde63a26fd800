"""Unforeseen errors in one line."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from tidemark.errors import (
    InvalidInput,
    LockHeld,
    SchemaMismatch,
    TidemarkError,
    all_of,
    outage_of,
    root_cause,
)


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
    ("errors", "status"),
    [
        ([InvalidInput("first", where="a.sql:1", do="correct it"), SchemaMismatch("second")], 2),
        ([SchemaMismatch("second"), LockHeld("it is held\nby another", do="wait")], 1),
    ],
)
def test_several_errors_are_a_line_each_and_may_be_retried_if_one_may(
    errors: Sequence[TidemarkError], status: int
) -> None:
    several = all_of(errors)
    for copy in (several, pickle.loads(pickle.dumps(several))):
        assert str(copy).split("\n") == [str(error) for error in errors]
        assert copy is not None
        assert copy.exit_status == status
    assert all_of(errors[:1]) is errors[0]
    assert all_of([]) is None


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
    ("text", "remedy"),
    [
        (
            "PSQLException: ERROR: canceling statement due to statement timeout",
            "a longer statement_timeout,",
        ),
        (
            "org.postgresql.util.PSQLException: FATAL: terminating connection due to"
            " idle-in-transaction timeout",
            "a longer idle_in_transaction_session_timeout,",
        ),
        (
            "tidemark.errors.InvalidInput: permission denied for table event_journal; GRANT",
            "GRANT the right",
        ),
        ("org.postgresql.util.PSQLException: FATAL: it ends", "check that its server is up"),
    ],
)
def test_spark_job_that_postgresql_failed_says_what_to_do(text: str, remedy: str) -> None:
    cause = JavaError(f"org.apache.spark.SparkException: Job aborted: {text}")
    outage = outage_of(FailedJob(JavaError("Job aborted", cause)))
    assert outage is not None
    assert str(outage).startswith(f"PostgreSQL failed a Spark job: {text.split(': ', 1)[1]}")
    assert remedy in outage.do


def unwritten(latest: str) -> FailedJob:
    """Return the connector's error about rows that executors could not write."""
    text = (
        "java.io.IOException: Failed to write statements to shop.latest. The\n"
        f"latest exception was\n  {latest}\n\n"
        "Please check the executor logs for more exceptions and information\n"
    )
    return FailedJob(JavaError("org.apache.spark.SparkException: Job aborted", JavaError(text)))


@pytest.mark.parametrize(
    "latest",
    [
        "Cassandra timeout during SIMPLE write query at consistency QUORUM (2 replica were required"
        " but only 1 acknowledged the write)",
        "Not enough replicas available for query at consistency QUORUM (2 required but only 1"
        " alive)",
        "All 1 node(s) tried for the query failed (showing first 1 nodes): Node(...)",
        "Query timed out after PT2M",
    ],
)
def test_rows_that_cassandra_does_not_take_are_told_with_the_last_of_the_reasons(
    latest: str,
) -> None:
    assert str(outage_of(unwritten(latest))) == (
        f"Cassandra failed a Spark job: rows of shop.latest cannot be written: {latest};"
        " check that its servers are up, and run again"
    )


def test_a_batch_that_is_too_large_for_cassandra_is_told_with_the_setting() -> None:
    assert str(outage_of(unwritten("Batch too large"))) == (
        "Cassandra failed a Spark job: rows of shop.latest cannot be written: Batch too large;"
        " set TIDEMARK_CASSANDRA_BATCH_SIZE below its batch_size_fail_threshold"
    )


def test_rows_that_are_refused_while_cassandra_is_up() -> None:
    error = unwritten("unconfigured table latest")
    assert outage_of(error) is None
    assert root_cause(error) == "rows of shop.latest cannot be written: unconfigured table latest"


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
    assert outage_of(error) is None


def test_spark_job_that_was_stopped_because_a_lock_was_lost() -> None:
    text = "Job 24 cancelled as part of cancellation of all jobs"
    error = FailedJob(JavaError(f"org.apache.spark.SparkException: {text}"))
    assert root_cause(error) == (
        "a lock was lost, and the jobs of Spark were stopped for it;"
        " nothing more was written; run again"
    )


def test_certificate_that_the_connector_refuses_is_told_with_its_node() -> None:
    text = (
        "com.datastax.oss.driver.api.core.AllNodesFailedException: Could not reach any contact"
        " point, make sure you've provided valid addresses (showing first 1 nodes, use"
        " getAllErrors() for more): Node(endPoint=localhost/127.0.0.1:33783, hostId=null,"
        " hashCode=1d64fc1d): [com.datastax.oss.driver.api.core.connection.ConnectionInitException:"
        " [s2|control|id: 0xf8b89792] Protocol initialization request, step 1 (OPTIONS): failed to"
        " send request (javax.net.ssl.SSLHandshakeException: No subject alternative DNS name"
        " matching localhost found.)]"
    )
    told = str(outage_of(FailedJob(JavaError("a job", JavaError(text)))))
    assert told.startswith(
        "the certificate of Cassandra is refused by a Spark job: No subject alternative DNS name"
        " matching localhost found (localhost/127.0.0.1:33783); check that the certificate"
    )


def test_store_that_a_machine_of_spark_does_not_have() -> None:
    missing = JavaError("java.nio.file.NoSuchFileException: /tls/authority.p12")
    context = JavaError("java.lang.IllegalStateException: Cannot initialize SSL Context", missing)
    told = str(outage_of(FailedJob(JavaError("a job", context))))
    assert told.startswith(
        "a machine of Spark cannot use the stores of TLS: java.nio.file.NoSuchFileException:"
        " /tls/authority.p12; put TIDEMARK_CASSANDRA_SSL_TRUSTSTORE"
    )


def test_hosts_of_several_data_centers() -> None:
    cause = "requirement failed: Contact points contain multiple data centers: dc2, dc1"
    several = JavaError(f"java.lang.IllegalArgumentException: {cause}")
    told = str(outage_of(FailedJob(JavaError("Failed to open native connection", several))))
    assert told == (
        "Spark does not know which data centre to ask, the hosts are of dc2, dc1"
        " (TIDEMARK_CASSANDRA_HOSTS); set TIDEMARK_CASSANDRA_LOCAL_DC, or give hosts of one of them"
    )
