"""Reads of one series of a projection's source, by key and without Spark.

A series is either a persistence id, with the empty tag and sequence nrs as its numbers, or a
persistence id and a tag, with tag pid sequence nrs as its numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import HistoryPurged
from tidemark.journals.pekko import partitions, tables
from tidemark.partitioning import keys
from tidemark.settings import Settings

NO_TAG = ""
"""The tag of a series that is a persistence id."""

SERIES = ("persistence_id", "tag")

END = 2**63 - 1
_CHUNK = 500


@dataclass(frozen=True)
class EventRef:
    """An event of a series.

    Attributes:
        number: number of the event in the series.
        sequence_nr: sequence nr of the event.
        timestamp: timeuuid of the event.
        time_bucket: time bucket of the event, epoch ms.
    """

    number: int
    sequence_nr: int
    timestamp: UUID
    time_bucket: int


@dataclass(frozen=True)
class Series:
    """A persistence id, or a persistence id and tag."""

    persistence_id: str
    tag: str = NO_TAG

    def __str__(self) -> str:
        """Return the name for people: `p|1`, or `p|1 red`."""
        return series_name(self.persistence_id, self.tag)

    @property
    def slice(self) -> int:
        """The slice that has the offset of the series."""
        return keys.slice_of(self.persistence_id)


class SeriesReader:
    """A reader of one series of a journal."""

    def __init__(self, control: Control, settings: Settings, series: Series) -> None:
        """Bind the reader to a series, without reading yet."""
        self._control, self._settings, self._series = control, settings, series

    def deleted_to(self) -> int:
        """Read the highest deleted sequence nr; 0 for none."""
        persistence_id = self._series.persistence_id
        return deletions(self._control, self._settings, [persistence_id])[persistence_id]

    def known_highest(self, at_least: int) -> int:
        """Read the highest number of the series without its events; 0 for none.

        For a persistence id the number is exact; for a tag it is that of tag_write_progress. The
        search starts at `at_least`, a sequence nr that is known to have existed.
        """
        if self._series.tag != NO_TAG:
            column = "tag_pid_sequence_nr"
            tag_key = (" AND tag = ?", (self._series.tag,))
            return self._value(tables.TAG_WRITE_PROGRESS, column, tag_key[1], tag_key[0]) or 0
        deleted_to = self.deleted_to()
        size = self._settings.target_partition_size
        first = partitions.first_partition(max(at_least - 1, deleted_to), size)
        last_rows = partitions.rows_from(first, self._last_of_partition)
        highest: int = max([deleted_to, *(row["sequence_nr"] for row in last_rows)])
        return highest

    def event_refs(
        self, first: int, last: int = END, *, after: int = 0, until: int = END
    ) -> Iterator[EventRef]:
        """Yield the existing events with `first <= number <= last`, ascending.

        `after` is a known sequence nr below that of `first`, `until` one not below that of `last`.
        """
        # A number never exceeds the sequence nr of its event.
        start = max(first, after + 1, self.deleted_to() + 1)
        if self._series.tag == NO_TAG:
            yield from self._messages_between(start, min(last, until))
            return
        events = self._messages_between(start, until)
        while chunk := list(islice(events, _CHUNK)):
            for event in self._tag_rows(chunk):
                if event.number > last:
                    return
                if event.number >= first:
                    yield event

    def payload(self, event: EventRef) -> dict[str, object]:
        """Read ser_id, ser_manifest and event of an event that `event_refs` returned.

        Raises:
            HistoryPurged: the event was deleted since.
        """
        rows = [row for partition_rows in self._payload_rows(event) for row in partition_rows]
        if not rows:
            raise HistoryPurged(
                f"the event with sequence nr {event.sequence_nr} of {self._series.persistence_id}"
                " was deleted while it was read",
                where=self._settings.journal_keyspace,
                do="run again",
            )
        return rows[0]

    def _payload_rows(self, event: EventRef) -> list[list[Row]]:
        payload_columns, series = "ser_id, ser_manifest, event", self._series
        if series.tag != NO_TAG:
            cql = f"SELECT {payload_columns} FROM {self._tag_views} WHERE {_TAG_ROW}"
            values = (series.tag, event.time_bucket, event.timestamp, series.persistence_id)
            return [self._control.execute(cql, values)]
        size = self._settings.target_partition_size
        cql = (
            f"SELECT {payload_columns} FROM {self._messages} WHERE persistence_id = ?"
            " AND partition_nr = ? AND sequence_nr = ? AND timestamp = ?"
        )
        row_keys = [
            (series.persistence_id, nr, event.sequence_nr, event.timestamp)
            for nr in keys.message_partitions(event.sequence_nr, size)
        ]
        return self._control.execute_many(cql, row_keys)

    @property
    def _messages(self) -> str:
        return table(self._settings.journal_keyspace, self._settings.journal_table)

    @property
    def _tag_views(self) -> str:
        return table(self._settings.journal_keyspace, self._settings.events_by_tag_table)

    def _value(self, name: str, column: str, values: tuple[str, ...], condition: str) -> int | None:
        rows = self._control.execute(
            f"SELECT {column} FROM {table(self._settings.journal_keyspace, name)}"
            f" WHERE persistence_id = ?{condition}",
            (self._series.persistence_id, *values),
        )
        return rows[0][column] if rows else None

    def _messages_between(self, first: int, last: int) -> Iterator[EventRef]:
        """Yield events by sequence nr; of two rows with one sequence nr, the earlier."""
        size, previous = self._settings.target_partition_size, 0
        end = None if last == END else keys.message_partitions(max(last, 1), size)[-1]

        def read(partition: int) -> Iterator[Row]:
            return self._control.stream(
                f"SELECT sequence_nr, timestamp FROM {self._messages} WHERE persistence_id = ?"
                " AND partition_nr = ? AND sequence_nr >= ? AND sequence_nr <= ?",
                (self._series.persistence_id, partition, first, last),
            )

        for row in partitions.rows_from(keys.partition_nr(first, size), read, last=end):
            if (number := row["sequence_nr"]) > previous:
                previous = number
                event_ms = epoch_ms(row["timestamp"])
                bucket = keys.time_bucket(event_ms, self._settings.bucket_size)
                yield EventRef(number, number, row["timestamp"], bucket)

    def _last_of_partition(self, partition: int) -> list[Row]:
        return self._control.execute(
            f"SELECT sequence_nr FROM {self._messages} WHERE persistence_id = ?"
            f" AND partition_nr = ? AND {tables.OF_EVENTS} ORDER BY sequence_nr DESC LIMIT 1",
            (self._series.persistence_id, partition),
        )

    def _tag_rows(self, events: Sequence[EventRef]) -> Iterator[EventRef]:
        """Yield the events that have a row under the tag, with the tag pid sequence nr."""
        series = self._series
        rows_by_event = self._control.execute_many(
            f"SELECT tag_pid_sequence_nr FROM {self._tag_views} WHERE {_TAG_ROW}",
            [
                (series.tag, event.time_bucket, event.timestamp, series.persistence_id)
                for event in events
            ],
        )
        for event, rows in zip(events, rows_by_event, strict=True):
            for row in rows[:1]:
                number = row["tag_pid_sequence_nr"]
                yield EventRef(number, event.sequence_nr, event.timestamp, event.time_bucket)


_TAG_ROW = "tag_name = ? AND timebucket = ? AND timestamp = ? AND persistence_id = ?"


def deletions(
    control: Control, settings: Settings, persistence_ids: Collection[str]
) -> dict[str, int]:
    """Read the highest deleted sequence nr of persistence ids; 0 for none."""
    metadata = table(settings.journal_keyspace, settings.metadata_table)
    rows_by_id = control.execute_many(
        f"SELECT deleted_to FROM {metadata} WHERE persistence_id = ?",
        [(persistence_id,) for persistence_id in persistence_ids],
    )
    return {
        persistence_id: (rows[0]["deleted_to"] or 0) if rows else 0
        for persistence_id, rows in zip(persistence_ids, rows_by_id, strict=True)
    }


def epoch_ms(timestamp: UUID) -> int:
    """Return the time of a timeuuid, in epoch ms."""
    return (timestamp.time - keys.UUID_EPOCH_TICKS) // keys.TICKS_PER_MS


def series_name(persistence_id: str, tag: str) -> str:
    """Return the name of a series for people: `p|1`, or `p|1 red`."""
    return persistence_id if tag == NO_TAG else f"{persistence_id} {tag}"


def numbers(first: int, last: int) -> str:
    """Return a range of numbers for people: `4`, or `4..6`."""
    return str(first) if first == last else f"{first}..{last}"
