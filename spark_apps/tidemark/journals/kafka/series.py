"""Reads of one journal of kafka-journal, by key and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from uuid import UUID

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import HistoryPurged
from tidemark.journals.kafka import segment_size
from tidemark.journals.kafka.frames import SERIALIZER_ID
from tidemark.journals.kafka.tables import OLD_SEGMENTS, SEGMENTS
from tidemark.journals.pekko import partitions
from tidemark.journals.pekko.series import END, EventRef, Series
from tidemark.partitioning import keys
from tidemark.settings import Settings
from tidemark.window import to_millis


class JournalReader:
    """A reader of one journal; its methods are those of `pekko.series.SeriesReader`.

    Without a head a journal has no events, as for every reader of kafka-journal.
    """

    def __init__(self, control: Control, settings: Settings, topic: str, series: Series) -> None:
        """Bind the reader to a journal of a topic, without reading yet."""
        self._control, self._settings = control, settings
        self._topic, self._id = topic, series.persistence_id

    def deleted_to(self) -> int:
        """Read the highest deleted seq_nr; 0 for none."""
        return int(self._head["delete_to"] or 0) if self._head is not None else 0

    def known_highest(self, at_least: int) -> int:
        """Read the highest seq_nr that was written or deleted; 0 for none.

        The search starts at `at_least`, a seq_nr that is known to have existed.
        """
        if self._head is None:
            return 0
        written = max(self._head["seq_nr"] or 0, self.deleted_to())
        # The head is written after the events, so later ones may exist.
        last_rows = partitions.rows_from(
            self._segment(max(at_least, written, 1)), self._last_of_segment
        )
        highest: int = max([written, *(row["seq_nr"] for row in last_rows)])
        return highest

    def event_refs(
        self, first: int, last: int = END, *, after: int = 0, until: int = END
    ) -> Iterator[EventRef]:
        """Yield the existing events with `first <= number <= last`, ascending.

        `after` is a known number below `first`, `until` one not below `last`.
        """
        start = max(first, after + 1, self.deleted_to() + 1)
        end, previous = min(last, until, self.known_highest(start)), 0
        if start > end:
            return
        for segment in range(self._segment(start), self._segment(end) + 1):
            for row in self._control.stream(
                f"SELECT seq_nr, timestamp FROM {self._journal}"
                " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr >= ? AND seq_nr <= ?",
                (self._id, self._topic, segment, start, end),
            ):
                if (number := row["seq_nr"]) > previous:
                    previous = number
                    yield self._ref(number, row["timestamp"])

    def payload(self, event: EventRef) -> dict[str, object]:
        """Read ser_id, ser_manifest and event of an event that `event_refs` returned.

        Raises:
            HistoryPurged: the event was deleted since.
        """
        rows = self._control.execute(
            f"SELECT payload_type, payload_txt, payload_bin FROM {self._journal}"
            " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr = ? LIMIT 1",
            (self._id, self._topic, self._segment(event.number), event.number),
        )
        if not rows:
            raise HistoryPurged(
                f"the event with seq_nr {event.number} of {self._id} was deleted while it was read",
                where=self._settings.kafka_journal_keyspace,
                do="run again",
            )
        kind, text = rows[0]["payload_type"], rows[0]["payload_txt"]
        is_text = kind in ("json", "text") and text is not None
        payload = text.encode() if is_text else rows[0]["payload_bin"]
        return {"ser_id": SERIALIZER_ID, "ser_manifest": kind or "", "event": payload}

    @cached_property
    def _head(self) -> Row | None:
        name = table(self._settings.kafka_journal_keyspace, self._settings.kafka_metajournal_table)
        rows_by_segment = self._control.execute_many(
            f"SELECT segment_size, seq_nr, delete_to FROM {name}"
            " WHERE topic = ? AND segment = ? AND id = ?",
            [
                (self._topic, keys.head_segment(self._id, segments), self._id)
                for segments in (SEGMENTS, OLD_SEGMENTS)
            ],
        )
        return next((row for rows in rows_by_segment for row in rows), None)

    @property
    def _journal(self) -> str:
        return table(self._settings.kafka_journal_keyspace, self._settings.kafka_journal_table)

    def _segment(self, seq_nr: int) -> int:
        size = None if self._head is None else self._head["segment_size"]
        return keys.journal_segment(seq_nr, segment_size.of_value(size))

    def _last_of_segment(self, segment: int) -> list[Row]:
        return self._control.execute(
            f"SELECT seq_nr FROM {self._journal} WHERE id = ? AND topic = ? AND segment = ?"
            " ORDER BY seq_nr DESC LIMIT 1",
            (self._id, self._topic, segment),
        )

    def _ref(self, number: int, at: datetime) -> EventRef:
        epoch_ms = to_millis(at.replace(tzinfo=UTC))
        ticks = keys.epoch_ms_ticks(epoch_ms)
        timeuuid = UUID(keys.ticks_timeuuid(ticks, clock_sequence=0, node=0))
        bucket = keys.time_bucket(epoch_ms, self._settings.bucket_size)
        return EventRef(number, number, timeuuid, bucket)
