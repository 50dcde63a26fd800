"""Step 2, read: the sources of events, behind one protocol."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import (
    KafkaJournal,
    Messages,
    PersistenceIds,
    ReadModel,
    Tags,
)
from tidemark.project.sources.base import EventSource
from tidemark.project.sources.kafka_journal import KafkaJournalSource
from tidemark.project.sources.messages import MessagesSource
from tidemark.project.sources.persistence_ids import PersistenceIdsSource
from tidemark.project.sources.r2dbc import R2dbcIdsSource, R2dbcSource
from tidemark.project.sources.tags import TagsSource


def event_source(run: RunContext, definition: Definition, slices: SliceRange = ALL) -> EventSource:
    """Bind the source of a definition to a run, without any I/O."""
    match definition.source:
        case Messages() if run.settings.is_r2dbc:
            return R2dbcSource(run, definition, slices)
        case PersistenceIds() as spec if run.settings.is_r2dbc:
            return R2dbcIdsSource(run, definition, spec, slices)
        case Messages():
            return MessagesSource(run, definition, slices)
        case Tags():
            return TagsSource(run, definition, slices)
        case PersistenceIds() as spec:
            return PersistenceIdsSource(run, definition, spec, slices)
        case KafkaJournal() as spec:
            return KafkaJournalSource(run, definition, spec, slices)
        case ReadModel():
            raise TypeError(f"{definition.name} reads rows of a read model, and no events")
