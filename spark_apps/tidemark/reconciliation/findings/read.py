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

from tidemark.context import RunContext
from tidemark.continuity.reading import journal_keys
from tidemark.journal import frames
from tidemark.reconciliation.findings.expected import removed_ids
from tidemark.reconciliation.findings.scope import Scope
from tidemark.tagging import events, numbering, rules


@dataclass(frozen=True)
class ScopedKeys:
    """What messages and tag views hold, without payloads; all in memory.

    Attributes:
        index: `tagging.events.index_of` with partition_nr and has_payload, and the tags of the
            scope only.
        rows: `tag_view_keys`.
        progress: `write_progress`.
        scanning: `scanning`.
        deleted: `deleted`, and `expected.removed_ids`.
        listed: the persistence ids of all_persistence_ids.
    """

    index: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame


def at_once(frame: DataFrame) -> tuple[DataFrame, int]:
    """Read a frame; return what was read, and its number of rows.

    Nothing is read a second time, even if an executor is lost: the journal would be another one.
    And the result has no plan behind it, which Spark would copy and analyze in each comparison.
    """
    read = frame.localCheckpoint()
    return read, read.count()


def once(frame: DataFrame) -> DataFrame:
    """Return a frame that is made when it is first used, and then kept like that of `at_once`."""
    return frame.localCheckpoint(eager=False)


def read_keys(run: RunContext, scope: Scope) -> tuple[ScopedKeys, dict[str, int]]:
    """Read all keys of the scope's persistence ids and tags, and count them.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    spark, settings = run.spark, run.settings
    of_ids, of_tags = _only("persistence_id", scope.persistence_ids), _only("tag", scope.tags)
    progress, _ = at_once(of_tags(of_ids(frames.write_progress(spark, settings))))
    scanning, _ = at_once(of_ids(frames.scanning(spark, settings)))
    rows, row_count = at_once(of_tags(of_ids(frames.tag_view_keys(spark, settings))))
    messages = of_ids(frames.message_index(spark, settings, "partition_nr", *events.READ))
    messages = messages.withColumn("has_payload", F.col("event").isNotNull())
    tag_rules = rules.load(settings.tagging_dir)
    rules.check(spark, tag_rules)
    index, message_count = at_once(_with_tags(events.index_of(messages, tag_rules), scope.tags))
    deleted, _ = at_once(of_ids(frames.deleted(spark, settings)))
    removed, removed_count = at_once(removed_ids([rows, progress, scanning], [index, deleted]))
    deleted = deleted.unionByName(removed)
    torn = once(numbering.torn(index, numbering.spans(index), deleted))
    if not torn.isEmpty():
        index = once(numbering.without_torn(index, torn))
    counts = {
        "messages_checked": message_count,
        "tag_rows_checked": row_count,
        "removed_ids": removed_count,
    }
    listed, _ = at_once(of_ids(journal_keys.listed(spark, settings, run.control)))
    return ScopedKeys(index, rows, progress, scanning, deleted, listed), counts


def _only(column: str, names: frozenset[str] | None) -> Callable[[DataFrame], DataFrame]:
    if names is None:
        return lambda frame: frame
    return lambda frame: frame.where(F.col(column).isin(*sorted(names)))


def _with_tags(index: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    if tags is None:
        return index
    wanted = F.array(*(F.lit(tag) for tag in sorted(tags)))
    return index.withColumn("tags", F.array_intersect("tags", wanted))
