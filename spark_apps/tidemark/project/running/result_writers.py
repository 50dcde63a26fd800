"""Writers of a batch: result, then offsets; in PostgreSQL both in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import RowRefused, TidemarkError
from tidemark.postgres.transaction import Transaction, begun
from tidemark.project.definition.model import Mode
from tidemark.project.offset_store import consumption
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.postgres_offsets import PostgresOffsets
from tidemark.project.postgres import merges, shape, violations
from tidemark.project.postgres.fence import Fence
from tidemark.project.postgres.merges import Merge
from tidemark.project.postgres.place import STATES
from tidemark.project.postgres.staging import staged
from tidemark.project.transformation import state_times, transform
from tidemark.project.transformation.fold_start import HAS_MARKER
from tidemark.project.writing.mode import Counted, ResultWriter, WriteRequest
from tidemark.project.writing.write import MODES

_IDLE_S = 600
"""Seconds after which the server ends a transaction whose run hangs. Between two of its statements,
quarantined events are released, and offsets are staged."""
_batches = count(1)
"""Numbers of batches, different for each transaction under a fence."""


@dataclass(frozen=True)
class _Cassandra:
    """Writes rows as the mode does, and then the offsets, each of them idempotent."""

    offsets: OffsetStore

    def store(self, request: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
        """Write the rows as the mode does."""
        return MODES[request.definition.mode].store(request, rows, counted)

    def write_offsets(self, rows: DataFrame, now: datetime) -> None:
        """Write the offsets."""
        consumption.write_offsets(self.offsets, rows, now)


@dataclass
class _Postgres:
    """Merges rows in a transaction that stays open until the offsets are merged, too."""

    offsets: OffsetStore
    fence: Fence
    batch: int = field(default_factory=lambda: next(_batches))
    _staging: ExitStack = field(default_factory=ExitStack)
    _session: ExitStack = field(default_factory=ExitStack)
    _transaction: Transaction | None = None

    def store(self, request: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
        """Stage the rows, and merge them in a new transaction.

        Raises:
            RowsRefused: PostgreSQL rejects rows; nothing is written.
        """
        self.close()
        request.claimed.check()
        merge = self._merge(request, _columns(rows, request))
        request.claimed.check()
        transaction = self._begin()
        try:
            for text, values in merge.steps(request.definition.mode):
                transaction.execute(text, values)
        except RowRefused as error:
            self._roll_back()
            raise violations.found(self.fence, merge, request.definition, error) from error
        return counted

    def write_offsets(self, rows: DataFrame, now: datetime) -> None:
        """Merge the offsets, and commit them together with the rows.

        Raises:
            LockLost: another run has begun; nothing is written.
            PostgresUnavailable: nothing is written, or nobody knows, and the next run finds out.
        """
        place = self.offsets.place
        assert isinstance(place, PostgresOffsets)  # noqa: S101 - the target is in PostgreSQL
        offsets = self._staging.enter_context(staged(self.fence, rows))
        transaction = self._transaction or self._begin()
        place.merge(transaction, self.fence.projection_id, offsets, now)
        transaction.commit(lambda opened: self.fence.has_committed(opened, self.batch))
        self.close()

    def close(self) -> None:
        """Roll back what is not committed, and then drop the staging tables."""
        self._roll_back()
        self._staging.close()

    def _roll_back(self) -> None:
        self._transaction = None
        self._session.close()

    def _begin(self) -> Transaction:
        place = self.fence.place
        self._transaction = self._session.enter_context(begun(place.connection, idle_s=_IDLE_S))
        self.fence.hold(self._transaction, self.batch)
        return self._transaction

    def _merge(self, request: WriteRequest, rows: DataFrame) -> Merge:
        place, definition = self.fence.place, request.definition
        found = shape.read(place)
        if found is None:
            raise TidemarkError(f"the table {definition.target} was dropped", do="create it again")
        sent = self._staging.enter_context(staged(self.fence, rows))
        return Merge(
            place.target,
            {name: found.types[name] for name in rows.columns if name in found.types},
            found.primary_key,
            sent.table,
            sent.attempts,
            place.own(STATES),
            self.fence.projection_id,
            definition.version,
            [*request.time_buckets],
            merges.IS_DELETED in rows.columns,
        )


def _columns(rows: DataFrame, request: WriteRequest) -> DataFrame:
    """Return the rows with the columns of the table, and those that a merge needs."""
    if request.definition.mode is Mode.FOLD:
        generation = state_times.generation_of(F.col(transform.WRITE_TIME))
        rows = rows.withColumn(merges.GENERATION, generation)
    return rows.drop(transform.WRITE_TIME, HAS_MARKER)


@contextmanager
def writer_of(store: OffsetStore) -> Iterator[ResultWriter]:
    """Yield the writer of a batch; the end of the block rolls back what is not committed."""
    if store.fence is None:
        yield _Cassandra(store)
        return
    writer = _Postgres(store, store.fence)
    try:
        yield writer
    finally:
        writer.close()
