"""The keys that a comparison needs, read in the order that rules out false findings.

Actors may be alive. Pekko writes messages, then tag_views, then tag_write_progress and
tag_scanning. So these are read the other way round: whatever a row, a progress or a scanning speaks
of is in messages when those are read, and no row of a living actor is ever taken for an extra one.
Metadata comes last: it tells what was deleted while messages were read.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.continuity.reading import journal_keys
from tidemark.continuity.tag_views.keys import Keys
from tidemark.journal import frames
from tidemark.reconciliation.findings.scope import Scope
from tidemark.spark.local_rows import local_rows
from tidemark.tagging import events, rules

NAMED_IN_A_CONDITION = 1000
"""More names than these are joined, since Spark plans a condition name by name."""


def at_once(frame: DataFrame) -> tuple[DataFrame, int]:
    """Read a frame; return what was read, and its number of rows.

    Nothing is read a second time, even if an executor is lost: the journal would be another one.
    And the result has no plan behind it, which Spark would copy and analyze in each comparison.
    """
    read = frame.localCheckpoint()
    return read, read.count()


def read_keys(run: RunContext, scope: Scope) -> tuple[Keys, dict[str, int]]:
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
    messages = of_ids(
        frames.message_index(spark, settings, "partition_nr", *events.READ, with_has_payload=True)
    )
    tag_rules = rules.load(settings.tagging_dir)
    rules.check(spark, tag_rules)
    index, message_count = at_once(_with_tags(events.index_of(messages, tag_rules), scope.tags))
    deleted, _ = at_once(of_ids(frames.deleted(spark, settings)))
    listed, _ = at_once(of_ids(journal_keys.listed(spark, settings, run.control)))
    keys = Keys(index, rows, progress, scanning, deleted, listed)
    return keys, {"messages_checked": message_count, "tag_rows_checked": row_count}


def _only(column: str, names: frozenset[str] | None) -> Callable[[DataFrame], DataFrame]:
    if names is None:
        return lambda frame: frame
    if len(names) <= NAMED_IN_A_CONDITION:
        return lambda frame: frame.where(F.col(column).isin(*sorted(names)))

    def among(frame: DataFrame) -> DataFrame:
        listed = local_rows(
            frame.sparkSession, [(name,) for name in sorted(names)], f"{column} string"
        )
        return frame.join(F.broadcast(listed), on=column, how="left_semi")

    return among


def _with_tags(index: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    if tags is None:
        return index
    wanted = F.array(*(F.lit(tag) for tag in sorted(tags)))
    return index.withColumn("tags", F.array_intersect("tags", wanted))
