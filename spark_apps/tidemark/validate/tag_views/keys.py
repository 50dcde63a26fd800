"""The input of a comparison of messages with tag views: their keys, without payloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from pyspark.sql import DataFrame

from tidemark.journals.pekko import message_rows
from tidemark.validate.tag_views.expected import (
    removed_ids,
    rows_of_deleted_events,
    rows_of_lost_events,
)

Keep = Callable[[DataFrame], DataFrame]


def once(frame: DataFrame) -> DataFrame:
    """Return a frame that is computed at its first use and then kept in memory.

    It has no long plan, which Spark would copy and analyze in each step of a comparison. Nothing is
    read twice, even if an executor is lost: the journal would have changed.
    """
    return frame.localCheckpoint(eager=False)


@dataclass(frozen=True)
class Keys:
    """The keys of messages and tag views, without payloads.

    Attributes:
        index: `tag_write.events.index_of` with partition_nr and has_payload, and optionally
            pending_tags: further tags (array of string) of an event whose rows may not be written
            yet.
        rows: `tag_view_keys`.
        progress: `write_progress`.
        scanning: `scanning`.
        deleted: `deleted`, read last, and `expected.removed_ids`.
        listed: the persistence ids of all_persistence_ids.
        ruled_tags: tags that rules give; only events to which a rule gives such a tag carry it.
    """

    index: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame
    ruled_tags: frozenset[str] = frozenset()

    def each(self, change: Callable[[DataFrame], DataFrame]) -> Keys:
        """Return the keys with each frame changed."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        frames = {name: frame for name, frame in values.items() if isinstance(frame, DataFrame)}
        return Keys(**values | {name: change(frame) for name, frame in frames.items()})

    def settled(self, keep: Keep) -> Keys:
        """Return the keys without the messages that count as deleted."""
        of_messages = [self.index, self.deleted]
        removed = keep(removed_ids([self.rows, self.progress, self.scanning], of_messages))
        deleted = self.deleted.unionByName(removed)
        index = message_rows.undeleted(self.index, deleted)
        return replace(self, index=index, deleted=deleted)


@dataclass(frozen=True)
class KeptRows:
    """Rows of tag views without an event in messages that are not findings.

    Attributes:
        of_deleted_events: `rows_of_deleted_events`.
        of_lost_events: `rows_of_lost_events`.
    """

    of_deleted_events: DataFrame
    of_lost_events: DataFrame

    @classmethod
    def of(cls, keys: Keys, keep: Keep) -> KeptRows:
        """Return these rows, in memory."""
        lost = rows_of_lost_events(
            keys.rows,
            keys.index,
            keys.progress,
            keys.scanning,
            keys.deleted,
            keys.ruled_tags,
        )
        return cls(keep(rows_of_deleted_events(keys.rows, keys.index, keys.deleted)), keep(lost))
