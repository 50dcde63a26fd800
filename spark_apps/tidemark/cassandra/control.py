"""The session for single statements by the Python driver, with one-line errors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import islice
from types import TracebackType
from typing import Any, Self

from cassandra import InvalidRequest
from cassandra.cluster import NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from cassandra.connection import ConnectionException
from cassandra.query import BatchStatement, BatchType, PreparedStatement, SimpleStatement

from tidemark.cassandra import serialized
from tidemark.cassandra.cluster import (
    EVERYWHERE,
    ONCE,
    clock_offsets,
    cluster,
    data_centers,
    require_data_center,
)
from tidemark.cassandra.failures import Failures
from tidemark.cassandra.rate import WriteRate
from tidemark.settings import Settings
from tidemark.write_times import WriteTimes

Row = dict[str, Any]
CONCURRENCY = 32
_PAGE_ROWS = 100
_PREPARED = 1000
"""The most prepared statements that a session keeps: the most recently used."""


class Control:
    """A session for DDL, locks, the ledger and other single statements. Rows are dicts.

    Every method that sends a statement, and every function that calls such a method, raises
    CassandraUnavailable when the statement fails or times out; their docstrings do not repeat it.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect.

        Raises:
            CassandraUnavailable: no contact point answers or is known.
            InvalidInput: certificates, credentials or the data centre cannot be used.
        """
        # The driver logs with a traceback what Tidemark reports in one line.
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)
        hosts = settings.cassandra_hosts
        if "cassandra_hosts" not in settings.model_fields_set:
            hosts += ", since TIDEMARK_CASSANDRA_HOSTS is not set"
        self._failures = Failures(hosts, settings)
        self._rate = WriteRate(settings.write_rate)
        self.write_times = WriteTimes()
        with self._failures.in_one_line():
            self._cluster = cluster(settings, self.write_times)
        try:
            with self._failures.of_connecting():
                self._session = self._connect(settings)
        except BaseException:
            self._cluster.shutdown()
            raise
        # Users' statements may all have different texts.
        self._prepare = lru_cache(_PREPARED)(self._session.prepare)

    def _connect(self, settings: Settings) -> Session:
        try:
            session = self._cluster.connect()
        except NoHostAvailable:
            # With a data centre that does not exist, the driver connects to no node.
            require_data_center(self._cluster, settings)
            raise
        require_data_center(self._cluster, settings)
        return session

    def data_centers(self) -> list[str]:
        """Return the names of the cluster's data centres, even those without a running node."""
        return data_centers(self._cluster)

    def __enter__(self) -> Self:
        """Return the session, which the end of the block closes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session."""
        self.close()

    def stop_writing(self) -> None:
        """End all waiting for the write rate, because a lock was lost."""
        self._rate.stop()

    def close(self) -> None:
        """Close all connections."""
        self._cluster.shutdown()

    def execute(self, cql: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one prepared statement with bound values and return all of its rows.

        `cql` is a constant, or built only from validated identifiers (`tidemark.cassandra.schema`).
        """
        with self._failures.in_one_line():
            return list(self._session.execute(self._prepare(cql), values))

    def refusal(self, cql: str) -> str:
        """Return why Cassandra rejects a user's statement; empty if it accepts the statement."""
        with self._failures.in_one_line():
            try:
                self._prepare(cql)
            except InvalidRequest as error:
                return str(error).rpartition("message=")[2].strip('"')
        return ""

    def execute_named(
        self, cql: str, values: Mapping[str, object], timeout: float, most: int | None = None
    ) -> list[Row]:
        """Run a user's statement, maybe twice; return its rows, or only the first `most`.

        Values of type `serialized.Serialized` are bound unchanged.
        """
        with self._failures.in_one_line():
            bound = serialized.bound(self._prepare(cql), values)
            bound.fetch_size = most or bound.fetch_size
            return list(islice(self._session.execute(bound, timeout=timeout), most))

    def execute_serialized(
        self, cql: str, values: Mapping[str, object], timeout: float
    ) -> list[dict[str, serialized.Serialized | None]]:
        """Run a statement as `execute_named` does; return its rows as the bytes of their cells."""
        with self._failures.in_one_line():
            bound = serialized.bound(self._prepare(cql), values)
            return list(self._serialized_session.execute(bound, timeout=timeout))

    @cached_property
    def _serialized_session(self) -> Session:
        session = self._cluster.connect()
        session.client_protocol_handler = serialized.SerializedRows
        return session

    def stream(
        self, cql: str, values: Sequence[object] = (), *, page: int = _PAGE_ROWS
    ) -> Iterator[Row]:
        """Run one prepared statement and yield its rows, with one page of rows in memory.

        Rows may be large, and the server keeps a page in memory, so pages are small by default.
        """
        with self._failures.in_one_line():
            statement = self._prepare(cql).bind(values)
            statement.fetch_size = page
            yield from self._session.execute(statement)

    def page(
        self, cql: str, values: Sequence[object] = (), *, limit: int, state: bytes | None = None
    ) -> tuple[list[Row], bytes | None]:
        """Run one prepared statement; return some rows, and the paging state of those after them.

        Args:
            cql: the statement.
            values: its values.
            limit: the most rows.
            state: the paging state that the page before has returned; None for the first page.
        """
        with self._failures.in_one_line():
            statement = self._prepare(cql).bind(values)
            statement.fetch_size = limit
            result = self._session.execute(statement, paging_state=state)
            return list(result.current_rows), result.paging_state

    def write_time(self) -> int:
        """Return a write timestamp in microseconds, later than that of every earlier statement.

        A write with this timestamp survives the session's earlier deletes, on whatever machine and
        whatever its clock.
        """
        return self.write_times()

    def newest_write_time(self, name: str, column: str, key: Mapping[str, object]) -> int:
        """Return when a column of a partition was last written, in microseconds; 0 for never.

        `name` is the quoted name of the table (`cassandra.schema.table`), `key` the partition key.
        """
        conditions = " AND ".join(f"{part} = ?" for part in key)
        [row] = self.execute(
            f"SELECT max(writetime({column})) AS newest FROM {name} WHERE {conditions}",
            list(key.values()),
        )
        return int(row["newest"] or 0)

    def clock_offsets(self) -> dict[str, float]:
        """Return by how many seconds nodes' clocks are ahead of this machine's, by address."""
        with self._failures.in_one_line():
            return clock_offsets(self._session)

    def execute_ddl(self, cql: str) -> None:
        """Run one schema statement, which Cassandra cannot prepare.

        Returns when all running nodes have the change, or after 10 s without agreement. All clients
        send schema statements to the same node: before Cassandra 5.1, two nodes that create a table
        at once give it two ids.
        """
        with self._failures.in_one_line():
            nodes = self._session.get_pool_state()
            node = min(nodes, key=lambda host: str(host.endpoint), default=None)
            future = self._session.execute_async(SimpleStatement(cql), host=node)
            future.result()
            # The driver waits only if the answer reports a change, and then clears this mark.
            # A statement that was sent twice may report none because the first took effect.
            if future.is_schema_agreed:
                with suppress(ConnectionException):
                    self._cluster.control_connection.wait_for_schema_agreement(future._connection)

    def applied(self, cql: str, values: Sequence[object]) -> tuple[bool, Row]:
        """Run one lightweight transaction; return whether it was applied, and the row it met."""
        with self._failures.in_one_line():
            statement = self._prepare(cql)
            row = self._session.execute(statement, values, execution_profile=ONCE).one()
            return bool(row.pop("[applied]")), row

    def applied_everywhere(
        self, cql: str, values: Iterable[Sequence[object]], *, timeout: float | None = None
    ) -> list[tuple[bool, Row]]:
        """Run a lightweight transaction for each set of values, each on a separate partition.

        The transactions commit at QUORUM and may be sent twice, so a caller must recognize its own
        row. After an error, other transactions may have been applied. `timeout` is the seconds for
        one transaction; by default those of the settings.
        """
        with self._failures.in_one_line():
            limit = {} if timeout is None else {"request_timeout": timeout}
            profile = self._session.execution_profile_clone_update(EVERYWHERE, **limit)
            results = execute_concurrent_with_args(
                self._session,
                self._prepare(cql),
                list(values),
                concurrency=CONCURRENCY,
                execution_profile=profile,
            )
            rows = [result.one() for _, result in results]
            return [(bool(row.pop("[applied]")), row) for row in rows]

    def read_everywhere(self, cql: str) -> list[Row]:
        """Read at QUORUM, to see the writes of `applied_everywhere` in any data centre."""
        with self._failures.in_one_line():
            return list(self._session.execute(self._prepare(cql), execution_profile=EVERYWHERE))

    def execute_many(
        self, cql: str, values: Iterable[Sequence[object]], *, concurrency: int = CONCURRENCY
    ) -> list[list[Row]]:
        """Run one prepared statement for each set of values; return the rows of each in order.

        At most `concurrency` statements run at the same time. Writes keep to the rate of the
        settings. The first failure ends the call.

        Raises:
            LockLost: while waiting for the rate; the run must not write any more.
        """
        with self._failures.in_one_line():
            prepared = self._prepare(cql)
            is_read = cql.startswith("SELECT ")
            return [
                list(result)
                for part in ([list(values)] if is_read else self._rate.parts(values))
                for _, result in execute_concurrent_with_args(
                    self._session, prepared, part, concurrency=concurrency
                )
            ]

    def execute_batches(
        self, cql: str, batches: Iterable[Sequence[Sequence[object]]]
    ) -> list[list[Row]]:
        """Run one prepared statement for each set of values, in one unlogged batch per sequence.

        A batch must stay inside one partition and below the server's batch_size_fail_threshold.
        Batches keep to the rate of the settings. The first failure ends the call.

        Raises:
            LockLost: as in `execute_many`.
        """
        with self._failures.in_one_line():
            prepared = self._prepare(cql)
            return [
                list(result)
                for part in self._rate.parts(batches, len)
                for _, result in execute_concurrent(
                    self._session, [(_batch(prepared, rows), ()) for rows in part], CONCURRENCY
                )
            ]

    def execute_together(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        """Run statements with their values as one logged batch: either all are applied, or none.

        They may write to several tables, keyspaces and partitions. After an error, all of them may
        still be applied.
        """
        with self._failures.in_one_line():
            batch = BatchStatement(BatchType.LOGGED)
            for cql, values in statements:
                batch.add(self._prepare(cql), values)
            self._session.execute(batch)

    def transactions(
        self, cql: str, batches: Iterable[Sequence[Sequence[object]]]
    ) -> list[list[Row]]:
        """Run a conditional statement in batches of one partition, one batch after the other.

        Each batch is one lightweight transaction, applied completely or not at all; the answer to a
        batch that is not applied has the rows that its conditions met. Concurrent transactions on
        one partition would only contend with each other, and the server gives up a transaction that
        contends for too long (cas_contention_timeout, 1.8 s by default). The first failure ends the
        call; the failed batch may have been applied.
        """
        with self._failures.in_one_line():
            prepared = self._prepare(cql)
            return [
                list(self._session.execute(_batch(prepared, values), execution_profile=ONCE))
                for values in batches
            ]

    def transaction(self, statements: Sequence[tuple[str, Sequence[object]]]) -> list[Row]:
        """Run statements on one partition as one lightweight transaction; some have conditions.

        It is applied completely or not at all, which the column `[applied]` in the first row of the
        answer says. If it is not applied, the rows are those that the conditions met.
        """
        with self._failures.in_one_line():
            batch = BatchStatement(BatchType.UNLOGGED)
            for cql, values in statements:
                batch.add(self._prepare(cql), values)
            return list(self._session.execute(batch, execution_profile=ONCE))

    def columns(self, keyspace: str, table: str) -> list[Row]:
        """Return `column_name`, `type`, `kind` and `position` of a table's columns, by position.

        There are no rows if there is no such table.
        """
        rows = self.execute(
            "SELECT column_name, type, kind, position FROM system_schema.columns"
            " WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, table),
        )
        return sorted(rows, key=lambda row: row["position"])

    def table_columns(self, keyspace: str, table: str) -> dict[str, str] | None:
        """Return the CQL types of a table by column name; None if there is no such table."""
        return {row["column_name"]: row["type"] for row in self.columns(keyspace, table)} or None

    def primary_key(self, keyspace: str, table: str) -> tuple[list[str], list[str]]:
        """Return the partition key and the clustering columns of a table, in order."""
        rows = self.columns(keyspace, table)
        return (
            [row["column_name"] for row in rows if row["kind"] == "partition_key"],
            [row["column_name"] for row in rows if row["kind"] == "clustering"],
        )

    def has_keyspace(self, keyspace: str) -> bool:
        """Return whether the keyspace exists."""
        cql = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?"
        return bool(self.execute(cql, (keyspace,)))


def _batch(prepared: PreparedStatement, rows: Sequence[Sequence[object]]) -> BatchStatement:
    batch = BatchStatement(BatchType.UNLOGGED)
    for values in rows:
        batch.add(prepared, values)
    return batch
