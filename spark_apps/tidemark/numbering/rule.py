"""The numbers of events under their tags, derived from messages, rows and progress.

The tag pid sequence nr of an event counts the events of its persistence id that carry the tag, from
1 (docs/real-systems.md, "What an actor writes" and "How an actor recovers"). Missing events cannot
be counted:

    sequence nr   1  2  3 | 4  5 | 6  7  8 | 9 | 10 11      | a hole: no message, and no row
    messages      .  .  . | -  - | x  o  x | - |  x  x      x carries the tag, o does not
    rank                         | 1     2 |   |  3  4      the entries of the series, from 1
    missing                      |  5  5  5 | 6 |  6  6      the events in no table, up to here
    number = rank + shift. The shift never falls, and between two events it grows at most by the
    number of events missing between them. So it is 0 before the first hole, and constant in a run.

1. A row gives the shift at its event, progress gives the shift at the event that it names.
2. In a run, progress decides if the row of its event agrees. Otherwise the shift of most rows
   decides, the smaller one if two have as many rows; progress alone if there is no row.
3. Of runs that contradict each other, those count that agree with most rows, as above.
4. Without evidence the shift stays as low as it can, which is where Pekko's recovery continues.

A row or progress with another number is contradicted: no numbering fits it. Numbers do not change
when other numbers are repaired, so a repair writes what a check expects.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import EVENT
from tidemark.numbering import shapes
from tidemark.spark.shapes import shaped

SERIES = ["persistence_id", "tag"]
"""The key of a series, which has one numbering."""
ENTRY, ROW, PROGRESS = 0, 1, 2
_CONFIRMED = 10**12
"""The weight of progress and a row that agree; it exceeds the weight of any number of rows."""
LAST_TICKS = 2**63 - 1
_FOLLOWS = (
    "{later}.shift BETWEEN {earlier}.shift AND"
    " {earlier}.shift + {later}.missing - {earlier}.missing"
)
_IS_CONSISTENT = f"""
aggregate(
    runs,
    struct(0L AS missing, 0L AS shift, TRUE AS holds),
    (before, run) -> struct(
        run.missing AS missing,
        run.shift AS shift,
        before.holds AND {_FOLLOWS.format(earlier="before", later="run")} AS holds
    )
).holds"""
_ALL = "transform(runs, run -> struct(run.missing AS missing, run.shift AS shift))"
_BEST = (
    "array_max(transform(steps,"
    " (step, i) -> IF({condition}, struct(step.total, -i AS place), NULL)))"
)
_STEPS = f"""
aggregate(
    runs,
    CAST(array() AS array<struct<missing:bigint,shift:bigint,total:bigint,before:int>>),
    (steps, run) -> concat(steps, transform(
        array({_BEST.format(condition=_FOLLOWS.format(earlier="step", later="run"))}),
        best -> struct(
            run.missing AS missing,
            run.shift AS shift,
            run.weight + coalesce(best.total, 0L) AS total,
            coalesce(-best.place, -1) AS before
        )
    ))
)"""
"""For each run the best chain of runs up to it: `before` is the index of the previous run in it,
`total` the weight of the chain."""
_CHAIN = """
aggregate(
    reverse(sequence(0, size(steps) - 1)),
    struct(
        -last.place AS place, CAST(array() AS array<struct<missing:bigint,shift:bigint>>) AS chain
    ),
    (to_here, i) -> IF(
        i = to_here.place,
        struct(
            steps[i].before AS place,
            concat(
                array(struct(steps[i].missing AS missing, steps[i].shift AS shift)), to_here.chain
            ) AS chain
        ),
        to_here
    )
).chain"""


@shaped(
    entries=shapes.ENTRIES,
    rows=shapes.NUMBERS,
    progress=shapes.REACHED,
    returns=shapes.POINTS,
)
def points(entries: DataFrame, rows: DataFrame, progress: DataFrame) -> DataFrame:
    """Return the events and all evidence of each series in one frame, ranked.

    Further columns of the entries are kept.

    Args:
        entries: all events read of a persistence id, from messages or by their rows.
        rows: rows of the entries; rows of other events would be no evidence.
        progress: the recorded progress. If only events after some sequence nr are read, and
            progress names an earlier event, then at that sequence nr.
    """
    last = F.lit(LAST_TICKS).alias("ticks")
    parts = [
        entries.withColumn("kind", F.lit(ENTRY)),
        rows.select(*shapes.NUMBERS, F.lit(ROW).alias("kind")),
        progress.select(*shapes.REACHED, last, F.lit(PROGRESS).alias("kind")),
    ]
    all_points = reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True), parts
    )
    order = ["sequence_nr", "ticks", "kind"]
    of_id = Window.partitionBy("persistence_id").orderBy(*order)
    of_series = Window.partitionBy(*SERIES).orderBy(*order)
    to_here = (Window.unboundedPreceding, Window.currentRow)
    is_event = (F.col("kind") == ENTRY) & F.col("is_present")
    is_lost = (F.col("kind") == ENTRY) & ~F.col("is_present")
    event_before = F.max(F.when(is_event, F.col("sequence_nr"))).over(
        of_id.rowsBetween(Window.unboundedPreceding, -1)
    )
    lost_before = F.max(F.when(is_lost, F.col("sequence_nr"))).over(
        of_series.rowsBetween(Window.unboundedPreceding, -1)
    )
    is_next = F.coalesce(F.col("sequence_nr") > F.col("event_before"), F.lit(True))
    is_next_lost = F.coalesce(F.col("sequence_nr") > F.col("lost_before"), F.lit(True))
    is_tagged = (F.col("kind") == ENTRY) & F.col("tag").isNotNull()
    return (
        all_points.repartition("persistence_id")
        .withColumn("event_before", event_before)
        .withColumn(
            "events", F.count(F.when(is_event & is_next, 1)).over(of_id.rowsBetween(*to_here))
        )
        .withColumn("lost_before", lost_before)
        .withColumn(
            "is_present",
            F.coalesce("is_present", F.col("event_before") == F.col("sequence_nr"), F.lit(False)),
        )
        .withColumns(
            {
                "rank": F.count(F.when(is_tagged, 1)).over(of_series.rowsBetween(*to_here)),
                "lost": F.count(F.when(is_lost & is_next_lost, 1)).over(
                    of_series.rowsBetween(*to_here)
                ),
            }
        )
        .withColumn(
            "missing", F.greatest(F.col("sequence_nr") - F.col("events") - F.col("lost"), F.lit(0))
        )
        .drop("event_before", "events", "lost_before", "lost")
    )


@shaped(events=EVENT, returns=shapes.RANKED)
def ranked(events: DataFrame) -> DataFrame:
    """Return the events under each of their tags, numbered from 1 in each series.

    Further columns of the events are kept.
    """
    other_columns = [name for name in events.columns if name != "tags"]
    of_series = Window.partitionBy(*SERIES).orderBy("sequence_nr", "ticks")
    return (
        events.repartition("persistence_id")
        .select(*other_columns, F.explode("tags").alias("tag"))
        .withColumn("tag_pid_sequence_nr", F.row_number().over(of_series).cast("bigint"))
    )


@shaped(ranked_points=shapes.POINTS, returns=shapes.KNOWN)
def known_shifts(ranked_points: DataFrame) -> DataFrame:
    """Return the shifts that rows and progress of each series give, without contradicted ones."""
    shift = F.col("number") - F.col("rank")
    is_row, is_progress = F.col("kind") == ROW, F.col("kind") == PROGRESS
    claims = (
        ranked_points.where(F.col("number").isNotNull() & shift.between(F.lit(0), F.col("missing")))
        .groupBy(*SERIES, "missing", shift.alias("shift"), "sequence_nr")
        .agg(F.count_if(is_row).alias("rows"), F.bool_or(is_progress).alias("is_reached"))
        .groupBy(*SERIES, "missing", "shift")
        .agg(
            F.bool_or(F.col("is_reached") & (F.col("rows") > 0)).alias("is_confirmed"),
            F.sum("rows").alias("rows"),
        )
    )
    weight = F.greatest(2 * F.col("rows"), F.lit(1)) + F.when(
        F.col("is_confirmed"), F.lit(_CONFIRMED)
    ).otherwise(0)
    runs = (
        claims.groupBy(*SERIES, "missing")
        .agg(F.min(F.struct((-weight).alias("opposed"), "shift")).alias("best"))
        .groupBy(*SERIES)
        .agg(
            F.sort_array(
                F.collect_list(
                    F.struct("missing", "best.shift", (-F.col("best.opposed")).alias("weight"))
                )
            ).alias("runs")
        )
    )
    return (
        runs.withColumn("is_consistent", F.expr(_IS_CONSISTENT))
        .withColumn("steps", F.expr(f"IF(is_consistent, NULL, {_STEPS})"))
        .withColumn("last", F.expr(_BEST.format(condition="TRUE")))
        .select(*SERIES, F.expr(f"IF(is_consistent, {_ALL}, {_CHAIN})").alias("known"))
    )


@shaped(ranked_points=shapes.POINTS, shifts=shapes.KNOWN, returns=shapes.NUMBERED)
def numbered(ranked_points: DataFrame, shifts: DataFrame | None) -> DataFrame:
    """Return the number of each entry, and the number that rows and progress should have.

    `shifts` is None if there is no evidence: numbers are ranks.
    """
    missing, zero = F.col("missing"), F.lit(0)
    is_tagged = F.col("tag").isNotNull()
    if shifts is None:
        number = F.when(is_tagged, F.col("rank"))
        return ranked_points.withColumns({"expected_number": number, "is_certain": missing == 0})
    at_least = F.transform(
        "known", lambda run: run["shift"] - F.greatest(run["missing"] - missing, zero)
    )
    at_most = F.transform(
        "known", lambda run: run["shift"] + F.greatest(missing - run["missing"], zero)
    )
    # Both ignore nulls, which series without evidence have.
    lowest, highest = (
        F.greatest(F.array_max(at_least), zero),
        F.least(F.array_min(at_most), missing),
    )
    number = F.when(is_tagged, F.col("rank") + lowest)
    return (
        ranked_points.join(shifts, on=SERIES, how="left")
        .withColumns({"expected_number": number, "is_certain": lowest == highest})
        .drop("known")
    )


def is_contradicted() -> Column:
    """Return whether a row or progress has another number than it should have."""
    return F.col("number") != F.col("expected_number")
