"""State of persistence ids that no longer exist.

- `validate_tail` and `tag_write_tail`: where validate and tag-write continue. Without its row a
  persistence id is read completely, and here nothing is left to read.
- `projection_offset`, in PostgreSQL `tidemark_projection_offset`: how far it was consumed. Restored
  events would be consumed once more without it; so offsets are kept as long as anything of the
  persistence id exists, and those of projections without a file, whose source is unknown, in any
  case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko.shapes import ID
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store.offset_places import OFFSET
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.lock import resource_of
from tidemark.purge.messages.deletes import fingerprint
from tidemark.purge.needs.consumers import replaced_release
from tidemark.purge.own_tables import store
from tidemark.purge.own_tables.old_rows import lock_of
from tidemark.purge.own_tables.presence import without_trace
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.spark.shapes import shaped
from tidemark.tag_write import completeness
from tidemark.validate.reading import tails
from tidemark.window import to_millis

TAILS = (tails.TABLE, completeness.TABLE)


def plan_tails(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the tails of absent persistence ids, last written over `keep_days` days ago."""
    before = to_millis(run.moment - timedelta(days=keep_days)) * 1000
    old = {name: _old_tails(run, name, before).localCheckpoint() for name in TAILS}
    absent = without_trace(run, reduce(DataFrame.unionByName, old.values()))
    deletions = {
        name: ids.join(absent, on="persistence_id")
        .select(F.lit(run.settings.journal_keyspace).alias("journal_keyspace"), "persistence_id")
        .localCheckpoint()
        for name, ids in old.items()
    }
    counts = {name: keys.count() for name, keys in deletions.items()}
    number = sum(counts.values())

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for name, keys in deletions.items():
            if counts[name]:
                ensure_locked()
                store.delete_of_ids(keys, run.settings, name)
        return {"tail_deletes": number}

    lines = [
        f"{name}: deletes state of {n:,} persistence ids that no longer exist"
        for name, n in counts.items()
    ]
    return TargetPlan(
        {"tail_deletes": number},
        lines,
        Tombstones(partitions=number),
        digest((name, fingerprint(keys)) for name, keys in deletions.items()),
        [lock_of(run, name) for name in TAILS],
        apply if number else None,
    )


def plan_offsets(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the offsets of absent persistence ids, consumed over `keep_days` days ago."""
    before = run.moment - timedelta(days=keep_days)
    by_topic: dict[str | None, list[OffsetStore]] = defaultdict(list)
    for definition in projections(run):
        source = definition.source
        topic = source.topic if isinstance(source, KafkaJournal) else None
        by_topic[topic].append(OffsetStore.of(run, definition))
    parts = []
    for topic, stores in by_topic.items():
        of_stores = [_old_offsets(run, offsets, before) for offsets in stores]
        old = reduce(DataFrame.unionByName, of_stores).localCheckpoint()
        parts.append(old.join(without_trace(run, old, topic), on="persistence_id"))
    if not parts:
        none = Tombstones()
        lines = ["no projection has offsets"]
        return TargetPlan({"offset_deletes": 0}, lines, none, "", [lock_of(run, OFFSET)], None)
    key = ["projection", "slice", "persistence_id"]
    keys = reduce(DataFrame.unionByName, parts).select(*key).localCheckpoint()
    rows = keys.groupBy("projection").count().orderBy("projection").collect()
    number = sum(row["count"] for row in rows)
    subjects = {row.projection for row in rows}
    changed = [each for stores in by_topic.values() for each in stores if each.subject in subjects]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for offsets in changed:
            ensure_locked()
            offsets.place.forget_ids(keys.where(F.col("projection") == offsets.subject))
        return {"offset_deletes": number}

    lines = [
        f"offsets of {row.projection}: {row['count']:,} persistence ids that are nowhere any more"
        for row in rows
    ]
    return TargetPlan(
        {"offset_deletes": number},
        lines or ["no persistence id with an offset is gone"],
        Tombstones(ranges=number),
        digest([fingerprint(keys)]),
        [lock_of(run, OFFSET), *(resource_of(run, offsets.definition) for offsets in changed)],
        apply if number else None,
    )


def projections(run: RunContext) -> list[Definition]:
    """Return the projections of the files, and the live releases that they replace."""
    definitions = []
    for definition in catalog.load(run.settings.projections_dir):
        former = replaced_release(run.control, run.settings, definition)
        definitions += [definition, *([] if former is None else [former])]
    return definitions


@shaped(returns=ID)
def _old_tails(run: RunContext, name: str, before: int) -> DataFrame:
    """Return the persistence ids whose tails were all written before a time, microseconds."""
    settings = run.settings
    columns = ("journal_keyspace", "persistence_id")
    rows = connector.read(
        run.spark, settings.keyspace, name, *columns, write_time_of="sequence_nr"
    ).where(F.col("journal_keyspace") == settings.journal_keyspace)
    newest = rows.groupBy("persistence_id").agg(F.max("write_time").alias("newest"))
    return newest.where(F.col("newest") < before).select("persistence_id")


@shaped(returns=ID)
def _old_offsets(run: RunContext, offsets: OffsetStore, before: datetime) -> DataFrame:
    """Return `projection`, `slice`, `persistence_id` whose offsets are all dated and old."""
    rows = offsets.place.frame(run.spark, ALL)
    is_old = F.coalesce(F.col("consumed_at") < F.lit(before), F.lit(False))
    key = ("slice", "persistence_id")
    by_id = rows.groupBy(*key).agg(F.bool_and(is_old).alias("is_old"))
    return by_id.where("is_old").select(F.lit(offsets.subject).alias("projection"), *key)
