"""Names, columns and shapes of kafka-journal's tables.

Source: com.evolution.kafka.journal.eventual.cassandra (11.0.0);
include/sql/schema/kafka_journal.cql has the statements.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import TableShape, require_tables
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape

SEGMENTS = 10_000
"""The number of segments of metajournal for a topic."""
OLD_SEGMENTS = 100
"""The number of segments in older releases: a head that was written there stays there."""
JOURNAL_KEY: Shape = {"topic": "string", "id": "string"}
"""The key of a journal, in frames."""

JOURNAL = TableShape(
    columns={
        "id": "text",
        "topic": "text",
        "segment": "bigint",
        "seq_nr": "bigint",
        "timestamp": "timestamp",
        "tags": "set<text>",
        "payload_type": "text",
        "payload_txt": "text",
        "payload_bin": "blob",
    },
    partition_key=("id", "topic", "segment"),
    clustering=("seq_nr", "timestamp"),
)
METAJOURNAL = TableShape(
    columns={
        "id": "text",
        "topic": "text",
        "segment": "bigint",
        "segment_size": "int",
        "seq_nr": "bigint",
        "delete_to": "bigint",
    },
    partition_key=("topic", "segment"),
    clustering=("id",),
)


_WRITTEN_BY_REPLICATOR = {"partition": "int", "offset": "bigint"}
JOURNAL_WRITES = replace(
    JOURNAL,
    columns={
        **JOURNAL.columns,
        **_WRITTEN_BY_REPLICATOR,
        "origin": "text",
        "meta_record_id": "uuid",
    },
)
METAJOURNAL_WRITES = replace(
    METAJOURNAL,
    columns={**METAJOURNAL.columns, **_WRITTEN_BY_REPLICATOR, "record_id": "uuid"},
)
"""JOURNAL and METAJOURNAL with the replicator's own columns, which only checks read."""


def lock_of(settings: Settings) -> str:
    """Return the resource to lock for changing journals of kafka-journal.

    A resource below it is for one topic partition.
    """
    return f"kafka_journal/{settings.kafka_journal_keyspace}"


def require_kafka_journal(
    control: Control,
    settings: Settings,
    journal: TableShape = JOURNAL,
    metajournal: TableShape = METAJOURNAL,
) -> None:
    """Require a keyspace whose tables have the expected shapes.

    Raises:
        SchemaMismatch: a table is missing or differs; the message names every difference.
    """
    shapes = {
        settings.kafka_journal_table: journal,
        settings.kafka_metajournal_table: metajournal,
    }
    keyspace = settings.kafka_journal_keyspace
    require_tables(
        control,
        keyspace,
        shapes,
        made_by="kafka-journal's replicator",
        setting="TIDEMARK_KAFKA_JOURNAL_KEYSPACE",
    )
