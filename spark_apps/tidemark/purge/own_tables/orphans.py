"""State of persistence ids that no longer exist.

- `validate_tail` and `tag_write_tail`: where validate and tag-write continue. Without its row a
  persistence id is read completely, and here nothing is left to read.
- `projection_offset`: how far it was consumed. Restored events would be consumed once more without
  it; so offsets are kept as long as anything of the persistence id exists, and those of projections
  without a file, whose source is unknown, in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko.shapes import ID
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store.offset_places import OFFSET
from tidemark.project.planning.lock import resource_of
from tidemark.purge.messages.deletes import fingerprint
from tidemark.purge.needs.consumers import replaced_release
from tidemark.purge.own_tables import store
from tidemark.purge.own_tables.old_rows import lock_of
from tidemark.purge.own_tables.presence import without_trace
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.spark.local_rows import local_rows
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
    by_topic: dict[str | None, list[Definition]] = defaultdict(list)
    for definition in projections(run):
        source = definition.source
        by_topic[source.topic if isinstance(source, KafkaJournal) else None].append(definition)
    parts = []
    for topic, definitions in by_topic.items():
        old = _old_offsets(run, definitions, before).localCheckpoint()
        parts.append(old.join(without_trace(run, old, topic), on="persistence_id"))
    if not parts:
        none = Tombstones()
        lines = ["no projection has offsets"]
        return TargetPlan({"offset_deletes": 0}, lines, none, "", [lock_of(run, OFFSET)], None)
    key = ["projection", "slice", "persistence_id"]
    keys = reduce(DataFrame.unionByName, parts).select(*key).localCheckpoint()
    rows = keys.groupBy("projection").count().orderBy("projection").collect()
    number = sum(row["count"] for row in rows)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.delete_of_ids(keys, run.settings, OFFSET)
        return {"offset_deletes": number}

    changed = {row.projection for row in rows}
    journal = run.settings.journal_keyspace
    to_lock = [d for group in by_topic.values() for d in group if d.subject(journal) in changed]
    lines = [
        f"offsets of {row.projection}: {row['count']:,} persistence ids that are nowhere any more"
        for row in rows
    ]
    return TargetPlan(
        {"offset_deletes": number},
        lines or ["no persistence id with an offset is gone"],
        Tombstones(ranges=number),
        digest([fingerprint(keys)]),
        [lock_of(run, OFFSET), *(resource_of(run, definition) for definition in to_lock)],
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
def _old_offsets(run: RunContext, definitions: Sequence[Definition], before: datetime) -> DataFrame:
    """Return `projection`, `slice`, `persistence_id` whose offsets are all dated and old."""
    journal = run.settings.journal_keyspace
    # Rows instead of a literal column: Spark would push the literal down as a filter, and scan.
    slices = [
        (definition.subject(journal), number)
        for definition in definitions
        for number in range(NUMBER_OF_SLICES)
    ]
    key = ("projection", "slice", "persistence_id")
    keys = local_rows(run.spark, slices, "projection string, slice int")
    rows = connector.read_partitions(keys, run.settings.keyspace, OFFSET, *key, "consumed_at")
    is_old = F.coalesce(F.col("consumed_at") < F.lit(before), F.lit(False))
    return rows.groupBy(*key).agg(F.bool_and(is_old).alias("is_old")).where("is_old").select(*key)
