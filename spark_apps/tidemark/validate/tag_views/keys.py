"""What a comparison of messages with tag views takes: their keys, without payloads."""

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
    """Return a frame that is made when it is first used, and then kept.

    It has no plan behind it, which Spark would copy and analyze in each step of a comparison, and
    nothing is read a second time, even if an executor is lost: the journal would be another one.
    """
    return frame.localCheckpoint(eager=False)


@dataclass(frozen=True)
class Keys:
    """What messages and tag views hold, without payloads.

    Attributes:
        index: `tagging.events.index_of` with partition_nr and has_payload, and optionally
            pending_tags: tags (array of string) that an event has beside `tags`, and whose rows may
            be yet to come.
        rows: `tag_view_keys`.
        progress: `write_progress`.
        scanning: `scanning`.
        deleted: `deleted`, read last, and `expected.removed_ids`.
        listed: the persistence ids of all_persistence_ids.
        ruled_tags: tags that rules give: only events that a rule gives one carry it.
    """

    index: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame
    ruled_tags: frozenset[str] = frozenset()

    def each(self, change: Callable[[DataFrame], DataFrame]) -> Keys:
        """Return them with each frame changed."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        frames = {name: frame for name, frame in held.items() if isinstance(frame, DataFrame)}
        return Keys(**held | {name: change(frame) for name, frame in frames.items()})

    def settled(self, keep: Keep) -> Keys:
        """Return them without the messages that count as deleted.

        Args:
            keep: function that keeps a frame in memory that is used more than once.
        """
        known = [self.index, self.deleted]
        removed = keep(removed_ids([self.rows, self.progress, self.scanning], known))
        deleted = self.deleted.unionByName(removed)
        index = message_rows.undeleted(self.index, deleted)
        return replace(self, index=index, deleted=deleted)


@dataclass(frozen=True)
class KeptRows:
    """Rows of tag views without an event in messages that are no findings.

    Attributes:
        of_deleted_events: `rows_of_deleted_events`.
        of_lost_events: `rows_of_lost_events`.
    """

    of_deleted_events: DataFrame
    of_lost_events: DataFrame

    @classmethod
    def of(cls, keys: Keys, keep: Keep) -> KeptRows:
        """Find them, and keep the frames in memory."""
        lost = rows_of_lost_events(
            keys.rows,
            keys.index,
            keys.progress,
            keys.scanning,
            keys.deleted,
            keys.ruled_tags,
        )
        return cls(keep(rows_of_deleted_events(keys.rows, keys.index, keys.deleted)), keep(lost))
