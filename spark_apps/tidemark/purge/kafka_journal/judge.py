"""Which journals have expired, and why some of them are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka import expired, segment_size
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.partitioning import columns
from tidemark.purge.kafka_journal.shapes import EXPIRED, JUDGED
from tidemark.purge.needs import shapes
from tidemark.purge.needs.kafka_journal import TopicNeeds, needed_of_topics
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

MOST_SEGMENTS = 100_000
"""Segments of one journal that a purge may delete: with more, its seq_nr must have leapt."""
_KEY = list(JOURNAL_KEY)


@shaped(returns=EXPIRED)
def expired_heads(run: RunContext, today: date, topics: Collection[str]) -> DataFrame:
    """Read the expired journals from the heads that readers find; in memory.

    If a journal has two heads, in the segments of two releases, only the one that readers find
    counts, whether or not the other has expired.
    """
    settings = run.settings
    keys = expired.expired_journals(run.spark, settings, today, topics).localCheckpoint()
    head = F.col("head")
    deleted_to = F.coalesce(head["delete_to"], F.lit(0)).cast("bigint")
    seq_nr = F.coalesce(head["seq_nr"], F.lit(0)).cast("bigint")
    size = segment_size.of_column(head["segment_size"])
    first, last = F.greatest(F.least(seq_nr, deleted_to), F.lit(1)), F.greatest(seq_nr, deleted_to)
    # One segment more on both sides, as upstream (docs/real-systems.md, "Order of writes").
    fields = {
        "partition": head["partition"],
        "offset": head["offset"],
        "seq_nr": seq_nr,
        "deleted_to": deleted_to,
        "expire_on": head["expire_on"],
        "first_segment": F.greatest(columns.journal_segment(first, size) - 1, F.lit(0)),
        "last_segment": columns.journal_segment(F.greatest(last, F.lit(1)), size) + 1,
    }
    heads = heads_of(keys, settings).where(expired.has_expired(head["expire_on"], today))
    return heads.select(
        *_KEY, *(value.cast(EXPIRED[name]).alias(name) for name, value in fields.items())
    ).localCheckpoint()


@shaped(journals=EXPIRED, unreplicated=JOURNAL_KEY, held_keys=JOURNAL_KEY, returns=JUDGED)
def with_reasons(
    journals: DataFrame,
    rejected: Mapping[TopicPartition, str],
    unreplicated: DataFrame,
    held_keys: DataFrame,
) -> DataFrame:
    """Return expired journals with the reasons to keep them that do not depend on readers.

    `rejected` has the reason to keep all journals of a topic partition; `unreplicated` and
    `held_keys` are the keys of records that are not replicated yet, or held in quarantine.
    """
    rejected_rows = local_rows(
        journals.sparkSession,
        [(tp.topic, tp.partition, reason) for tp, reason in rejected.items()],
        "topic string, partition int, place string",
    )
    count = F.col("last_segment") - F.col("first_segment") + 1
    reason = F.coalesce(
        F.col("place"),
        F.when(F.col("is_unreplicated"), "records of it are not replicated yet"),
        F.when(F.col("is_held"), "records of it are held in quarantine"),
        F.when(count > MOST_SEGMENTS, f"it has more than {MOST_SEGMENTS:,} segments"),
    )
    joined = (
        journals.join(F.broadcast(rejected_rows), ["topic", "partition"], "left")
        .join(unreplicated.select(*_KEY, F.lit(True).alias("is_unreplicated")), _KEY, "left")
        .join(held_keys.select(*_KEY, F.lit(True).alias("is_held")), _KEY, "left")
    )
    return joined.withColumn("reason", reason).select(*JUDGED)


@shaped(judged=JUDGED)
def with_needs(
    run: RunContext, judged: DataFrame, given_up: Collection[str]
) -> tuple[DataFrame, TopicNeeds]:
    """Return journals (JUDGED, in memory) with the readers that need them, and the needs."""
    # Without readers this frame is never computed.
    events = _events(run, judged.where(F.col("reason").isNull())).persist()
    try:
        needs = needed_of_topics(run, events, given_up)
        if needs.everything:
            unknown = F.coalesce("reason", F.lit("its needs are unknown"))
            return judged.withColumn("reason", unknown), needs
        key = ["topic", "persistence_id"]
        needed = events.join(needs.per_id, key).where(F.col("sequence_nr") >= F.col("needed_from"))
        readers = needed.groupBy(*key).agg(F.min("reader").alias("reader"))
        readers = readers.withColumnRenamed("persistence_id", "id")
        by_reader = F.coalesce("reason", F.concat(F.lit("needed by "), F.col("reader")))
        with_readers = judged.join(readers, _KEY, "left").withColumn("reason", by_reader)
        return with_readers.select(*JUDGED).localCheckpoint(), needs
    finally:
        events.unpersist()


@shaped(journals=JUDGED, returns=shapes.TOPIC_EVENTS)
def _events(run: RunContext, journals: DataFrame) -> DataFrame:
    """Return the events of journals that readers see."""
    spans = journals.select(*_KEY, F.sequence("first_segment", "last_segment").alias("segments"))
    segments = spans.select(*_KEY, F.explode("segments").alias("segment"))
    remaining = expired.rows_left(segments, run.settings)
    alive = remaining.join(journals.select(*_KEY, "deleted_to"), _KEY)
    return alive.where(F.col("seq_nr") > F.col("deleted_to")).select(
        "topic",
        F.col("id").alias("persistence_id"),
        F.col("seq_nr").alias("sequence_nr"),
        columns.epoch_ms_ticks(F.col("epoch_ms")).alias("ticks"),
        columns.time_bucket(F.col("epoch_ms"), run.settings.bucket_size).alias("time_bucket"),
        "partition",
        "offset",
    )


@shaped(judged=JUDGED, returns=JUDGED)
def in_turn(judged: DataFrame, most: int) -> DataFrame:
    """Return the journals to purge in one run: the first to expire, topics taking turns."""
    in_topic = Window.partitionBy("topic").orderBy("expire_on", "id")
    free = judged.where(F.col("reason").isNull()).withColumn("turn", F.row_number().over(in_topic))
    return free.orderBy("turn", "topic").limit(most).drop("turn")
