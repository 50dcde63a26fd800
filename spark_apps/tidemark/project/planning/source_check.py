"""Checks that a projection's source exists, before anything is read from it."""

from __future__ import annotations

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.kafka.tables import require_kafka_journal
from tidemark.journals.pekko.snapshots import require_snapshots
from tidemark.journals.pekko.tables import OF_EVENTS
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal, PersistenceIds

_NAMED = 3
"""Unknown persistence ids that an error names."""


def require(run: RunContext, definition: Definition) -> None:
    """Refuse a source that cannot be read; `preflight` checks that of a Pekko journal.

    Raises:
        DefinitionError: a persistence id neither is in the journal nor was deleted from it.
        SchemaMismatch: kafka-journal's tables or the snapshot table are missing or have another
            shape.
    """
    source = definition.source
    if isinstance(source, KafkaJournal):
        require_kafka_journal(run.control, run.settings)
    if definition.starts_from_snapshots:
        require_snapshots(run.control, run.settings)
    if isinstance(source, PersistenceIds):
        unknown = [
            persistence_id for persistence_id in source.ids if not _is_known(run, persistence_id)
        ]
        if unknown:
            more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
            raise definition.error(
                f"the journal has no persistence id {', '.join(map(repr, unknown[:_NAMED]))}{more}",
                "write ids as the journal has them, with their entity type",
                definition.header_lines["source"],
            )


def _is_known(run: RunContext, persistence_id: str) -> bool:
    """Return whether a persistence id has events in partition 0, or a row in metadata."""
    settings = run.settings
    messages = table(settings.journal_keyspace, settings.journal_table)
    metadata = table(settings.journal_keyspace, settings.metadata_table)
    return bool(
        run.control.execute(
            f"SELECT sequence_nr FROM {messages}"
            f" WHERE persistence_id = ? AND partition_nr = 0 AND {OF_EVENTS} LIMIT 1",
            (persistence_id,),
        )
        or run.control.execute(
            f"SELECT deleted_to FROM {metadata} WHERE persistence_id = ?", (persistence_id,)
        )
    )
