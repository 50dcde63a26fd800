"""The writes of a batch, in the promised order: notes, purges, events, heads, deletes.

It may end anywhere. A run that does the same records again, with the same write time bases, writes
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import TopicMoved
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.replication import changes
from tidemark.replication.events import actions_of
from tidemark.replication.fold import Batch, folded
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.tables import rows
from tidemark.replication.tables.deletions import EnsureLocked, Notes
from tidemark.replication.tables.heads import heads_of
from tidemark.spark.local_rows import local_rows

WriteTimes = Mapping[TopicPartition, int]
"""Write times in microseconds, or what offsets are added to for them."""


def apply(
    run: RunContext,
    records: DataFrame,
    batch: Batch,
    notes: Notes,
    begin: Callable[[WriteTimes], WriteTimes],
    ensure_locked: EnsureLocked,
) -> None:
    """Write what records do.

    Args:
        run: the context of the run.
        records: decoded; all can be read.
        batch: how they are folded.
        notes: those of their topic partitions; of a run that died here, some may be left.
        begin: called before the first write with the newest write time of the heads, by topic
            partition; returns the bases.
        ensure_locked: called before each kind of write.

    Raises:
        LockLost: another run may work on a topic partition.
        TopicMoved: a key has changed its partition.
    """
    # A head that says that all is deleted no longer tells which segments there were.
    notes.purge(ensure_locked)
    actions = actions_of(records)
    journals = actions.select(*JOURNAL_KEY, "partition").distinct()
    with kept(heads_of(journals.select(*JOURNAL_KEY), run.settings)) as heads:
        bases = local_rows(
            run.spark,
            [
                (one.topic, one.partition, base)
                for one, base in begin(_newest_writes(journals, heads)).items()
            ],
            "topic string, partition int, write_time_base bigint",
        )
        with kept(folded(actions, heads, batch)) as after:
            has_deletions = not after.where(F.size("deletions") > 0).isEmpty()
            if has_deletions:
                ensure_locked()
                notes.note(changes.deletions(after, bases))
                notes.purge(ensure_locked)
            _write_events(run, records, changes.written_rows(records, after, bases), ensure_locked)
            changed = changes.changed_heads(after, bases)
            ensure_locked()
            # First, since a head that is written counts as done.
            rows.remove_expiry(changed, run.settings)
            ensure_locked()
            rows.write_heads(changed, run.settings, batch.at)
    notes.delete(ensure_locked)
    ensure_locked()
    notes.forget()


def _write_events(
    run: RunContext, records: DataFrame, events: DataFrame, ensure_locked: EnsureLocked
) -> None:
    with kept(changes.large(records, run.settings.cassandra_batch_size)) as large:
        has_large = not large.isEmpty()
        ensure_locked()
        small = events.join(large, list(JOURNAL_KEY), "left_anti") if has_large else events
        rows.write_events(small, run.settings, in_order=False)
        if has_large:
            ensure_locked()
            big = events.join(large, list(JOURNAL_KEY), "left_semi")
            rows.write_events(big, run.settings, in_order=True)


def _newest_writes(journals: DataFrame, heads: DataFrame) -> WriteTimes:
    """Return the newest write time of the heads, by topic partition.

    Raises:
        TopicMoved: a head was written from another partition: offsets of two do not compare.
    """
    moved = F.col("head")["partition"] != F.col("partition")
    found = (
        journals.join(heads, list(JOURNAL_KEY))
        .groupBy("topic", "partition")
        .agg(
            F.max("write_time").alias("write_time"),
            F.count_if(moved).alias("moved"),
            F.min_by(F.struct("id", "head"), F.when(moved, F.col("id"))).alias("one"),
        )
        .collect()
    )
    for row in found:
        if row["moved"]:
            raise TopicMoved(
                f"{row['moved']} keys have come from another partition, such as"
                f" {row['one']['id']} from {row['one']['head']['partition']}: the topic was"
                " repartitioned, and offsets of two partitions do not compare",
                where=f"{row['topic']}/{row['partition']}",
                do="nothing was written; write to a new topic with the new number of partitions",
            )
    return {
        TopicPartition(row["topic"], row["partition"]): row["write_time"]
        for row in found
        if row["write_time"] is not None
    }


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep a frame on disk while the block works with it."""
    stored = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield stored
    finally:
        stored.unpersist()
