"""kafka-journal's tables as its replicator leaves them, row by row."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import START
from tests.java_hash import java_hash
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

TOPIC = "orders"
SIZE = 3
LAST = 7
"""The seq_nr of the last event of each journal: the third segment has one."""


def record_id(journal_id: str, life: int = 1) -> uuid.UUID:
    """Return the record id of a life of a journal."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{journal_id}/{life}")


def segment_of(journal_id: str, segments: int = 10_000) -> int:
    """Return the segment of a head."""
    return abs(java_hash(journal_id.lower())) % segments


class Replicator:
    """The tables in the keyspace of a journal, and what is written there."""

    def __init__(self, journal: Journal) -> None:
        """Make the tables."""
        self._journal = journal
        create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)

    def head(self, journal_id: str, **columns: Any) -> None:
        """Write a head; by default that of the whole journal, in the segment of its id."""
        row = {
            "topic": TOPIC,
            "segment": segment_of(journal_id),
            "id": journal_id,
            "segment_size": SIZE,
            "partition": 0,
            "offset": LAST * 10,
            "seq_nr": LAST,
            "record_id": record_id(journal_id),
            "origin": "host-1",
        }
        self._journal.insert("metajournal", [{**row, **columns}])

    def events(self, journal_id: str, numbers: Iterable[int], **columns: Any) -> None:
        """Write events, each with the offset of its number times ten."""
        self._journal.insert(
            "journal",
            [
                {
                    "id": journal_id,
                    "topic": TOPIC,
                    "segment": (number - 1) // SIZE,
                    "seq_nr": number,
                    "timestamp": START + timedelta(minutes=number),
                    "partition": 0,
                    "offset": number * 10,
                    "origin": "host-1",
                    "meta_record_id": record_id(journal_id),
                    **columns,
                }
                for number in numbers
            ],
        )

    def whole(self, journal_id: str) -> None:
        """Write events 1 to LAST and their head."""
        self.events(journal_id, range(1, LAST + 1))
        self.head(journal_id)

    def no_head(self, journal_id: str) -> None:
        """Delete the head in the segment of its id."""
        self._journal.control.execute(
            f"DELETE FROM {self._journal.keyspace}.metajournal"
            " WHERE topic = ? AND segment = ? AND id = ?",
            (TOPIC, segment_of(journal_id), journal_id),
        )

    def no_events(self, journal_id: str, numbers: Iterable[int]) -> None:
        """Delete events."""
        for number in numbers:
            self._journal.control.execute(
                f"DELETE FROM {self._journal.keyspace}.journal"
                " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr = ?",
                (journal_id, TOPIC, (number - 1) // SIZE, number),
            )
