"""Which events a projection reads. Nothing here needs Spark.

How each source is read is in `tidemark.projection.sources`, a module for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemark.partitioning import keys

NOT_VALIDATED = "not validated"


@dataclass(frozen=True)
class Messages:
    """Every event of the journal, or of some entity types, numbered by sequence nr."""

    entity_types: tuple[str, ...] | None = None
    waits_for: ClassVar[str] = NOT_VALIDATED
    is_pekko: ClassVar[bool] = True

    def reads(self, persistence_id: str) -> bool:
        """Whether its events are among them."""
        return self.entity_types is None or keys.entity_type(persistence_id) in self.entity_types


@dataclass(frozen=True)
class Tags:
    """The tag views of some tags, numbered by tag pid sequence nr."""

    names: tuple[str, ...]
    waits_for: ClassVar[str] = NOT_VALIDATED
    is_pekko: ClassVar[bool] = True


@dataclass(frozen=True)
class PersistenceIds:
    """The events of some persistence ids, numbered by sequence nr."""

    ids: tuple[str, ...]
    waits_for: ClassVar[str] = NOT_VALIDATED
    is_pekko: ClassVar[bool] = True

    def reads(self, persistence_id: str) -> bool:
        """Whether its events are among them."""
        return persistence_id in self.ids


@dataclass(frozen=True)
class KafkaJournal:
    """The events that kafka-journal replicated from a topic, numbered by seq_nr."""

    topic: str
    waits_for: ClassVar[str] = "younger than the delay"
    is_pekko: ClassVar[bool] = False


Source = Messages | Tags | PersistenceIds | KafkaJournal
"""Each has: waits_for, why a time bucket of it is not read yet, for people; is_pekko, whether it
reads the journal keyspace and waits for validate."""
