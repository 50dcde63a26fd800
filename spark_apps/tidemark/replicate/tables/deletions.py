"""The deletions of deletes and purges: noted first, executed, then the notes are deleted.

Once its head is written, an action counts as done; only the note still has the events to delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.shapes import DELETIONS
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

TABLE = "kafka_journal_deletion"
_AT_ONCE = 500
"""Notes between two checks of the locks."""
_PAGE = 2000


class Purpose(StrEnum):
    """What notes belong to: a range of offsets, or a replay of its held records."""

    RANGE = "range"
    REPLAY = "replay"


class Notes:
    """The notes of some topic partitions, which are locked."""

    def __init__(
        self, run: RunContext, partitions: Iterable[TopicPartition], purpose: Purpose
    ) -> None:
        """Bind to the partitions."""
        self._control, self._settings = run.control, run.settings
        self._purpose = purpose
        keyspace = run.settings.kafka_journal_keyspace
        self._keys = [(keyspace, tp.topic, tp.partition, purpose.value) for tp in partitions]
        self._table = table(run.settings.keyspace, TABLE)

    def note(self, deletions: DataFrame) -> None:
        """Write notes of deletions, of the shape DELETIONS."""
        _note(deletions, self._settings, self._purpose)

    def purge(self, ensure_locked: EnsureLocked) -> None:
        """Execute the noted purges: mark heads as deleted, delete the events, then the heads."""
        for notes in _parts(self._noted(is_purge=True)):
            with_head = [note for note in notes if note["head_segment"] is not None]
            ensure_locked()
            mark_heads(self._control, self._settings, with_head)
            delete_events(self._control, self._settings, notes)
            _delete_heads(self._control, self._settings, with_head)

    def delete(self, ensure_locked: EnsureLocked) -> None:
        """Execute the noted deletes of events, whose heads are written."""
        for notes in _parts(self._noted(is_purge=False)):
            ensure_locked()
            delete_events(self._control, self._settings, notes)

    def forget(self) -> None:
        """Delete all notes."""
        self._control.execute_many(f"DELETE FROM {self._table} WHERE {_NOTES}", self._keys)

    def _noted(self, *, is_purge: bool) -> Iterator[Row]:
        for key in self._keys:
            rows = self._control.stream(
                f"SELECT * FROM {self._table} WHERE {_NOTES}", key, page=_PAGE
            )
            yield from (row for row in rows if row["is_purge"] is is_purge)


_NOTES = "journal_keyspace = ? AND topic = ? AND partition = ? AND purpose = ?"
_HEAD = "topic = ? AND segment = ? AND id = ?"


@shaped(deletions=DELETIONS)
def _note(deletions: DataFrame, settings: Settings, purpose: Purpose) -> None:
    rows = deletions.withColumns(
        {
            "journal_keyspace": F.lit(settings.kafka_journal_keyspace),
            "purpose": F.lit(purpose.value),
        }
    )
    connector.write(rows, settings.keyspace, TABLE)


def _head(note: Row) -> tuple[object, ...]:
    return note["topic"], note["head_segment"], note["id"]


def _parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while part := list(islice(rows, _AT_ONCE)):
        yield part


def mark_heads(control: Control, settings: Settings, notes: Sequence[Row]) -> None:
    """Write heads as deleted up to their end."""
    control.execute_many(
        f"UPDATE {_metajournal(settings)} USING TIMESTAMP ? SET delete_to = ?, seq_nr = ?"
        f" WHERE {_HEAD}",
        [(n["write_time"], n["deleted_to"], n["deleted_to"], *_head(n)) for n in notes],
    )


def _delete_heads(control: Control, settings: Settings, notes: Sequence[Row]) -> None:
    control.execute_many(
        f"DELETE FROM {_metajournal(settings)} USING TIMESTAMP ? WHERE {_HEAD}",
        [(note["write_time"], *_head(note)) for note in notes],
    )


def delete_events(control: Control, settings: Settings, notes: Sequence[Row]) -> None:
    """Delete the events of notes: whole partitions, and the first events of others."""
    journal = table(settings.kafka_journal_keyspace, settings.kafka_journal_table)
    where = f"DELETE FROM {journal} USING TIMESTAMP ? WHERE id = ? AND topic = ? AND segment = ?"
    control.execute_many(
        where,
        (
            (note["write_time"], note["id"], note["topic"], segment)
            for note in notes
            for segment in range(note["first_segment"], note["last_segment"] + _is_whole(note))
        ),
    )
    control.execute_many(
        f"{where} AND seq_nr <= ?",
        [
            (note["write_time"], note["id"], note["topic"], note["last_segment"], note["up_to"])
            for note in notes
            if note["up_to"] is not None
        ],
    )


def _is_whole(note: Row) -> int:
    """Return 1 if the whole last segment is deleted, else 0."""
    return int(note["up_to"] is None)


def _metajournal(settings: Settings) -> str:
    return table(settings.kafka_journal_keyspace, settings.kafka_metajournal_table)
