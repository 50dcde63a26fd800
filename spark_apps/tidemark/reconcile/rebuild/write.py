"""Writes complete series of tag-view rows from messages: rows, progress, scanning and tails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, message_rows
from tidemark.journals.pekko.shapes import EVENT, WHOLE_MESSAGES
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.ledger.purged import emptied_buckets
from tidemark.numbering import rule
from tidemark.partitioning import keys
from tidemark.spark.read_once import kept_once, shuffled_once
from tidemark.spark.shapes import shaped
from tidemark.tag_write import events, rules, store, transform
from tidemark.tag_write.rules import TagRule
from tidemark.window import to_millis

YOUNG, PURGED = "young", "purged"
COUNTED = ("cause", YOUNG, PURGED, *PAYLOAD_COLUMNS)


@shaped(messages=WHOLE_MESSAGES)
def write_series(
    run: RunContext,
    messages: DataFrame,
    tag_rules: Sequence[TagRule],
    tags: frozenset[str] | None,
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    """Write the series of these complete messages as if nothing existed yet, numbered from 1.

    Messages are read and shuffled once, before each event is repeated for its tags: progress and
    rows come from the same events, whatever is written meanwhile. In each persistence id, the first
    event younger than the eventual-consistency delay and all later ones are left to the next run of
    tag-write: clocks may disagree about which events are young. With `tags`, only these are
    written, and tag_scanning is not, since it covers all tags of a persistence id.

    Returns:
        tag_rows_written, progress_rows_written, quarantined.
    """
    run.say("reading messages")
    purged = emptied_buckets(run.control, run.settings)
    tagged = _needed(events.tagged(messages, tag_rules), tags)
    marks = {YOUNG: F.when(_is_young(run), True), PURGED: F.when(_is_purged(purged), True)}
    shuffled = shuffled_once(tagged.withColumns(marks), "persistence_id")
    try:
        shuffled.count()
        deleted = frames.deleted(run.spark, run.settings)
        present = message_rows.undeleted(shuffled, deleted)
        return _write(run, present, tag_rules, tags, ensure_locked)
    finally:
        shuffled.unpersist()


@shaped(events_read=EVENT, returns=EVENT)
def before_first(events_read: DataFrame, condition: Column) -> DataFrame:
    """Return the events of each persistence id before the first for which a condition holds.

    All columns are kept.
    """
    first = (
        events_read.where(condition)
        .groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("first_nr"))
    )
    return (
        events_read.join(first, on="persistence_id", how="left")
        .where(F.col("first_nr").isNull() | (F.col("sequence_nr") < F.col("first_nr")))
        .select(*events_read.columns)
    )


def _write(
    run: RunContext,
    tagged: DataFrame,
    tag_rules: Sequence[TagRule],
    tags: frozenset[str] | None,
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    series, totals = _counted(tagged)
    if totals[YOUNG]:
        series.unpersist()
        tagged = before_first(tagged, F.col(YOUNG).isNotNull())
        series, totals = _counted(tagged)
    if totals.cause:
        ensure_locked()
        store.quarantine_unwritable(run, tagged)
    run.say("numbering, writing the tag views")
    rows = rule.ranked(tagged).where(F.col(PURGED).isNull())
    # Leaving columns unset that no event has would cost as much as writing the others.
    absent = [name for name in PAYLOAD_COLUMNS if not totals[name]]
    span = (totals.last or 0) - (totals.first or 0)
    time_buckets = span // run.settings.bucket_size.milliseconds + 1
    # Later than the deletes, made by the driver or by executors: clocks may disagree.
    stamp = max(run.control.write_time(), connector.latest_clock(run.spark) + 1)
    ensure_locked()
    store.write_tag_views(
        transform.tag_view_rows(rows).drop(*absent),
        run.settings,
        totals.tags * time_buckets,
        write_time=stamp,
    )
    run.say("writing tag_write_progress and tag_scanning")
    ensure_locked()
    progress = transform.last_of_whole_series(series, tagged)
    store.write_progress(progress, run.settings, write_time=stamp)
    if tags is None:
        _write_scanning(run, series, rules.version(tag_rules), stamp, ensure_locked)
    series.unpersist()
    return {
        "tag_rows_written": (totals.rows or 0) - totals[PURGED],
        "progress_rows_written": totals.series,
        "quarantined": totals.cause,
    }


def _counted(tagged: DataFrame) -> tuple[DataFrame, Row]:
    """Return `transform.whole_series`, kept, and its totals, among them those of `COUNTED`."""
    series = kept_once(transform.whole_series(tagged, COUNTED), StorageLevel.DISK_ONLY)
    is_tagged = F.col("tag").isNotNull()
    totals = {
        "rows": F.sum(F.when(is_tagged, F.col("tag_pid_sequence_nr"))),
        "series": F.count("tag"),
        "tags": F.approx_count_distinct("tag"),
        "first": F.min(F.when(is_tagged, F.col("first_time_bucket"))),
        "last": F.max(F.when(is_tagged, F.col("last_time_bucket"))),
    }
    totals |= {name: F.coalesce(F.sum(name), F.lit(0)) for name in COUNTED}
    row = series.agg(*[total.alias(name) for name, total in totals.items()]).first()
    assert row is not None  # noqa: S101 - an aggregate without groups has one row
    return series, row


def _is_young(run: RunContext) -> Column:
    delay = timedelta(seconds=run.settings.events_by_tag_eventual_consistency_delay)
    return F.col("ticks") >= keys.epoch_ms_ticks(to_millis(clock.now() - delay))


def _is_purged(time_buckets: Collection[int]) -> Column:
    """Return whether purge deleted an event's row; only `tag_write.py --force` restores it."""
    has_tags = F.coalesce(F.size("tags") > 0, F.lit(False))
    return has_tags & F.col("time_bucket").isin(*time_buckets) if time_buckets else F.lit(False)


def _needed(tagged: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    """Return the events to shuffle: of untagged events only the key, and only for tag_scanning.

    Events that cannot be written have a cause instead of tags, and are always included.
    """
    if tags is not None:
        tags_left = F.array_intersect("tags", F.array(*map(F.lit, sorted(tags))))
        has_tags = F.size(tags_left) > 0
        return tagged.withColumn("tags", tags_left).where(has_tags | F.col("cause").isNotNull())
    return events.with_payload_where(tagged, F.lit(True))


def _write_scanning(
    run: RunContext, series: DataFrame, version: str, stamp: int, ensure_locked: EnsureLocked
) -> None:
    # Not from the progress: persistence ids without tags are complete as well.
    tails = series.groupBy("persistence_id").agg(
        F.max("sequence_nr").alias("sequence_nr"),
        F.max("sequence_nr").alias("read_to"),
        F.count("tag").cast("int").alias("series"),
    )
    ensure_locked()
    rows = tails.select("persistence_id", "sequence_nr")
    store.write_scanning(rows, run.settings, write_time=stamp)
    ensure_locked()
    store.write_tails(tails, run.settings, version, write_time=stamp)
