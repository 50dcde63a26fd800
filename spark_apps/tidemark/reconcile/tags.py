"""tags: lists the tags, from the messages and not only from tag_write_progress."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.partitioning import keys
from tidemark.reconcile.journal import require_journal
from tidemark.validate.reading.examine import read_keys
from tidemark.validate.scope import Scope, require_known
from tidemark.validate.tag_views.keys import Keys, once
from tidemark.window import from_millis

NUMBERS = ("events", "persistence_ids", "rows", "progress_rows", "ids_without_progress")


def run_tags(run: RunContext, scope: Scope, *, limit: int) -> Outcome:
    """List the tags of the scope's persistence ids, at most `limit` of them."""
    require_journal(run)
    require_known(run, scope)
    run.say("reading messages, tag views and progress")
    journal = read_keys(run, scope, are_applied=True)
    tags = by_tag(journal.keys.settled(once)).localCheckpoint()
    number = tags.count()
    [totals] = tags.agg(
        F.count_if(F.col("events") == 0).alias("tags_without_events"),
        F.coalesce(F.sum("ids_without_progress"), F.lit(0)).alias("ids_without_progress"),
    ).collect()
    lines = [_line(row.asDict()) for row in tags.orderBy("tag").limit(limit).collect()]
    if number > limit:
        lines.append(f"and {number - limit:,} more; --limit shows them")
    counts = {"tags": number, **totals.asDict()}
    return Outcome(RunState.DONE, PieceCounts(planned=1, done=1), counts, lines)


def by_tag(journal: Keys) -> DataFrame:
    """Return one row for each tag in messages, tag views or progress.

    Columns out: tag, NUMBERS (bigint; events and persistence_ids count messages), first_ticks,
    last_ticks (bigint, 100 ns since 1582; null without events).
    """
    tagged = journal.index.select("persistence_id", "ticks", F.explode("tags").alias("tag"))
    series = tagged.select("persistence_id", "tag").distinct()
    parts = [
        tagged.groupBy("tag").agg(
            F.count("*").alias("events"),
            F.min("ticks").alias("first_ticks"),
            F.max("ticks").alias("last_ticks"),
        ),
        series.groupBy("tag").agg(F.count("*").alias("persistence_ids")),
        journal.rows.groupBy("tag").agg(F.count("*").alias("rows")),
        journal.progress.groupBy("tag").agg(F.count("*").alias("progress_rows")),
        series.join(journal.progress, on=["persistence_id", "tag"], how="left_anti")
        .groupBy("tag")
        .agg(F.count("*").alias("ids_without_progress")),
    ]
    joined = reduce(lambda left, right: left.join(right, on="tag", how="full"), parts)
    return joined.fillna(0, subset=list(NUMBERS))


def _line(tag: dict[str, Any]) -> str:
    facts = [f"{name.replace('_', ' ')} {tag[name]:,}" for name in NUMBERS]
    if tag["events"]:
        facts.insert(2, f"{_time(tag['first_ticks'])} to {_time(tag['last_ticks'])}")
    return f"{tag['tag']}: {', '.join(facts)}"


def _time(ticks: int) -> str:
    epoch_ms = (ticks - keys.UUID_EPOCH_TICKS) // keys.TICKS_PER_MS
    return f"{from_millis(epoch_ms):%Y-%m-%dT%H:%M:%SZ}"
