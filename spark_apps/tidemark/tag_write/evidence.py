"""The evidence for the numbers of what a run has read: progress, and rows that it asks for by key.

Rows are asked for only where progress leaves a doubt, and only those of the series in doubt, so
that they cost what they are and no scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import frames
from tidemark.journals.pekko.shapes import WRITE_PROGRESS
from tidemark.numbering import rule
from tidemark.numbering.rule import SERIES
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.tag_write import numbering, shapes

Ask = Callable[[DataFrame], DataFrame]
"""A function that reads the rows (TAG_ROWS) of keys (VIEW_PARTITIONS)."""


@dataclass(frozen=True)
class Begun:
    """What a run knows before it numbers what it has read.

    Attributes:
        progress: `journal.frames.write_progress`, read before the messages.
        complete: up to where each persistence id is complete; its later messages were read.
        ruled_tags: the tags that rules give.
        planned: the time buckets (epoch ms) of this run.
        bucket_size: of the tag views.
    """

    progress: DataFrame
    complete: DataFrame
    ruled_tags: Collection[str]
    planned: Collection[int]
    bucket_size: BucketSize


@dataclass(frozen=True)
class Numbered:
    """The events read, with their numbers.

    Attributes:
        entries: `numbering.entries`, in memory.
        spans: `numbering.spans` of them, in memory.
        points: NUMBERED_POINTS, in memory.
        contradicted: `numbering.contradictions`, in memory.
        reached: `numbering.positions` of the persistence ids that were read, in memory.
    """

    entries: DataFrame
    spans: DataFrame
    points: DataFrame
    contradicted: DataFrame
    reached: DataFrame


@shaped(index=shapes.INDEX)
def numbered(index: DataFrame, begun: Begun, ask: Ask) -> Numbered:
    """Number the events read, by progress, and by rows where progress leaves a doubt.

    Args:
        index: the events.
        begun: what is known before.
        ask: by key: for the event that progress names, unless it was read from the first one on;
            and of series in doubt for the events read, and for what is missing between them.
    """
    # Checkpoints and not caches: later plans would grow with each cache that they use, and a small
    # run spends most of its time on planning.
    entries = numbering.entries(index).localCheckpoint()
    spans = numbering.spans(entries).localCheckpoint()
    progress = begun.progress.join(spans, on="persistence_id").localCheckpoint()
    reached = numbering.positions(progress, begun.complete).localCheckpoint()
    of_progress = _rows_of_progress(entries, progress, reached, begun, ask).localCheckpoint()
    points = rule.points(entries, of_progress, reached).localCheckpoint()
    known = rule.known_shifts(points).localCheckpoint()
    numbers = rule.numbered(points, None if known.isEmpty() else known).localCheckpoint()
    in_doubt = numbering.doubts(numbers, begun.complete).localCheckpoint()
    if not in_doubt.isEmpty():
        numbers = _looked_at(entries, reached, of_progress, numbers, in_doubt, begun, ask)
    contradicted = numbering.contradictions(numbers, spans).localCheckpoint()
    return Numbered(entries, spans, numbers, contradicted, reached)


@shaped(
    entries=shapes.ENTRIES,
    progress={**WRITE_PROGRESS, **shapes.SPANS},
    reached=shapes.POSITIONS,
)
def _rows_of_progress(
    entries: DataFrame, progress: DataFrame, reached: DataFrame, begun: Begun, ask: Ask
) -> DataFrame:
    tagged = entries.where(F.col("tag").isNotNull()).select(*SERIES).distinct()
    is_counted = (F.col("lowest") == 1) & (F.col("progress_sequence_nr") <= F.col("highest"))
    asked = progress.where(~is_counted).join(tagged, on=SERIES, how="left_semi")
    keys = frames.placed(
        asked.withColumn("timestamp", F.col("progress_offset")), begun.bucket_size
    ).select(
        F.col("tag").alias("tag_name"),
        F.col("progress_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
    )
    return numbering.rows_of_progress(ask(keys), reached)


def _looked_at(
    entries: DataFrame,
    reached: DataFrame,
    of_progress: DataFrame,
    numbers: DataFrame,
    in_doubt: DataFrame,
    begun: Begun,
    ask: Ask,
) -> DataFrame:
    """Number the persistence ids in doubt again, with the rows that tell more of them."""
    ids = in_doubt.select("persistence_id").distinct().localCheckpoint()

    def of_ids(frame: DataFrame) -> DataFrame:
        return frame.join(ids, on="persistence_id", how="left_semi")

    of_events = of_ids(entries)
    keys = numbering.row_keys(of_events, in_doubt, begun.ruled_tags)
    partitions = numbering.partitions_of_holes(
        of_events, in_doubt, begun.complete, begun.planned, begun.bucket_size.milliseconds
    )
    rows = ask(keys).unionByName(of_ids(ask(partitions))).distinct().localCheckpoint()
    ends = [frame.select("persistence_id", "sequence_nr") for frame in (of_events, of_ids(reached))]
    seen = reduce(DataFrame.unionByName, ends).groupBy("persistence_id")
    of_rows = numbering.entries_of_rows(
        of_events, rows, seen.agg(F.max("sequence_nr").alias("seen_to")), begun.complete
    )
    all_entries = of_events.unionByName(of_rows, allowMissingColumns=True).localCheckpoint()
    event = [*SERIES, "sequence_nr", "timestamp"]
    of_entries = rows.join(all_entries.select(*event), on=event, how="left_semi")
    told = of_entries.withColumnRenamed("tag_pid_sequence_nr", "number").select(
        *of_progress.columns
    )
    points = rule.points(
        all_entries, told.unionByName(of_ids(of_progress)), of_ids(reached)
    ).localCheckpoint()
    again = rule.numbered(points, rule.known_shifts(points))
    others = numbers.join(ids, on="persistence_id", how="left_anti")
    return others.unionByName(again).localCheckpoint()
