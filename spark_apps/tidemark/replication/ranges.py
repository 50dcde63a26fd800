"""The ledger of replicate: ranges of offsets, one after the other, of each topic partition.

They are numbered, since offsets begin anew where somebody sets a pointer back.

A range is pinned before anything of it is written, and a run after a crash does the same range in
the same way. Its `attempt` is the fencing number, as in the ledger of pieces.
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
from tidemark.replication.folding import Batch
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.settings import Settings

_TABLE = "offset_range"
NO_POINTER = -1
"""The pointer of a topic partition that has none."""


class RangeState(StrEnum):
    """The state of a range. One is SUPERSEDED if another replicator has moved the pointer on."""

    RUNNING = "running"
    DONE = "done"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class Range:
    """A range of offsets.

    Attributes:
        partition: of which topic partition.
        number: its place among the ranges of the partition, from 1.
        first: the first offset.
        end: the offset behind the last one.
        batch: how its actions are folded.
        write_time_base: what offsets are added to for write times, in microseconds.
        pointer_before: the pointer before the range; NO_POINTER if there was none.
        pointer_after: the pointer after it, below the oldest record in quarantine.
        raised_from: the pointer before, while a run raises it; else NO_POINTER.
        attempt: how often it was begun.
    """

    partition: TopicPartition
    number: int
    first: int
    end: int
    batch: Batch
    write_time_base: int
    pointer_before: int
    pointer_after: int
    attempt: int = 0
    raised_from: int = NO_POINTER

    @property
    def last_write_time(self) -> int:
        """Return the newest write time of what it writes."""
        return self.write_time_base + self.end - 1


@dataclass(frozen=True)
class Entry:
    """The newest range of a topic partition, as the ledger has it."""

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
        begun = [replace(one, attempt=one.attempt + 1) for one in ranges]
        new = [one for one in begun if one.attempt == 1]
        again = [one for one in begun if one.attempt > 1]
        names = [*_KEY, *_FIXED, *_PINNED, *_ATTEMPT]
        self._write(
            f"INSERT INTO {self._table} ({', '.join(names)})"
            f" VALUES ({', '.join('?' * len(names))}) IF NOT EXISTS",
            new,
            lambda one: (*self._key(one), *_fixed(one), *_pinned(one), *self._attempt(one)),
        )
        self._write(
            f"UPDATE {self._table} SET {_set(_PINNED)}, {_set(_ATTEMPT)} WHERE {_WHERE}"
            " IF attempt = ?",
            again,
            lambda one: (
                *_pinned(one),
                *self._attempt(one),
                *self._key(one),
                one.attempt - 1,
            ),
        )
        return begun

    def finish(self, ranges: Mapping[Range, Mapping[str, int]]) -> None:
        """Record that ranges are replicated, their pointers included; each with its counts.

        Raises:
            LockLost: another run has taken one of them over.
        """
        self._close(ranges, RangeState.DONE, ranges)

    def supersede(self, ranges: Iterable[Range]) -> None:
        """Close ranges of dead runs that the pointer has left.

        Raises:
            LockLost: another run has taken one of them over.
        """
        # What they had pinned says nothing of where the pointer is now.
        lost = [replace(one, pointer_after=one.end - 1) for one in ranges]
        self._close(self.start(lost), RangeState.SUPERSEDED, {})

    def raise_pointers(self, raised: Iterable[Range]) -> None:
        """Record the pointers that the newest ranges have by now, and those that they had."""
        self._run.control.execute_many(
            f"UPDATE {self._table} SET pointer_after = ?, raised_from = ? WHERE {_WHERE}",
            [(one.pointer_after, one.raised_from, *self._key(one)) for one in raised],
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
            lambda one: (
                *(state.value, dict(counts.get(one, {})), clock.now(), *self._key(one)),
                *(one.attempt, self._run.owner),
            ),
        )

    def _write(
        self,
        cql: str,
        ranges: Sequence[Range],
        values: Callable[[Range], Sequence[object]],
    ) -> None:
        """Run a lightweight transaction for each range, many at a time."""
        rows = [values(one) for one in ranges]
        answers = conditional.applied_to_each(self._run.control, cql, rows)
        for one, is_applied in zip(ranges, answers, strict=True):
            if not is_applied:
                raise LockLost(
                    f"another run works on {one.partition} from offset {one.first}",
                    where=f"owner {self._run.owner}",
                    do="nothing more was written; run again",
                )

    def _key(self, one: Range) -> tuple[object, ...]:
        return self._keyspace, one.partition.topic, one.partition.partition, one.number

    def _attempt(self, one: Range) -> tuple[object, ...]:
        run = self._run
        return RangeState.RUNNING.value, one.attempt, run.owner, run.run_id, clock.now()


_KEY = ("journal_keyspace", "topic", "partition", "number")
_WHERE = " AND ".join(f"{name} = ?" for name in _KEY)
_FIXED = ("first_offset", "end_offset", "at", "zone", "segment_size", "write_time_base")
_PINNED = ("pointer_before", "pointer_after")
_ATTEMPT = ("state", "attempt", "owner", "run_id", "started_at")


def _set(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = ?" for name in names)


def _fixed(one: Range) -> tuple[object, ...]:
    batch = one.batch
    return one.first, one.end, batch.at, batch.zone, batch.segment_size, one.write_time_base


def _pinned(one: Range) -> tuple[object, ...]:
    return one.pointer_before, one.pointer_after


def newest(
    control: Control, settings: Settings, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Entry]:
    """Read the newest range of each partition that has one, before the first run none."""
    if control.table_columns(settings.keyspace, _TABLE) is None:
        return {}
    wanted = list(partitions)
    found = control.execute_many(
        # All columns: of an earlier release there are fewer.
        f"SELECT * FROM {table(settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND topic = ? AND partition = ? LIMIT 1",
        [(settings.kafka_journal_keyspace, one.topic, one.partition) for one in wanted],
    )
    return {
        one: Entry(_range(one, row), RangeState(row["state"]))
        for one, rows in zip(wanted, found, strict=True)
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
        Batch(row["at"].replace(tzinfo=UTC), row["zone"], row["segment_size"]),
        row["write_time_base"],
        # Rows of earlier releases lack them: there, pointers lay at the ends of their ranges.
        first - 1 if before is None else before,
        end - 1 if after is None else after,
        row["attempt"],
        NO_POINTER if row.get("raised_from") is None else row["raised_from"],
    )


def require_ended(run: RunContext, partitions: Iterable[TopicPartition]) -> None:
    """Refuse partitions of which a range is begun and not ended.

    Raises:
        TidemarkError: with the first of them.
    """
    for one, entry in newest(run.control, run.settings, partitions).items():
        if entry.state is RangeState.RUNNING:
            raise TidemarkError(
                f"a run of replicate has begun offsets {entry.range.first} to"
                f" {entry.range.end - 1} and not ended",
                where=str(one),
                do="run replicate first",
            )
