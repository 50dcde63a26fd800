"""The journal of the flights: created if absent, rejected if it has other events."""

from __future__ import annotations

from pyspark.sql import DataFrame

from examples.flights.events import ENTITY_TYPE
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import (
    SCHEMA_DIR,
    create_keyspace,
    create_tables,
    require_tables,
    table,
)
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import tables
from tidemark.partitioning.keys import entity_type
from tidemark.settings import Settings

SAMPLED_PARTITIONS = 10_000
"""More than twice the number of partitions of a year of flights."""


def require_own_journal(control: Control, settings: Settings) -> None:
    """Reject a journal with other events than flights, or whose tables have another shape.

    A missing keyspace or table is accepted, since `create_journal` makes it.

    Raises:
        SchemaMismatch: an existing table has another shape.
        InvalidInput: the journal has a persistence id of another entity type.
    """
    keyspace = settings.journal_keyspace
    existing = {
        name: shape
        for name, shape in tables.SHAPES.items()
        if control.table_columns(keyspace, name) is not None
    }
    if not existing:
        return
    require_tables(
        control, keyspace, existing, made_by="the Pekko plugin", setting="TIDEMARK_JOURNAL_KEYSPACE"
    )
    if tables.MESSAGES not in existing:
        return
    partitions = control.execute(
        f"SELECT DISTINCT persistence_id, partition_nr FROM {table(keyspace, tables.MESSAGES)}"
        f" LIMIT {SAMPLED_PARTITIONS}"
    )
    foreign = next(
        (
            row["persistence_id"]
            for row in partitions
            if entity_type(row["persistence_id"]) != ENTITY_TYPE
        ),
        None,
    )
    if foreign is not None:
        raise InvalidInput(
            f"the journal holds events that are not flights, such as those of {foreign!r}",
            where=f"{keyspace}.{tables.MESSAGES}",
            do="set TIDEMARK_JOURNAL_KEYSPACE to a keyspace of its own for the flights",
        )


def create_journal(control: Control, settings: Settings) -> None:
    """Create the journal's keyspace and Pekko's tables unless they exist."""
    create_keyspace(control, settings.journal_keyspace, settings.replication)
    create_tables(control, SCHEMA_DIR / "pekko.cql", settings.journal_keyspace)


def write_persistence_ids(rows: DataFrame, settings: Settings) -> None:
    """Write the rows of `messages.to_persistence_ids`, before those of `messages`, like Pekko."""
    connector.write(rows, settings.journal_keyspace, tables.ALL_PERSISTENCE_IDS)


def write_messages(rows: DataFrame, settings: Settings) -> None:
    """Write the rows of `messages.to_messages`."""
    connector.write(rows, settings.journal_keyspace, tables.MESSAGES)
