"""The ledger of replicate: successive ranges of offsets of each topic partition.

They are numbered, since offsets repeat if somebody sets a pointer back.

A range is pinned before any of it is written, and a run after a crash repeats the same range in the
same way. Its `attempt` is the fencing number, as in the ledger of pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import LockLost, TidemarkError
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings

_TABLE = "offset_range"
NO_POINTER = -1
"""The pointer of a topic partition that has none."""


class RangeState(StrEnum):
    """The state of a range; SUPERSEDED if another replicator has moved the pointer on."""

    RUNNING = "running"
    DONE = "done"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class Range:
    """A range of offsets.

    Attributes:
        partition: its topic partition.
        number: its number among the ranges of the partition, from 1.
        first: the first offset.
        end: the offset after the last one.
        batch: how its actions are folded.
        write_time_base: added to an offset it gives the write time, in microseconds.
        pointer_before: the pointer before the range; NO_POINTER if there was none.
        pointer_after: the pointer after it, below the oldest record in quarantine.
        raised_from: the pointer before, while a run raises it; else NO_POINTER.
        attempt: how often it was begun.
    """

    partition: TopicPartition
    number: int
    first: int
    end: int
    batch: ActionBatch
    write_time_base: int
    pointer_before: int
    pointer_after: int
    attempt: int = 0
    raised_from: int = NO_POINTER

    @property
    def last_write_time(self) -> int:
        """Return the newest write time of its writes."""
        return self.write_time_base + self.end - 1


@dataclass(frozen=True)
class Entry:
    """The ledger's newest range of a topic partition."""

    range: Range
    state: RangeState


class Ranges:
    """The ledger of the ranges of a run's journal keyspace."""

    def __init__(self, run: RunContext) -> None:
        """Bind to the run, whose owner and id are recorded."""
        self._run = run
        self._keyspace = run.settings.kafka_journal_keyspace
        self._table = table(run.settings.keyspace, _TABLE)

    def start(self, ranges: Iterable[Range]) -> list[Range]:
        """Record that ranges begin; return them with their new attempt.

        Raises:
            LockLost: another run has begun one of them since it was read.
        """
        started = [replace(r, attempt=r.attempt + 1) for r in ranges]
        new = [r for r in started if r.attempt == 1]
        restarted = [r for r in started if r.attempt > 1]
        names = [*_KEY, *_FIXED, *_PINNED, *_ATTEMPT]
        self._write(
            f"INSERT INTO {self._table} ({', '.join(names)})"
            f" VALUES ({', '.join('?' * len(names))}) IF NOT EXISTS",
            new,
            lambda r: (*self._key(r), *_fixed(r), *_pinned(r), *self._attempt(r)),
        )
        self._write(
            f"UPDATE {self._table} SET {_set(_PINNED)}, {_set(_ATTEMPT)} WHERE {_WHERE}"
            " IF attempt = ?",
            restarted,
            lambda r: (
                *_pinned(r),
                *self._attempt(r),
                *self._key(r),
                r.attempt - 1,
            ),
        )
        return started

    def finish(self, ranges: Mapping[Range, Mapping[str, int]]) -> None:
        """Record that ranges are replicated, including their pointers; each with its counts.

        Raises:
            LockLost: another run has taken one of them over.
        """
        self._close(ranges, RangeState.DONE, ranges)

    def supersede(self, ranges: Iterable[Range]) -> None:
        """Close ranges of dead runs that the pointer has left.

        Raises:
            LockLost: another run has taken one of them over.
        """
        # The pointers that they had pinned are not those of now.
        abandoned = [replace(r, pointer_after=r.end - 1) for r in ranges]
        self._close(self.start(abandoned), RangeState.SUPERSEDED, {})

    def raise_pointers(self, raised: Iterable[Range]) -> None:
        """Record the present pointers of the newest ranges, and the former ones."""
        self._run.control.execute_many(
            f"UPDATE {self._table} SET pointer_after = ?, raised_from = ? WHERE {_WHERE}",
            [(r.pointer_after, r.raised_from, *self._key(r)) for r in raised],
        )

    def _close(
        self,
        ranges: Iterable[Range],
        state: RangeState,
        counts: Mapping[Range, Mapping[str, int]],
    ) -> None:
        self._write(
            f"UPDATE {self._table} SET state = ?, counts = ?, finished_at = ? WHERE {_WHERE}"
            " IF attempt = ? AND owner = ?",
            list(ranges),
            lambda r: (
                *(state.value, dict(counts.get(r, {})), clock.now(), *self._key(r)),
                *(r.attempt, self._run.owner),
            ),
        )

    def _write(
        self,
        cql: str,
        ranges: Sequence[Range],
        values: Callable[[Range], Sequence[object]],
    ) -> None:
        """Execute a lightweight transaction for each range, many at a time."""
        rows = [values(r) for r in ranges]
        answers = conditional.applied_to_each(self._run.control, cql, rows)
        for r, is_applied in zip(ranges, answers, strict=True):
            if not is_applied:
                raise LockLost(
                    f"another run works on {r.partition} from offset {r.first}",
                    where=f"owner {self._run.owner}",
                    do="nothing more was written; run again",
                )

    def _key(self, r: Range) -> tuple[object, ...]:
        return self._keyspace, r.partition.topic, r.partition.partition, r.number

    def _attempt(self, r: Range) -> tuple[object, ...]:
        run = self._run
        return RangeState.RUNNING.value, r.attempt, run.owner, run.run_id, clock.now()


