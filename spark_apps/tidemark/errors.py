"""The failures that Tidemark foresees, each with one line for people.

::

    TidemarkError                 exit status 1: a retry may help
    ├── CassandraUnavailable      1  unreachable, refused, timed out
    │   └── StatementRefused      1  a statement that does not fit the tables
    ├── KafkaUnavailable          1  unreachable, refused, timed out
    ├── PostgresUnavailable       1  unreachable, connection lost, timed out
    ├── PostgresRefused           1  a statement that fails for another reason
    │   └── RowRefused            1  a row that a constraint or a type rejects
    ├── RowsRefused               1  rows of single events that a target rejects
    ├── LockHeld                  1  another run works on the same piece
    ├── LockLost                  1  the run's own lock expired during the work
    ├── ExecutorLost              1  it had rows that must not be read twice
    ├── SeveralErrors             see `together`
    ├── InvalidInput              2  parameters, windows, settings
    │   └── DefinitionError       2  a projection file
    └── WrongData                 3  the data must be corrected first; no retry helps
        ├── SchemaMismatch           keyspace, table or column missing or of another shape
        ├── BucketSizeMismatch       tag views were built with another bucket size
        ├── JournalDamaged           the journal contradicts itself
        ├── HistoryPurged            events that are needed again were purged
        ├── TopicMoved               a topic does not continue at the recorded position
        ├── UnreadableRecord         a topic partition stops at a record
        └── ValidationFailed         findings that must stop the applications downstream
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath

from tidemark.installation import program

_TOO_LARGE = "Batch too large"
_OUTAGES = (
    "AllNodesFailedException",
    "Cassandra timeout during",
    "ClosedConnectionException",
    "Control channel not available",
    "DriverTimeoutException",
    "Failed to open native connection",
    "HeartbeatException",
    "NoNodeAvailableException",
    "NodeUnavailableException",
    "Not enough replicas available",
    "Query timed out after",
    "ReadTimeoutException",
    "UnavailableException",
    "WriteTimeoutException",
    "node(s) tried for the query failed",
)
"""Parts of the texts of the Java driver's errors when Cassandra does not answer."""
_WRITE = re.compile(r"Failed to write statements to (\S+)\. The\s+latest exception was\s+(.+)")
"""Matches the connector's error: the table, and the driver's text for the last row."""
_NO_CONTEXT = "Cannot initialize SSL Context"
_SEVERAL_DATA_CENTERS = re.compile(r"Contact points contain multiple data centers: (.*)")
_HANDSHAKE = re.compile(r"endPoint=([^,]+),.*?SSLHandshakeException: (.*?)\.?\)+\]")
"""Matches the Java driver's error: the node, and why its certificate is rejected."""
_OF_SESSION = r"tidemark\.errors\.(?:Postgres\w+|SchemaMismatch|InvalidInput(?=: permission))"
_POSTGRES = re.compile(rf"(?:PSQLException|{_OF_SESSION}): (.+)")
"""Matches an error of the JDBC driver, or of a session in a Python worker."""
_POSTGRES_TRACE = re.compile(rf"^{_OF_SESSION}: ", re.MULTILINE)
_POSTGRES_LIMIT = re.compile("due to (statement|lock|transaction|idle-in-transaction) timeout")
"""Matches an error of a server that limits statements or transactions."""
_KEPT_ROWS = re.compile(r"Checkpoint block \S+ not found!")
_STOPPED = "cancelled as part of cancellation of all jobs"
"""Part of Spark's text; only `RunContext.stop_jobs` cancels all jobs."""
_REASON_LENGTH = 2000


@dataclass(frozen=True)
class Remedy:
    """The run of an application that corrects the cause of a failure.

    Attributes:
        application: name of the application, such as `reconcile`.
        command: its command, if it has several.
        options: values by the option's name without leading dashes; a list repeats the option, and
            True means an option without a value.
        arguments: the words after the command, such as names of projections.
    """

    application: str
    command: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    def __str__(self) -> str:
        """Return the command line, for a shell."""
        words = [program(self.application)]
        if self.command:
            words.append(self.command)
        words += map(shlex.quote, self.arguments)
        for name, value in self.options.items():
            for word in value if isinstance(value, list) else [value]:
                words += [f"--{name}"] if word is True else [f"--{name}", shlex.quote(str(word))]
        return " ".join(words)


