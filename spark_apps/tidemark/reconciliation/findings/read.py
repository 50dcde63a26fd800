"""The keys that a comparison needs, read in the order that rules out false findings.

Actors may be alive. Pekko writes messages, then tag_views, then tag_write_progress and
tag_scanning. So these are read the other way round: whatever a row, a progress or a scanning speaks
of is in messages when those are read, and no row of a living actor is ever taken for an extra one.
Metadata comes last: it tells what was deleted while messages were read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.reconciliation.findings.expected import removed_ids
from tidemark.reconciliation.findings.scope import Scope
from tidemark.tagging import events, numbering, rules


@dataclass(frozen=True)
class ScopedKeys:
    """What messages and tag views hold, without payloads; all in memory.

    Attributes:
        index: `tagging.events.index_of`, with the tags of the scope only.
        rows: `tag_view_keys`.
        progress: `write_progress`.
        scanning: `scanning`.
        deleted: `deleted`, and `expected.removed_ids`.
    """

    index: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame


class FrameCache:
    """Frames in memory, each read when it is added; let go together."""

    def __init__(self) -> None:
        """Make a cache without frames."""
        self._frames: list[DataFrame] = []

    def now(self, frame: DataFrame) -> tuple[DataFrame, int]:
        """Read a frame at once and keep it; return it with its number of rows."""
        kept = self.lazily(frame)
        return kept, kept.count()

    def lazily(self, frame: DataFrame) -> DataFrame:
        """Keep what is read of a frame; return the frame."""
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._frames[-1]

    def release(self) -> None:
        """Let go of all."""
        for frame in self._frames:
            frame.unpersist()
        self._frames = []


def read_keys(run: RunContext, scope: Scope, kept: FrameCache) -> tuple[ScopedKeys, dict[str, int]]:
    """Read all keys of the scope's persistence ids and tags, and count them.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    spark, settings = run.spark, run.settings
    of_ids, of_tags = _only("persistence_id", scope.persistence_ids), _only("tag", scope.tags)
    progress, _ = kept.now(of_tags(of_ids(frames.write_progress(spark, settings))))
    scanning, _ = kept.now(of_ids(frames.scanning(spark, settings)))
    rows, row_count = kept.now(of_tags(of_ids(frames.tag_view_keys(spark, settings))))
    messages = of_ids(frames.message_index(spark, settings, *events.READ))
    tag_rules = rules.load(settings.tagging_dir)
    rules.check(spark, tag_rules)
    index, message_count = kept.now(_with_tags(events.index_of(messages, tag_rules), scope.tags))
    deleted, _ = kept.now(of_ids(frames.deleted(spark, settings)))
    removed, removed_count = kept.now(removed_ids([rows, progress, scanning], [index, deleted]))
    deleted = deleted.unionByName(removed)
    torn = kept.lazily(numbering.torn(index, numbering.spans(index), deleted))
    if not torn.isEmpty():
        index = kept.lazily(numbering.without_torn(index, torn))
    counts = {
        "messages_checked": message_count,
        "tag_rows_checked": row_count,
        "removed_ids": removed_count,
    }
    return ScopedKeys(index, rows, progress, scanning, deleted), counts


def _only(column: str, names: frozenset[str] | None) -> Callable[[DataFrame], DataFrame]:
    if names is None:
        return lambda frame: frame
    return lambda frame: frame.where(F.col(column).isin(*sorted(names)))


def _with_tags(index: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    if tags is None:
        return index
    wanted = F.array(*(F.lit(tag) for tag in sorted(tags)))
    return index.withColumn("tags", F.array_intersect("tags", wanted))