_KEY = ("journal_keyspace", "topic", "partition", "number")
_WHERE = " AND ".join(f"{name} = ?" for name in _KEY)
_FIXED = ("first_offset", "end_offset", "at", "zone", "segment_size", "write_time_base")
_PINNED = ("pointer_before", "pointer_after")
_ATTEMPT = ("state", "attempt", "owner", "run_id", "started_at")


def _set(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = ?" for name in names)


def _fixed(r: Range) -> tuple[object, ...]:
    batch = r.batch
    return r.first, r.end, batch.at, batch.zone, batch.segment_size, r.write_time_base


def _pinned(r: Range) -> tuple[object, ...]:
    return r.pointer_before, r.pointer_after


def newest(
    control: Control, settings: Settings, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Entry]:
    """Read the newest range of each partition that has one; none before the first run."""
    if control.table_columns(settings.keyspace, _TABLE) is None:
        return {}
    tps = list(partitions)
    rows_by_tp = control.execute_many(
        # All columns, since a table of an earlier release has fewer.
        f"SELECT * FROM {table(settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND topic = ? AND partition = ? LIMIT 1",
        [(settings.kafka_journal_keyspace, tp.topic, tp.partition) for tp in tps],
    )
    return {
        tp: Entry(_range(tp, row), RangeState(row["state"]))
        for tp, rows in zip(tps, rows_by_tp, strict=True)
        for row in rows
    }


def _range(partition: TopicPartition, row: Row) -> Range:
    first, end = row["first_offset"], row["end_offset"]
    before, after = row.get("pointer_before"), row.get("pointer_after")
    return Range(
        partition,
        row["number"],
        first,
        end,
        ActionBatch(row["at"].replace(tzinfo=UTC), row["zone"], row["segment_size"]),
        row["write_time_base"],
        # Rows of earlier releases lack them: their pointers were at the ends of their ranges.
        first - 1 if before is None else before,
        end - 1 if after is None else after,
        row["attempt"],
        NO_POINTER if row.get("raised_from") is None else row["raised_from"],
    )


def require_ended(run: RunContext, partitions: Iterable[TopicPartition]) -> None:
    """Require that no range of partitions is begun and not ended.

    Raises:
        TidemarkError: for the first such partition.
    """
    for tp, entry in newest(run.control, run.settings, partitions).items():
        if entry.state is RangeState.RUNNING:
            raise TidemarkError(
                f"a run of replicate has begun offsets {entry.range.first} to"
                f" {entry.range.end - 1} and not ended",
                where=str(tp),
                do="run replicate first",
            )
