"""The writes of a batch, in the promised order: notes, purges, events, heads, deletes.

A run may stop anywhere: repeating the same records with the same write time bases writes the same.
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
from tidemark.replicate.fold import folded
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.tables import rows
from tidemark.replicate.tables.deletions import Notes
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept

WriteTimes = Mapping[TopicPartition, int]
"""Write times in microseconds, or bases: a base plus an offset is a write time."""


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
    """Write the changes that records make.

    Args:
        run: for the settings.
        records: decoded and readable; those of a journal are in one partition of the frame.
        batch: how they are folded.
        notes: those of their topic partitions; some may remain from a run that died here.
        begin: called before the first write with the newest write time of the heads, by topic
            partition; returns the bases.
        ensure_locked: called before each kind of write.
        appends_only: whether no record is a delete or purge.
        accepts_moved: whether the records of a key may be of another partition than its head; all
            records of a key are of one.

    Returns:
        False if keys have moved although they must not: then nothing is written.

    Raises:
        LockLost: another run may work on a topic partition.
    """
    # Once its head records that all is deleted, a journal's segments are known only from the note.
    notes.purge(ensure_locked)
    actions = actions_of(records)
    heads = heads_of(actions.select(*JOURNAL_KEY).distinct(), run.settings)
    with kept(folded(actions, heads, batch, appends_only=appends_only)) as after:
        work = _work_of(after, run.settings.cassandra_batch_size)
        if not accepts_moved and any(row["has_moved"] for row in work):
            return False
        bases = local_rows(
            run.spark,
            [(tp.topic, tp.partition, base) for tp, base in begin(_newest(work)).items()],
            "topic string, partition int, write_time_base bigint",
        )
        if any(row["deletions"] for row in work):
            ensure_locked()
            notes.note(changes.deletions(after, bases))
            notes.purge(ensure_locked)
        events = changes.written_rows(records, after, bases, appends_only=appends_only)
        if any(row["large"] for row in work):
            rows.write_in_waves(events, run.settings, ensure_locked)
        else:
            ensure_locked()
            rows.write_events(events, run.settings)
        changed = changes.changed_heads(after, bases)
        if any(row["without_expiry"] for row in work):
            # First, since an action counts as done once its head is written.
            ensure_locked()
            rows.remove_expiry(changed, run.settings)
        ensure_locked()
        rows.write_heads(changed, run.settings, batch.at)
    notes.delete(ensure_locked)
    ensure_locked()
    notes.forget()
    return True


def _work_of(after: DataFrame, batch_size: int) -> list[Row]:
    """Return the work on each topic partition, and the state of its heads."""
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


def _newest(work: Sequence[Row]) -> WriteTimes:
    """Return the newest write time of the heads, by topic partition."""
    return {
        TopicPartition(row["topic"], row["partition"]): row["write_time"]
        for row in work
        if row["write_time"] is not None
    }
