"""The sources that a projection can read. This module does not need Spark.

`tidemark.project.sources` has a module for each source, which reads its events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemark.journals.pekko.series import NO_TAG
from tidemark.journals.pekko.tables import MESSAGES
from tidemark.partitioning import keys
from tidemark.settings import Settings

NOT_VALIDATED = "not validated"
EVENTS = "events"
"""The name of the table of events in definitions."""


def _messages(settings: Settings) -> str:
    if settings.is_r2dbc:
        return f"{settings.r2dbc_schema}.{settings.r2dbc_journal_table}"
    return f"{settings.journal_keyspace}.{MESSAGES}"


@dataclass(frozen=True)
class Messages:
    """Every event of the journal, or of some entity types, numbered by sequence nr."""

    entity_types: tuple[str, ...] | None = None
    input: ClassVar[str] = EVENTS
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)

    def reads(self, persistence_id: str) -> bool:
        """Return whether the source has the events of a persistence id."""
        return self.entity_types is None or keys.entity_type(persistence_id) in self.entity_types

    def table(self, settings: Settings) -> str:
        """Return `keyspace.table` of the events, or `schema.table` in PostgreSQL."""
        return _messages(settings)


@dataclass(frozen=True)
class Tags:
    """The tag views of some tags, numbered by tag pid sequence nr."""

    names: tuple[str, ...]
    input: ClassVar[str] = EVENTS
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = True
    entity_types: ClassVar[None] = None

    @property
    def series_tags(self) -> tuple[str, ...]:
        """The tags themselves."""
        return self.names

    def reads(self, persistence_id: str) -> bool:
        """Return whether the persistence id may have events with these tags: any may."""
        return True

    def table(self, settings: Settings) -> str:
        """Return `keyspace.table` of the events."""
        return f"{settings.journal_keyspace}.{settings.events_by_tag_table}"


@dataclass(frozen=True)
class PersistenceIds:
    """The events of some persistence ids, numbered by sequence nr."""

    ids: tuple[str, ...]
    input: ClassVar[str] = EVENTS
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)
    entity_types: ClassVar[None] = None

    def reads(self, persistence_id: str) -> bool:
        """Return whether the source has the events of a persistence id."""
        return persistence_id in self.ids

    def table(self, settings: Settings) -> str:
        """Return `keyspace.table` of the events."""
        return _messages(settings)


@dataclass(frozen=True)
class KafkaJournal:
    """The events that kafka-journal replicated from a topic, numbered by seq_nr."""

    topic: str
    input: ClassVar[str] = EVENTS
    waits_for: ClassVar[str] = "not replicated yet"
    reads_journal: ClassVar[bool] = False
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)
    entity_types: ClassVar[None] = None

    def reads(self, persistence_id: str) -> bool:
        """Return whether the persistence id may be in the topic: any may."""
        return True

    def table(self, settings: Settings) -> str:
        """Return `keyspace.table` of the events."""
        return f"{settings.kafka_journal_keyspace}.{settings.kafka_journal_table}"


@dataclass(frozen=True)
class ReadModel:
    """The rows of another projection's read model, which are no events and belong to no series."""

    projection: str
    waits_for: ClassVar[str] = "not made yet"
    reads_journal: ClassVar[bool] = False
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = ()
    entity_types: ClassVar[None] = None

    @property
    def input(self) -> str:
        """The projection's name."""
        return self.projection

    def reads(self, persistence_id: str) -> bool:
        """Return whether the source has the events of a persistence id: it has no events."""
        return False

    def table(self, settings: Settings) -> str:
        """Return the projection's name, because its table depends on the live version."""
        return self.projection


Source = Messages | Tags | PersistenceIds | KafkaJournal | ReadModel
"""The attributes of each source:

input: name by which definitions read the source. waits_for: reason, for people, why a time bucket
is not read yet. reads_journal: whether the source is in the journal keyspace, whose time buckets
validate passes. reads_tag_views: whether the source reads tag views, so that changes of purge and
tag-write matter. series_tags: tags of the series, NO_TAG if each persistence id is a series.
entity_types: entity types of the persistence ids, None for all.
"""
