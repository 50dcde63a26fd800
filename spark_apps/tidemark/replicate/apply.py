"""The writes of a batch, in the promised order: notes, purges, events, heads, deletes.

It may end anywhere. A run that does the same records again, with the same write time bases, writes
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate import changes
from tidemark.replicate.events import actions_of
from tidemark.replicate.fold import ActionBatch, folded
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.tables import rows
from tidemark.replicate.tables.deletions import Notes
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept

WriteTimes = Mapping[TopicPartition, int]
"""Write times in microseconds, or what offsets are added to for them."""


def apply(
    run: RunContext,
    records: DataFrame,
    batch: ActionBatch,
    notes: Notes,
    begin: Callable[[WriteTimes], WriteTimes],
    ensure_locked: EnsureLocked,
    *,
    appends_only: bool = False,
    accepts_moved: bool = False,
) -> bool:
    """Write what records do.

    Args:
        run: the context of the run.
        records: decoded; all can be read, and those of a journal are in one partition of the frame.
        batch: how they are folded.
        notes: those of their topic partitions; of a run that died here, some may be left.
        begin: called before the first write with the newest write time of the heads, by topic
            partition; returns the bases.
        ensure_locked: called before each kind of write.
        appends_only: whether no record is a delete or purge.
        accepts_moved: whether the records of a key may be of another partition than its head; all
            records of a key are of one.

    Returns:
        False if keys have moved that may not: then nothing is written.

    Raises:
        LockLost: another run may work on a topic partition.
    """
    # A head that says that all is deleted no longer tells which segments there were.
    notes.purge(ensure_locked)
    actions = actions_of(records)
    heads = heads_of(actions.select(*JOURNAL_KEY).distinct(), run.settings)
    with kept(folded(actions, heads, batch, appends_only=appends_only)) as after:
        told = _told(after, run.settings.cassandra_batch_size)
        if not accepts_moved and any(one["has_moved"] for one in told):
            return False
        bases = local_rows(
            run.spark,
            [(one.topic, one.partition, base) for one, base in begin(_newest(told)).items()],
            "topic string, partition int, write_time_base bigint",
        )
        if any(one["deletions"] for one in told):
            ensure_locked()
            notes.note(changes.deletions(after, bases))
            notes.purge(ensure_locked)
        events = changes.written_rows(records, after, bases, appends_only=appends_only)
        if any(one["large"] for one in told):
            rows.write_in_waves(events, run.settings, ensure_locked)
        else:
            ensure_locked()
            rows.write_events(events, run.settings)
        changed = changes.changed_heads(after, bases)
        if any(one["without_expiry"] for one in told):
            # First, since a head that is written counts as done.
            ensure_locked()
            rows.remove_expiry(changed, run.settings)
        ensure_locked()
        rows.write_heads(changed, run.settings, batch.at)
    notes.delete(ensure_locked)
    ensure_locked()
    notes.forget()
    return True


def _told(after: DataFrame, batch_size: int) -> list[Row]:
    """Return what there is to do of each topic partition, and what its heads say."""
    return (
        after.groupBy("topic", "partition")
        .agg(
            F.max("write_time_before").alias("write_time"),
            F.bool_or("has_moved").alias("has_moved"),
            F.count_if(F.size("deletions") > 0).alias("deletions"),
            F.count_if(F.col("bytes") > batch_size).alias("large"),
            F.count_if(rows.loses_expiry()).alias("without_expiry"),
        )
        .collect()
    )


def _newest(told: Sequence[Row]) -> WriteTimes:
    """Return the newest write time of the heads, by topic partition."""
    return {
        TopicPartition(row["topic"], row["partition"]): row["write_time"]
        for row in told
        if row["write_time"] is not None
    }
