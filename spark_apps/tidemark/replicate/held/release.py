"""Releases records that have waited, at the end of a run of replicate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.kafka import segment_size, written
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.decode import decoded
from tidemark.journals.kafka.wire.shapes import DECODED, PLACE, RECORDS
from tidemark.partitioning import columns
from tidemark.replicate import quarantine
from tidemark.replicate.apply import apply
from tidemark.replicate.held import moved
from tidemark.replicate.held.write_times import later_than_all
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import batch_now
from tidemark.replicate.quarantined import Quarantined, with_any
from tidemark.replicate.shapes import HEADS, STOPPED
from tidemark.replicate.tables.deletions import Notes, Purpose
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.read_once import kept
from tidemark.spark.shapes import shaped


def release_waiting(
    run: RunContext,
    partitions: Sequence[TopicPartition],
    ended: Mapping[TopicPartition, bool],
    ensure_locked: EnsureLocked,
) -> int:
    """Replicate the waiting records that are next; return how many left quarantine.

    They leave quarantine last, so a run that died is repeated. Unreadable ones are held afterwards.

    `partitions` are those that are locked: all of their topics. `ended` has the partitions that are
    replicated up to their ends at the start of the run, each with whether that is still its end.
    """
    number = 0
    while with_waiting := with_any(run, partitions, Quarantined.WAITING):
        run.start_spark()
        prepare_python_workers(run.spark)
        released = _turn(run, with_waiting, partitions, ended, ensure_locked)
        if not released:
            break
        number += released
    return number


def _turn(
    run: RunContext,
    with_waiting: Sequence[TopicPartition],
    partitions: Sequence[TopicPartition],
    ended: Mapping[TopicPartition, bool],
    ensure_locked: EnsureLocked,
) -> int:
    """Release the next records of each key without a held record."""
    stored = quarantine.stored_records(run, with_waiting, Quarantined.WAITING)
    stored = quarantine.without_held(run, stored, partitions)
    with kept(stored) as records, kept(decoded(records)) as parsed:
        waiting = parsed.join(records.select(*PLACE, "run_id"), list(PLACE)).withColumn(
            "is_settled", _is_settled(partitions, ended, run.run_id)
        )
        heads = heads_of(parsed.select(*JOURNAL_KEY).distinct(), run.settings).localCheckpoint()
        places = _stored(run, parsed, heads)
        with kept(moved.fates(waiting, heads, places)) as leaving:
            number = leaving.count()
            if number:
                _replicate(run, records.select(*RECORDS), leaving, with_waiting, ensure_locked)
    return number


def _is_settled(
    partitions: Collection[TopicPartition], ended: Mapping[TopicPartition, bool], run_id: str
) -> Column:
    """Return whether no older record of the key of a waiting record can come any more.

    Records that this run has found may be newer than the ends that it knows.
    """
    topics = {p.topic for p in partitions}
    read = {topic for topic in topics if all(p in ended for p in partitions if p.topic == topic)}
    quiet = {topic for topic in read if all(ended[p] for p in partitions if p.topic == topic)}
    topic = F.col("topic")
    is_older = topic.isin(*read) & (F.col("run_id") != run_id) if read else F.lit(False)
    return (topic.isin(*quiet) if quiet else F.lit(False)) | is_older


@shaped(waiting=DECODED, heads=HEADS, returns=PLACE)
def _stored(run: RunContext, waiting: DataFrame, heads: DataFrame) -> DataFrame:
    """Return the places of waiting records whose events journal has already."""
    head_numbers = heads.select(
        *JOURNAL_KEY,
        F.col("head")["seq_nr"].alias("reached"),
        segment_size.of_column(F.col("head")["segment_size"]).alias("size"),
    )
    last_nr = F.element_at("events", -1)["seq_nr"]
    old = waiting.join(head_numbers, list(JOURNAL_KEY)).where(last_nr <= F.col("reached"))
    segments = old.select(
        "topic",
        F.col("id").alias("persistence_id"),
        columns.journal_segment(last_nr, F.col("size")).alias("segment"),
    )
    rows = written.event_rows_of(segments.distinct(), run.settings)
    stored = rows.select(*PLACE, F.col("persistence_id").alias("id"), "seq_nr")
    wanted = old.select(*PLACE, "id", last_nr.alias("seq_nr"))
    return (
        wanted.join(stored, [*PLACE, "id", "seq_nr"], "left_semi").select(*PLACE).localCheckpoint()
    )


def _replicate(
    run: RunContext,
    records: DataFrame,
    leaving: DataFrame,
    partitions: Sequence[TopicPartition],
    ensure_locked: EnsureLocked,
) -> None:
    fate = F.col("fate")
    good = leaving.where(fate == "next").select(*DECODED).repartition(*JOURNAL_KEY)
    begin = later_than_all(run, partitions, leaving)
    notes = Notes(run, partitions, Purpose.REPLAY)
    apply(run, good, batch_now(run.settings), notes, begin, ensure_locked, accepts_moved=True)
    ensure_locked()
    held = leaving.where(fate == "held").withColumn("state", F.lit(Quarantined.HELD.value))
    quarantine.write(records, held.select(*STOPPED), run.settings, run.run_id)
    ensure_locked()
    quarantine.release(run, leaving.select(*PLACE, "id"), Quarantined.WAITING)