class TidemarkError(Exception):
    """A foreseen failure: what is wrong, where, and what to do about it.

    Attributes:
        what: the fault, in one clause without a full stop.
        where: the table, file, option or address of the fault; may be empty.
        do: the next step for the reader; may be empty.
        remedy: the run that is this next step, if it is a run.
    """

    exit_status = 1

    def __init__(
        self, what: str, *, where: str = "", do: str = "", remedy: Remedy | None = None
    ) -> None:
        super().__init__(what, where, do)
        self.what = what
        self.where = where
        self.do = do
        self.remedy = remedy

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        remedy = f"; {self.do}" if self.do else ""
        return " ".join(f"{self.what}{place}{remedy}".split())

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the attributes, since keyword-only arguments do not survive pickling."""
        return _rebuild, (type(self), self.what, self.where, self.do, self.remedy)

    def within(self, what: str) -> TidemarkError:
        """Return the same failure with `what` and a colon before its own text."""
        return _rebuild(type(self), f"{what}: {self.what}", self.where, self.do, self.remedy)


def _rebuild(
    kind: type[TidemarkError], what: str, where: str, do: str, remedy: Remedy | None
) -> TidemarkError:
    return kind(what, where=where, do=do, remedy=remedy)


def together(what: str, statuses: Iterable[int]) -> TidemarkError:
    """Combine failures with these exit statuses into one, which may be retried if any of them may.

    `what` describes all failures in one line.
    """
    kinds = {kind.exit_status: kind for kind in (WrongData, InvalidInput, TidemarkError)}
    return kinds[min(statuses)](what)


def root_cause(error: BaseException) -> str:
    """Return an unforeseen error as one line; for a failed Spark job, the JVM's own cause."""
    outage = outage_of(error)
    return str(outage) if outage else _cause(error)


def outage_of(error: BaseException) -> TidemarkError | None:
    """Return a Spark job's error as a foreseen one: a lost lock or executor, or an outage."""
    cause = _cause(error)
    causes = _causes(error)
    if ended := _ended([cause, *causes]):
        return ended
    if any(_NO_CONTEXT in text for text in causes):
        return CassandraUnavailable(
            f"a machine of Spark cannot use the stores of TLS: {cause}",
            do="put TIDEMARK_CASSANDRA_SSL_TRUSTSTORE and TIDEMARK_CASSANDRA_SSL_KEYSTORE at the"
            " same path on every machine of Spark",
        )
    if handshake := _HANDSHAKE.search(cause):
        return CassandraUnavailable(
            f"the certificate of Cassandra is refused by a Spark job: {handshake[2]}",
            where=handshake[1],
            do="check that the certificate has this name and that its authority is in"
            " TIDEMARK_CASSANDRA_SSL_TRUSTSTORE on every machine of Spark",
        )
    if match := _SEVERAL_DATA_CENTERS.search(cause):
        return CassandraUnavailable(
            f"Spark does not know which data centre to ask, the hosts are of {match[1]}",
            where="TIDEMARK_CASSANDRA_HOSTS",
            do="set TIDEMARK_CASSANDRA_LOCAL_DC, or give hosts of one of them",
        )
    is_too_large = _TOO_LARGE in cause
    if not is_too_large and not any(outage in cause for outage in _OUTAGES):
        return None
    remedy = "check that its servers are up, and run again"
    if is_too_large:
        remedy = "set TIDEMARK_CASSANDRA_BATCH_SIZE below its batch_size_fail_threshold"
    return CassandraUnavailable(f"Cassandra failed a Spark job: {cause}", do=remedy)


def _ended(causes: list[str]) -> TidemarkError | None:
    """Return the error of a job that was cancelled, lost kept rows, or failed in PostgreSQL."""
    for match in filter(None, map(_POSTGRES.search, causes)):
        return PostgresUnavailable(
            f"PostgreSQL failed a Spark job: {match[1]}",
            do=postgres_remedy(match[1])
            or "check that its server is up and has the tables, and run again",
        )
    if any(_KEPT_ROWS.search(text) for text in causes):
        return ExecutorLost(
            "an executor of Spark has ended, and with it rows that must not be read twice",
            do="nothing is half-done; run again",
        )
    if any(_STOPPED in text for text in causes):
        return LockLost(
            "a lock was lost, and the jobs of Spark were stopped for it",
            do="nothing more was written; run again",
        )
    return None


def is_of_session(trace: str) -> bool:
    """Return whether a Python worker's trace ends with the failure of a session of PostgreSQL.

    A text that only quotes such a failure, as that of a user's error may, is none.
    """
    return _POSTGRES_TRACE.search(trace) is not None


def postgres_remedy(text: str) -> str | None:
    """Return what to do about a right or a limit that made PostgreSQL fail; else None."""
    if limit := _POSTGRES_LIMIT.search(text):
        name = "idle_in_transaction_session" if "-" in limit[1] else limit[1]
        return (
            f"give the user of the connection a longer {name}_timeout, such as by ALTER ROLE ..."
            f" SET {name}_timeout = 0, and run again"
        )
    if "permission denied" in text:
        return "GRANT the right to the user of the connection, and run again"
    return None


