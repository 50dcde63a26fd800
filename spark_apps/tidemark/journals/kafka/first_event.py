"""The time of the first event of a topic."""

from __future__ import annotations

from datetime import UTC

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings
from tidemark.window import to_millis


def first_event_ms(control: Control, settings: Settings, topic: str) -> int | None:
    """Read the lowest time (epoch ms) of first events in the topic's segments; None without any.

    One row of each partition of journal is read, so the cost grows with the number of keys. Times
    are those of Kafka's records: they rise within a segment, unless the producers' clocks disagree.
    """
    rows = control.stream(
        "SELECT topic, timestamp FROM"
        f" {table(settings.kafka_journal_keyspace, settings.kafka_journal_table)}"
        " PER PARTITION LIMIT 1"
    )
    times = (row["timestamp"] for row in rows if row["topic"] == topic)
    first = min(times, default=None)
    return None if first is None else to_millis(first.replace(tzinfo=UTC))
