"""Names, columns and shapes of Pekko's tables.

Source: org.apache.pekko.persistence.cassandra.journal.CassandraJournalStatements (1.1.0);
include/sql/schema/pekko.cql has the statements.
"""

from __future__ import annotations

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import TableShape, require_tables
from tidemark.settings import Settings

# The names in the plugin's default configuration; only the last two cannot be configured.
MESSAGES = "messages"
TAG_VIEWS = "tag_views"
METADATA = "metadata"
ALL_PERSISTENCE_IDS = "all_persistence_ids"
TAG_WRITE_PROGRESS = "tag_write_progress"
TAG_SCANNING = "tag_scanning"

PAYLOAD_COLUMNS = {
    "writer_uuid": "text",
    "ser_id": "int",
    "ser_manifest": "text",
    "event_manifest": "text",
    "event": "blob",
    "meta_ser_id": "int",
    "meta_ser_manifest": "text",
    "meta": "blob",
}
"""The columns that tag_views repeats from messages, value for value."""

OLDER_TAGS = ("tag1", "tag2", "tag3")
"""Columns of messages that have tags as well, if the table has them (before plugin 0.80)."""
OLDER_PAYLOAD = "message"
"""The column of messages with the payload instead of `event`, if the table has it (before plugin
0.7)."""
OF_EVENTS = "sequence_nr >= 0"
"""The condition that CQL reads of messages have, if they have no other on sequence_nr.

Without it Cassandra returns a row without sequence nr for a partition in which only a static column
remains (docs/real-systems.md, "Older journals").
"""

SHAPES = {
    MESSAGES: TableShape(
        columns={
            "persistence_id": "text",
            "partition_nr": "bigint",
            "sequence_nr": "bigint",
            "timestamp": "timeuuid",
            "timebucket": "text",
            "tags": "set<text>",
            **PAYLOAD_COLUMNS,
        },
        partition_key=("persistence_id", "partition_nr"),
        clustering=("sequence_nr", "timestamp"),
        # Of tables that Akka's plugin made before 1.0; no statement reads that column.
        older_clustering=("sequence_nr", "timestamp", "timebucket"),
    ),
    TAG_VIEWS: TableShape(
        columns={
            "tag_name": "text",
            "timebucket": "bigint",
            "timestamp": "timeuuid",
            "persistence_id": "text",
            "tag_pid_sequence_nr": "bigint",
            "sequence_nr": "bigint",
            **PAYLOAD_COLUMNS,
        },
        partition_key=("tag_name", "timebucket"),
        clustering=("timestamp", "persistence_id", "tag_pid_sequence_nr"),
    ),
    TAG_WRITE_PROGRESS: TableShape(
        columns={
            "persistence_id": "text",
            "tag": "text",
            "sequence_nr": "bigint",
            "tag_pid_sequence_nr": "bigint",
            "offset": "timeuuid",
        },
        partition_key=("persistence_id",),
        clustering=("tag",),
    ),
    TAG_SCANNING: TableShape(
        columns={"persistence_id": "text", "sequence_nr": "bigint"},
        partition_key=("persistence_id",),
    ),
    METADATA: TableShape(
        columns={"persistence_id": "text", "deleted_to": "bigint"},
        partition_key=("persistence_id",),
    ),
}


def require_journal(control: Control, settings: Settings) -> None:
    """Require a journal keyspace whose tables have the expected shapes.

    Raises:
        SchemaMismatch: a table is missing or differs; the message names every difference.
    """
    names = {
        MESSAGES: settings.journal_table,
        METADATA: settings.metadata_table,
        TAG_VIEWS: settings.events_by_tag_table,
    }
    shapes = {names.get(name, name): shape for name, shape in SHAPES.items()}
    require_tables(
        control,
        settings.journal_keyspace,
        shapes,
        made_by="the Pekko plugin",
        setting="TIDEMARK_JOURNAL_KEYSPACE",
    )


def tags_of(event: Row) -> set[str]:
    """Return the tags of a row of messages, read with `tags` and those of OLDER_TAGS that exist."""
    older = {event[name] for name in OLDER_TAGS if event.get(name) is not None}
    return {*(event["tags"] or ()), *older}


def lock_of(settings: Settings) -> str:
    """Return the resource to lock for writing or deleting tag views, all or by day."""
    return f"tag_views/{settings.journal_keyspace}"


def lock_of_messages(settings: Settings) -> str:
    """Return the resource to lock for deleting from messages or metadata.

    All tag views must be locked as well (`lock_of`): tag-write and reconcile number rows from
    messages, which must not vanish meanwhile.
    """
    return f"messages/{settings.journal_keyspace}"


def has_time_index(control: Control, settings: Settings) -> bool:
    """Return whether the table `messages` has a storage-attached index on its timestamp."""
    rows = control.execute(
        "SELECT options FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?",
        (settings.journal_keyspace, settings.journal_table),
    )
    return any(
        row["options"].get("target") == "timestamp"
        and row["options"].get("class_name", "").endswith("StorageAttachedIndex")
        for row in rows
    )
