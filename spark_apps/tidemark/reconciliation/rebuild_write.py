"""Writing whole series of tag-view rows from messages: rows, then progress, scanning and tails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.application import Run
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.ledger import applications, quarantine
from tidemark.tagging import events, rules, store, transform
from tidemark.tagging.rules import Rule

Messages = Callable[..., DataFrame]


def write_series(
    run: Run,
    messages: Messages,
    tag_rules: Sequence[Rule],
    tags: frozenset[str] | None,
    check: Callable[[], None],
) -> Mapping[str, int]:
    """Write the series of these messages as if nothing had been there, numbered from 1.

    The payloads are read once and shuffled once, before each event is repeated for its tags; what
    the progress says is counted in a second read, of the keys, which holds nothing in memory.

    Args:
        run: the application's frame.
        messages: gives the messages with the payload columns that it is given the names of.
        tag_rules: the rules that add tags.
        tags: only these, or None. With tags named, tag_scanning is left as it is: it speaks of
            all tags of a persistence id.
        check: raises LockLost when the run must not write any more.

    Returns:
        tag_rows_written, progress_rows_written, quarantined.
    """
    run.say("reading messages, numbering, writing the tag views")
    written, seen = Observation("rows"), Observation("events")
    tagged = events.tagged(messages(*PAYLOAD_COLUMNS), tag_rules).observe(
        seen, F.count("cause").alias("quarantined")
    )
    rows = _of_tags(transform.ranked(_narrowed(tagged, tags)), tags)
    rows = rows.withColumn("tag_pid_sequence_nr", F.col("rank"))
    check()
    store.write_tag_views(
        transform.tag_view_rows(rows).observe(written, F.count("*").alias("rows")), run.settings
    )
    quarantined = int(seen.get["quarantined"])
    if quarantined:
        check()
        _quarantine(run, messages, tag_rules)
    run.say("writing tag_write_progress and tag_scanning")
    index = events.index_of(messages(*events.READ), tag_rules)
    progress = _write_completeness(run, index, tag_rules, tags, check)
    return {
        "tag_rows_written": int(written.get["rows"]),
        "progress_rows_written": progress,
        "quarantined": quarantined,
    }


def _narrowed(tagged: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    """Without the events that have none of the tags, so that they are not shuffled."""
    if tags is None:
        return tagged.where(F.col("tags").isNotNull())
    return tagged.where(F.arrays_overlap("tags", F.array(*map(F.lit, sorted(tags)))))


def _of_tags(tagged: DataFrame, tags: frozenset[str] | None) -> DataFrame:
    return tagged if tags is None else tagged.where(F.col("tag").isin(*sorted(tags)))


def _quarantine(run: Run, messages: Messages, tag_rules: Sequence[Rule]) -> None:
    settings = run.settings
    quarantine.write(
        events.unwritable(messages(*events.READ), tag_rules),
        settings,
        source=f"{settings.journal_keyspace}.{settings.journal_table}",
        application=applications.RECONCILE,
        run_id=run.run_id,
    )


def _write_completeness(
    run: Run,
    index: DataFrame,
    tag_rules: Sequence[Rule],
    tags: frozenset[str] | None,
    check: Callable[[], None],
) -> int:
    counted = Observation("progress")
    progress = _progress(_of_tags(_exploded(index), tags))
    check()
    store.write_progress(progress.observe(counted, F.count("*").alias("rows")), run.settings)
    if tags is None:
        # Not from the progress alone: what has no tag is complete as well.
        last = index.groupBy("persistence_id").agg(F.max("sequence_nr").alias("sequence_nr"))
        check()
        store.write_scanning(last, run.settings)
        numbers = F.map_from_entries(F.collect_list(F.struct("tag", "tag_pid_sequence_nr")))
        tails = last.join(
            progress.groupBy("persistence_id").agg(numbers.alias("numbers")),
            on="persistence_id",
            how="left",
        )
        check()
        store.write_tails(tails, run.settings, rules.version(tag_rules))
    return int(counted.get["rows"])


def _exploded(index: DataFrame) -> DataFrame:
    return index.where(F.col("tags").isNotNull()).withColumn("tag", F.explode("tags"))


def _progress(tagged: DataFrame) -> DataFrame:
    """`transform.last_of_series` where the number is the count: no order is needed for it."""
    last = F.max(F.struct(*transform.EVENT_ORDER, "timestamp")).alias("last")
    return (
        tagged.groupBy(*transform.SERIES)
        .agg(F.count("*").alias("tag_pid_sequence_nr"), last)
        .select(
            *transform.SERIES,
            "last.sequence_nr",
            "tag_pid_sequence_nr",
            F.col("last.timestamp").alias("offset"),
        )
    )
