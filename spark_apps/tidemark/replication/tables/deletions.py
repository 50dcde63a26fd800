"""What deletes and purges take out of the tables: noted first, done in its turn, then dropped.

After its head is written, an action counts as done; only the note still knows which events go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.shapes import DELETIONS
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

TABLE = "kafka_journal_deletion"
_AT_ONCE = 500
"""Notes between two looks at the locks."""
_PAGE = 2000
EnsureLocked = Callable[[], None]


@shaped(deletions=DELETIONS)
def note(deletions: DataFrame, settings: Settings) -> None:
    """Note what is about to go."""
    rows = deletions.withColumn("journal_keyspace", F.lit(settings.kafka_journal_keyspace))
    connector.write(rows, settings.keyspace, TABLE)


def purge(
    control: Control,
    settings: Settings,
    partitions: Iterable[TopicPartition],
    ensure_locked: EnsureLocked,
) -> None:
    """Do the noted purges: heads say that all is deleted, then the events go, then the heads.

    Raises:
        LockLost: another run may work on the partitions.
    """
    for notes in _parts(_noted(control, settings, partitions, is_purge=True)):
        with_head = [one for one in notes if one["head_segment"] is not None]
        ensure_locked()
        _mark_heads(control, settings, with_head)
        _delete_events(control, settings, notes)
        control.execute_many(
            f"DELETE FROM {_metajournal(settings)} USING TIMESTAMP ? WHERE {_HEAD}",
            [(one["write_time"], *_head(one)) for one in with_head],
        )


def delete(
    control: Control,
    settings: Settings,
    partitions: Iterable[TopicPartition],
    ensure_locked: EnsureLocked,
) -> None:
    """Do the noted deletes of events, whose heads are written.

    Raises:
        LockLost: another run may work on the partitions.
    """
    for notes in _parts(_noted(control, settings, partitions, is_purge=False)):
        ensure_locked()
        _delete_events(control, settings, notes)


def forget(control: Control, settings: Settings, partitions: Iterable[TopicPartition]) -> None:
    """Drop all notes of partitions."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, TABLE)} WHERE {_NOTES}",
        [_notes(settings, one) for one in partitions],
    )


_HEAD = "topic = ? AND segment = ? AND id = ?"
_NOTES = "journal_keyspace = ? AND topic = ? AND partition = ?"


def _head(note: Row) -> tuple[object, ...]:
    return note["topic"], note["head_segment"], note["id"]


def _notes(settings: Settings, one: TopicPartition) -> tuple[object, ...]:
    return settings.kafka_journal_keyspace, one.topic, one.partition


def _noted(
    control: Control, settings: Settings, partitions: Iterable[TopicPartition], *, is_purge: bool
) -> Iterator[Row]:
    for one in partitions:
        rows = control.stream(
            f"SELECT * FROM {table(settings.keyspace, TABLE)} WHERE {_NOTES}",
            _notes(settings, one),
            page=_PAGE,
        )
        yield from (row for row in rows if row["is_purge"] is is_purge)


def _parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while part := list(islice(rows, _AT_ONCE)):
        yield part


def _mark_heads(control: Control, settings: Settings, notes: Sequence[Row]) -> None:
    """Write heads as deleted up to their end."""
    control.execute_many(
        f"UPDATE {_metajournal(settings)} USING TIMESTAMP ? SET delete_to = ?, seq_nr = ?"
        f" WHERE {_HEAD}",
        [(one["write_time"], one["deleted_to"], one["deleted_to"], *_head(one)) for one in notes],
    )


def _delete_events(control: Control, settings: Settings, notes: Sequence[Row]) -> None:
    journal = table(settings.kafka_journal_keyspace, settings.kafka_journal_table)
    where = f"DELETE FROM {journal} USING TIMESTAMP ? WHERE id = ? AND topic = ? AND segment = ?"
    control.execute_many(
        where,
        (
            (one["write_time"], one["id"], one["topic"], segment)
            for one in notes
            for segment in range(one["first_segment"], one["last_segment"] + _whole(one))
        ),
    )
    control.execute_many(
        f"{where} AND seq_nr <= ?",
        [
            (one["write_time"], one["id"], one["topic"], one["last_segment"], one["up_to"])
            for one in notes
            if one["up_to"] is not None
        ],
    )


def _whole(note: Row) -> int:
    """Return 1 if the last segment goes as a whole, else 0."""
    return int(note["up_to"] is None)


def _metajournal(settings: Settings) -> str:
    return table(settings.kafka_journal_keyspace, settings.kafka_metajournal_table)
