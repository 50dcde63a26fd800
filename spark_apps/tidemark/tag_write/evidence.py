"""The evidence for the numbers of the events read: progress, and rows read by key.

Rows are read only if progress leaves a doubt, and only those of the series in doubt, so that no
scan is needed.
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

ReadRows = Callable[[DataFrame], DataFrame]
"""A function that reads the rows (TAG_ROWS) of keys (VIEW_PARTITIONS)."""


@dataclass(frozen=True)
class NumberingInputs:
    """The state that a run has read before it numbers the events.

    Attributes:
        progress: `frames.write_progress`, read before the messages.
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
def numbered(index: DataFrame, inputs: NumberingInputs, read_rows: ReadRows) -> Numbered:
    """Number the events read, by progress, and by rows where progress leaves a doubt.

    The rows read are those of the events that progress names, unless all events up to there were
    read; and for series in doubt those of the events read and of events missing between them.
    """
    # Checkpoints, not caches: later plans would grow with each cache they use, and a small run
    # spends most of its time on planning.
    entries = numbering.entries(index).localCheckpoint()
    spans = numbering.spans(entries).localCheckpoint()
    progress = inputs.progress.join(spans, on="persistence_id").localCheckpoint()
    reached = numbering.positions(progress, inputs.complete).localCheckpoint()
    progress_rows = _rows_of_progress(
        entries, progress, reached, inputs, read_rows
    ).localCheckpoint()
    points = rule.points(entries, progress_rows, reached).localCheckpoint()
    shifts = rule.known_shifts(points).localCheckpoint()
    numbers = rule.numbered(points, None if shifts.isEmpty() else shifts).localCheckpoint()
    in_doubt = numbering.doubts(numbers, inputs.complete).localCheckpoint()
    if not in_doubt.isEmpty():
        numbers = _numbered_again(
            entries, reached, progress_rows, numbers, in_doubt, inputs, read_rows
        )
    contradicted = numbering.contradictions(numbers, spans).localCheckpoint()
    return Numbered(entries, spans, numbers, contradicted, reached)


@shaped(
    entries=shapes.ENTRIES,
    progress={**WRITE_PROGRESS, **shapes.SPANS},
    reached=shapes.POSITIONS,
)
def _rows_of_progress(
    entries: DataFrame,
    progress: DataFrame,
    reached: DataFrame,
    inputs: NumberingInputs,
    read_rows: ReadRows,
) -> DataFrame:
    tagged = entries.where(F.col("tag").isNotNull()).select(*SERIES).distinct()
    is_counted = (F.col("lowest") == 1) & (F.col("progress_sequence_nr") <= F.col("highest"))
    uncounted = progress.where(~is_counted).join(tagged, on=SERIES, how="left_semi")
    keys = frames.placed(
        uncounted.withColumn("timestamp", F.col("progress_offset")), inputs.bucket_size
    ).select(
        F.col("tag").alias("tag_name"),
        F.col("progress_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
    )
    return numbering.rows_of_progress(read_rows(keys), reached)


def _numbered_again(
    entries: DataFrame,
    reached: DataFrame,
    progress_rows: DataFrame,
    numbers: DataFrame,
    in_doubt: DataFrame,
    inputs: NumberingInputs,
    read_rows: ReadRows,
) -> DataFrame:
    """Number the persistence ids in doubt again, with the evidence of their rows."""
    ids = in_doubt.select("persistence_id").distinct().localCheckpoint()

    def of_ids(frame: DataFrame) -> DataFrame:
        return frame.join(ids, on="persistence_id", how="left_semi")

    event_entries = of_ids(entries)
    keys = numbering.row_keys(event_entries, in_doubt, inputs.ruled_tags)
    partitions = numbering.partitions_of_holes(
        event_entries, in_doubt, inputs.complete, inputs.planned, inputs.bucket_size.milliseconds
    )
    rows = read_rows(keys).unionByName(of_ids(read_rows(partitions))).distinct().localCheckpoint()
    ends = [
        frame.select("persistence_id", "sequence_nr") for frame in (event_entries, of_ids(reached))
    ]
    seen = reduce(DataFrame.unionByName, ends).groupBy("persistence_id")
    row_entries = numbering.entries_of_rows(
        event_entries, rows, seen.agg(F.max("sequence_nr").alias("seen_to")), inputs.complete
    )
    all_entries = event_entries.unionByName(row_entries, allowMissingColumns=True).localCheckpoint()
    event = [*SERIES, "sequence_nr", "timestamp"]
    rows_of_entries = rows.join(all_entries.select(*event), on=event, how="left_semi")
    row_numbers = rows_of_entries.withColumnRenamed("tag_pid_sequence_nr", "number").select(
        *progress_rows.columns
    )
    points = rule.points(
        all_entries, row_numbers.unionByName(of_ids(progress_rows)), of_ids(reached)
    ).localCheckpoint()
    renumbered = rule.numbered(points, rule.known_shifts(points))
    without_doubt = numbers.join(ids, on="persistence_id", how="left_anti")
    return without_doubt.unionByName(renumbered).localCheckpoint()
