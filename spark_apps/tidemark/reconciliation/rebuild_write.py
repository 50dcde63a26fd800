"""Writing whole series of tag-view rows from messages: rows, then progress, scanning and tails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.application import Run
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.shuffled import shuffled_once
from tidemark.tagging import events, rules, store, transform
from tidemark.tagging.rules import Rule


def write_series(
    run: Run,
    messages: DataFrame,
    tag_rules: Sequence[Rule],
    tags: frozenset[str] | None,
    check: Callable[[], None],
) -> Mapping[str, int]:
    """Write the series of these messages as if nothing had been there, numbered from 1.

    Messages are read once and shuffled once, before each event is repeated for its tags: the
    progress is counted from the same events as the rows, whatever is written meanwhile.

    Args:
        run: the application's frame.
        messages: those of `journal.frames.message_index` with the payload columns.
        tag_rules: the rules that add tags.
        tags: only these, or None. With tags named, tag_scanning is left as it is: it speaks of
            all tags of a persistence id.
        check: raises LockLost when the run must not write any more.

    Returns:
        tag_rows_written, progress_rows_written, quarantined.
    """
    run.say("reading messages")
    tagged = _needed(events.tagged(messages, tag_rules), tags)
    kept = shuffled_once(tagged, "persistence_id")
    counted = ("cause", *PAYLOAD_COLUMNS)
    series = transform.whole_series(kept, counted).persist(StorageLevel.DISK_ONLY)
    is_tagged = F.col("tag").isNotNull()
    totals = {
        "rows": F.sum(F.when(is_tagged, F.col("tag_pid_sequence_nr"))),
        "series": F.count("tag"),
        "tags": F.approx_count_distinct("tag"),
        "first": F.min(F.when(is_tagged, F.col("first_time_bucket"))),
        "last": F.max(F.when(is_tagged, F.col("last_time_bucket"))),
    }
    totals |= {name: F.sum(name) for name in counted}
    found = series.agg(*[total.alias(name) for name, total in totals.items()]).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    if found.cause:
        check()
        store.quarantine_unwritable(run, messages, tag_rules)
    run.say("numbering, writing the tag views")
    rows = transform.ranked(kept).where(F.col("tag").isNotNull())
    rows = rows.withColumn("tag_pid_sequence_nr", F.col("rank"))
    # Columns that no event has would cost as much as the others, to leave them unset.
    absent = [name for name in PAYLOAD_COLUMNS if not found[name]]
    span = (found.last or 0) - (found.first or 0)
    time_buckets = span // run.settings.bucket_size.milliseconds + 1
    check()
    store.write_tag_views(
        transform.tag_view_rows(rows).drop(*absent), run.settings, found.tags * time_buckets
    )
    run.say("writing tag_write_progress and tag_scanning")
    check()
    store.write_progress(transform.last_of_whole_series(series, kept), run.settings)
    if tags is None:
        _write_scanning(run, series, rules.version(tag_rules), check)
    series.unpersist()
    return {
        "tag_rows_written": found.rows or 0,
        "progress_rows_written": found.series,
        "quarantined": found.cause or 0,
    }


def _needed(tagged: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    """What must be shuffled: of events without any tag the key only, and only for tag_scanning.

    Those that cannot be written have a cause instead of tags, and are counted whatever is asked.
    """
    if tags is not None:
        of_these = F.array_intersect("tags", F.array(*map(F.lit, sorted(tags))))
        has_one = F.size(of_these) > 0
        return tagged.withColumn("tags", of_these).where(has_one | F.col("cause").isNotNull())
    has_tags = F.col("tags").isNotNull()
    return tagged.withColumns({name: F.when(has_tags, F.col(name)) for name in PAYLOAD_COLUMNS})


def _write_scanning(run: Run, series: DataFrame, version: str, check: Callable[[], None]) -> None:
    # Not from the progress: what has no tag is complete as well.
    number = F.struct("tag", "tag_pid_sequence_nr")
    tails = series.groupBy("persistence_id").agg(
        F.max("sequence_nr").alias("sequence_nr"),
        F.map_from_entries(F.collect_list(F.when(F.col("tag").isNotNull(), number))).alias(
            "numbers"
        ),
    )
    check()
    store.write_scanning(tails.select("persistence_id", "sequence_nr"), run.settings)
    check()
    store.write_tails(tails, run.settings, version)