def _cause(error: BaseException) -> str:
    # A JVM that has ended gives no cause; then the result is the error's type.
    with suppress(Exception):
        text = [f"{type(error).__name__}: {error}", *_causes(error)][-1]
        if write := _WRITE.search(text):
            return f"rows of {write[1]} cannot be written: {write[2]}"
        return _python_cause(text) or text.splitlines()[0]
    return type(error).__name__


def _causes(error: BaseException) -> list[str]:
    """Return the texts of the JVM's causes, the innermost last; none if the JVM has ended."""
    texts = []
    with suppress(Exception):
        cause = getattr(error, "java_exception", None)
        while cause is not None:
            texts.append(str(cause.toString()))
            cause = cause.getCause()
    return texts


def reason_of(error: BaseException) -> str:
    """Return why a piece failed, in one line of a length that fits the ledger."""
    reason = str(error) if isinstance(error, TidemarkError) else root_cause(error)
    return reason[:_REASON_LENGTH]


def _python_cause(text: str) -> str:
    """Return the last line of a worker's traceback, with the innermost place of user code."""
    _, separator, trace = text.partition("Traceback (most recent call last):\n")
    if not separator:
        return ""
    messages = [line for line in trace.splitlines() if line and not line[0].isspace()]
    places = [
        f" ({PurePath(file).name}:{line})"
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace)
        if not {"pyspark", "pyspark.zip", "site-packages"}.intersection(PurePath(file).parts)
    ]
    return (messages[0] if messages else "") + (places[-1] if places else "")


class InvalidInput(TidemarkError):
    """Parameters, a window or settings that cannot be used."""

    exit_status = 2


class DefinitionError(InvalidInput):
    """A projection file that cannot be used; `where` has the file and the line."""


class CassandraUnavailable(TidemarkError):
    """Cassandra did not answer, refused the connection, or timed out."""


class StatementRefused(CassandraUnavailable):
    """Cassandra rejects a statement, however often it is sent."""


class KafkaUnavailable(TidemarkError):
    """Kafka did not answer, refused the connection, or timed out."""


class PostgresUnavailable(TidemarkError):
    """PostgreSQL did not answer, or the connection was lost."""


class PostgresRefused(TidemarkError):
    """PostgreSQL did not execute a statement."""


class RowRefused(PostgresRefused):
    """PostgreSQL rejects a row, because of a constraint or of the type of a column."""


class RowsRefused(TidemarkError):
    """A target rejects rows of a result; nothing of their batch is written.

    `causes` has the cause by persistence id and sequence nr of the event of each row.
    """

    def __init__(self, causes: Mapping[tuple[str, int], str], where: str) -> None:
        """Keep the causes."""
        (persistence_id, number), cause = min(causes.items())
        super().__init__(
            f"{where} rejects {len(causes):,} rows, such as that of {persistence_id} {number}:"
            f" {cause}"
        )
        self.causes = causes


class WrongData(TidemarkError):
    """Tables or rows must be corrected before a retry can help."""

    exit_status = 3


class SchemaMismatch(WrongData):
    """A keyspace, table or column is missing or has another shape than expected."""


class BucketSizeMismatch(WrongData):
    """The tag views were built with another bucket size than that of the settings."""


class JournalDamaged(WrongData):
    """The tables of the journal contradict each other, so that numbering would guess."""


class HistoryPurged(WrongData):
    """Events that a projection needs are no longer in the tag views."""


class TopicMoved(WrongData):
    """A topic partition does not continue at its pointer."""


class UnreadableRecord(WrongData):
    """A topic partition stops at a record that cannot be read."""


class LockHeld(TidemarkError):
    """Another run holds the lock of a piece; `what` says which run and since when."""


class LockLost(TidemarkError):
    """The run's lock expired or was taken; the run must not write any more."""


class ExecutorLost(TidemarkError):
    """An executor has ended with kept rows that may be different when they are read again."""


class ValidationFailed(WrongData):
    """Sequence continuity is broken; the applications downstream must not continue."""


NO_RETRY_HELPS = (InvalidInput, WrongData)
"""Failures of a single subject; any other may be an outage, which concerns every subject."""


class SeveralErrors(TidemarkError):
    """Independent failures; the text has a line for each."""

    def __init__(self, errors: Sequence[TidemarkError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = errors
        self.exit_status = together("", [error.exit_status for error in errors]).exit_status

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        return SeveralErrors, (self.errors,)


def all_of(errors: Sequence[TidemarkError]) -> TidemarkError | None:
    """Return several failures as one, a single failure unchanged, and None if there is none."""
    return SeveralErrors(errors) if len(errors) > 1 else next(iter(errors), None)
