"""The ledger of replicate: ranges of offsets, one after the other, of each topic partition.

They are numbered, since offsets begin anew where somebody sets a pointer back.

A range is pinned before anything of it is written, and a run after a crash does the same range in
the same way. Its `attempt` is the fencing number, as in the ledger of pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import LockLost, TidemarkError
from tidemark.ledger.piece import State
from tidemark.replication.fold import Batch
from tidemark.replication.kafka.topics import TopicPartition

_TABLE = "offset_range"


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
        attempt: how often it was begun.
    """

    partition: TopicPartition
    number: int
    first: int
    end: int
    batch: Batch
    write_time_base: int
    attempt: int = 0

    @property
    def last_write_time(self) -> int:
        """Return the newest write time of what it writes."""
        return self.write_time_base + self.end - 1


@dataclass(frozen=True)
class Entry:
    """The newest range of a topic partition, as the ledger has it."""

    range: Range
    is_done: bool


class Ranges:
    """The ledger of the ranges of a run's journal keyspace."""

    def __init__(self, run: RunContext) -> None:
        """Bind to the run, whose owner and id are recorded."""
        self._run = run
        self._table = table(run.settings.keyspace, _TABLE)

    def newest(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Entry]:
        """Read the newest range of each partition that has one."""
        wanted = list(partitions)
        found = self._run.control.execute_many(
            f"SELECT number, first_offset, end_offset, state, attempt, at, zone, segment_size,"
            f" write_time_base FROM {self._table}"
            " WHERE journal_keyspace = ? AND topic = ? AND partition = ? LIMIT 1",
            [tuple(self._key(one).values()) for one in wanted],
        )
        return {
            one: Entry(
                Range(
                    one,
                    row["number"],
                    row["first_offset"],
                    row["end_offset"],
                    Batch(row["at"].replace(tzinfo=UTC), row["zone"], row["segment_size"]),
                    row["write_time_base"],
                    row["attempt"],
                ),
                row["state"] == State.DONE,
            )
            for one, rows in zip(wanted, found, strict=True)
            for row in rows
        }

    def start(self, ranges: Iterable[Range]) -> list[Range]:
        """Record that ranges begin; return them with their new attempt.

        Raises:
            LockLost: another run has begun one of them since it was read.
        """
        return [self._start(one) for one in ranges]

    def finish(self, one: Range, counts: Mapping[str, int]) -> None:
        """Record that a range is replicated, its pointer included.

        Raises:
            LockLost: another run has taken it over.
        """
        values = {"state": State.DONE, "counts": dict(counts), "finished_at": clock.now()}
        self._change(one, values, {"attempt": one.attempt, "owner": self._run.owner})

    def _start(self, one: Range) -> Range:
        begun = replace(one, attempt=one.attempt + 1)
        values: dict[str, object] = {
            "state": State.RUNNING,
            "attempt": begun.attempt,
            "owner": self._run.owner,
            "run_id": self._run.run_id,
            "started_at": clock.now(),
        }
        if one.attempt:
            self._change(one, values, {"attempt": one.attempt})
            return begun
        fixed = {
            "first_offset": one.first,
            "end_offset": one.end,
            "at": one.batch.at,
            "zone": one.batch.zone,
            "segment_size": one.batch.segment_size,
            "write_time_base": one.write_time_base,
        }
        self._change(one, {**fixed, **values}, None)
        return begun

    def _change(
        self, one: Range, values: Mapping[str, object], expected: Mapping[str, object] | None
    ) -> None:
        key = {**self._key(one.partition), "number": one.number}
        if not conditional.compare_and_set(
            self._run.control, self._table, key, values, expected=expected
        ):
            raise LockLost(
                f"another run works on {one.partition} from offset {one.first}",
                where=f"owner {self._run.owner}",
                do="nothing more was written; run again",
            )

    def _key(self, one: TopicPartition) -> dict[str, object]:
        return {
            "journal_keyspace": self._run.settings.kafka_journal_keyspace,
            "topic": one.topic,
            "partition": one.partition,
        }


def require_ended(run: RunContext, partitions: Iterable[TopicPartition]) -> None:
    """Refuse partitions of which a range is begun and not ended.

    Raises:
        TidemarkError: with the first of them.
    """
    for one, entry in Ranges(run).newest(partitions).items():
        if not entry.is_done:
            raise TidemarkError(
                f"a run of replicate has begun offsets {entry.range.first} to"
                f" {entry.range.end - 1} and not ended",
                where=str(one),
                do="run replicate first",
            )
