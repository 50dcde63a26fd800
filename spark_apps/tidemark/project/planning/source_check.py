"""Checks that a projection's source exists, before anything is read from it."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.kafka.tables import require_kafka_journal
from tidemark.journals.pekko.snapshots import require_snapshots
from tidemark.journals.pekko.tables import OF_EVENTS
from tidemark.journals.r2dbc import tables as r2dbc_tables
from tidemark.journals.r2dbc.series import unknown_ids
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal, PersistenceIds, Tags
from tidemark.settings import Settings

_NAMED = 3
"""Unknown persistence ids that an error names."""


def require_of_journal(settings: Settings, definition: Definition) -> None:
    """Reject a definition that the journal of the run has no events for.

    Raises:
        DefinitionError: the definition names another journal, or a source that a journal in
            PostgreSQL does not have.
    """
    line = definition.header_lines["source"]
    if definition.journal not in ("", settings.journal):
        raise definition.error(
            f"its events are in the journal {definition.journal}, and the journal of the run is"
            f" {settings.journal}",
            f"run with --journal {definition.journal}, or move the file to that journal's"
            " directory of projections",
            line,
        )
    if settings.is_r2dbc and isinstance(definition.source, Tags):
        raise definition.error(
            f"the journal {settings.journal} is in PostgreSQL and has no tag views",
            "write `messages`, and select by the column `tags`, such as"
            " `WHERE array_contains(tags, 'red')`",
            line,
        )
    if settings.is_r2dbc and isinstance(definition.source, KafkaJournal):
        raise definition.error(
            f"the journal {settings.journal} is in PostgreSQL, where kafka-journal has no tables",
            "run with the journal of the Cassandra cluster, or write `messages`",
            line,
        )


def require(run: RunContext, definition: Definition) -> None:
    """Refuse a source that cannot be read; `preflight` checks the journal.

    Raises:
        DefinitionError: a persistence id neither is in the journal nor was deleted from it; or the
            journal is not that of the definition.
        SchemaMismatch: kafka-journal's tables or the snapshot table are missing or have another
            shape.
    """
    source = definition.source
    require_of_journal(run.settings, definition)
    if isinstance(source, KafkaJournal):
        require_kafka_journal(run.control, run.settings)
    if definition.starts_from_snapshots and run.settings.is_r2dbc:
        r2dbc_tables.require_snapshots(run.settings)
    elif definition.starts_from_snapshots:
        require_snapshots(run.control, run.settings)
    if isinstance(source, PersistenceIds):
        unknown = _unknown(run, source.ids)
        if unknown:
            more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
            raise definition.error(
                f"the journal has no persistence id {', '.join(map(repr, unknown[:_NAMED]))}{more}",
                "write ids as the journal has them, with their entity type",
                definition.header_lines["source"],
            )


def _unknown(run: RunContext, persistence_ids: Sequence[str]) -> list[str]:
    if run.settings.is_r2dbc:
        return unknown_ids(run.settings, persistence_ids)
    return [
        persistence_id for persistence_id in persistence_ids if not _is_known(run, persistence_id)
    ]


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
