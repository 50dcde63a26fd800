"""The reader of every source."""

from __future__ import annotations

from tidemark.projection.definition.source import (
    KafkaJournal,
    Messages,
    PersistenceIds,
    Source,
    Tags,
)
from tidemark.projection.sources.base import Reader
from tidemark.projection.sources.kafka_journal import KafkaJournalReader
from tidemark.projection.sources.messages import MessagesReader
from tidemark.projection.sources.persistence_ids import PersistenceIdsReader
from tidemark.projection.sources.tags import TagsReader


def reader(source: Source) -> Reader:
    """A reader for one run."""
    match source:
        case Messages():
            return MessagesReader()
        case Tags():
            return TagsReader(source)
        case PersistenceIds():
            return PersistenceIdsReader(source)
        case KafkaJournal():
            return KafkaJournalReader(source)
