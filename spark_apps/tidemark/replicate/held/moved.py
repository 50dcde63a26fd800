"""The order of records of keys that are in several partitions.

If partitions are added to a topic, a key's later records go to another partition. Offsets of two
partitions do not compare, and clocks of producers disagree, so all new records of such a key wait
in quarantine until all partitions have been read up to their present ends. The record that
continues the stored seq nrs is next, in any partition; if none does, or a purge waits, the oldest.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.action import ActionType
from tidemark.journals.kafka.wire.shapes import DECODED, PLACE
from tidemark.replicate.shapes import FATES, HEADS, HELD_FROM
from tidemark.spark.shapes import shaped

_JOURNAL = list(JOURNAL_KEY)
_OF_KEY = [*JOURNAL_KEY, "partition"]


def matters(decoded: DataFrame) -> DataFrame:
    """Return the records with an action other than a mark, and unreadable ones."""
    is_action = F.col("action") != ActionType.MARK.value
    return decoded.where(F.col("cause").isNotNull() | F.coalesce(is_action, F.lit(False)))


@shaped(decoded=DECODED, heads=HEADS, held=HELD_FROM, returns=JOURNAL_KEY)
def in_several_places(decoded: DataFrame, heads: DataFrame, held: DataFrame | None) -> DataFrame:
    """Return the keys of these records with records or a head in several partitions."""
    new = matters(decoded).select(*_OF_KEY)
    places = new.unionByName(heads.select(*_JOURNAL, F.col("head")["partition"].alias("partition")))
    if held is not None:
        places = places.unionByName(held.select(*_OF_KEY))
    several = F.min("partition") != F.max("partition")
    keys = places.groupBy(*_JOURNAL).agg(several.alias("several")).where("several")
    return keys.join(new, _JOURNAL, "left_semi").select(*_JOURNAL)


@shaped(waiting=DECODED, heads=HEADS, stored=PLACE, returns=FATES)
def fates(waiting: DataFrame, heads: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the waiting records that leave, with their fate; all others stay.

    `next` records are of one partition for each key, in its order; `done` records are replicated
    already and only leave. A `held` record is unreadable, or has events that are not stored below
    the seq nr of the head; with it all later records of its partition are held.

    `waiting` are all waiting records, with `is_settled`: whether no older record of the key can
    come any more; `heads` are those of their keys, and `stored` the places of records whose events
    journal has.
    """
    heads_of_keys = heads.select(
        *_JOURNAL,
        F.coalesce(F.col("head")["delete_to"], F.lit(0)).alias("deleted_to"),
        F.coalesce(F.col("head")["seq_nr"], F.lit(0)).alias("seq_nr"),
    )
    rows = (
        waiting.join(heads_of_keys, _JOURNAL, "left")
        .join(stored.distinct().withColumn("is_stored", F.lit(True)), list(PLACE), "left")
        .withColumns(
            {
                "deleted_to": F.coalesce("deleted_to", F.lit(0)),
                "reached": F.greatest(
                    F.coalesce("seq_nr", F.lit(0)), F.coalesce("deleted_to", F.lit(0))
                ),
                "first_nr": F.element_at("events", 1)["seq_nr"],
                "last_nr": F.element_at("events", -1)["seq_nr"],
                "is_stored": F.coalesce("is_stored", F.lit(False)),
            }
        )
    )
    in_order = Window.partitionBy(*_OF_KEY).orderBy("offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_append = F.col("action") == ActionType.APPEND.value
    is_delete = F.col("action") == ActionType.DELETE.value
    reached = F.greatest("reached", F.max("last_nr").over(before))
    is_purge = F.col("action") == ActionType.PURGE.value
    # After a purge seq nrs begin anew, so earlier ones do not matter.
    first_purge = F.min(F.when(is_purge, F.col("timestamp"))).over(Window.partitionBy(*_JOURNAL))
    purged_at = F.coalesce(first_purge, F.col("timestamp"))
    continues = is_append & (F.col("first_nr") == F.col("reached_before") + 1)
    is_old = is_append & (F.col("last_nr") <= F.col("reached"))
    fits = (
        continues
        | (is_old & F.col("is_stored"))
        | (is_delete & (F.col("to") <= F.col("reached_before")))
    )
    rows = rows.withColumn("reached_before", reached).withColumns(
        {
            "continues": _is_true(continues),
            "is_old": _is_true(is_old),
            "fits": _is_true(fits & (F.col("timestamp") <= purged_at)) & F.col("is_settled"),
        }
    )
    is_done = (F.col("is_old") & F.col("is_stored")) | _is_true(
        is_delete & (F.col("to") <= F.col("deleted_to"))
    )
    by_age = Window.partitionBy(*_JOURNAL).orderBy("timestamp", "partition", "offset")
    rows = rows.withColumns(
        {
            "leads": F.sum(F.when(F.col("fits"), 0).otherwise(1)).over(in_order) == 0,
            "is_oldest": (F.row_number().over(by_age) == 1) & F.col("is_settled"),
            "is_done": is_done,
        }
    )
    turns = (
        rows.where("leads")
        .groupBy(*_JOURNAL)
        .agg(
            F.min_by(
                "partition", F.struct(~F.col("continues"), "timestamp", "partition", "offset")
            ).alias("turn")
        )
    )
    rows = rows.join(turns, _JOURNAL, "left")
    is_turn = F.col("leads") & (F.col("partition") == F.col("turn"))
    is_stuck = F.col("turn").isNull() & F.col("is_oldest")
    is_bad = F.col("cause").isNotNull() | F.col("is_old")
    stops = F.max(F.when(is_stuck & is_bad, F.col("offset"))).over(Window.partitionBy(*_OF_KEY))
    fate = (
        F.when(is_turn & F.col("is_done"), "done")
        .when(is_turn | (is_stuck & ~is_bad), "next")
        .when(F.col("offset") >= stops, "held")
    )
    text = _below(F.col("last_nr"), F.col("reached"))
    leaving = rows.withColumn("fate", fate).where(F.col("fate").isNotNull())
    is_why = (F.col("fate") == "held") & F.col("is_old") & F.col("cause").isNull()
    return leaving.withColumn("cause", F.when(is_why, text).otherwise(F.col("cause"))).select(
        *FATES
    )


@shaped(decoded=DECODED, heads=HEADS, returns=DECODED)
def with_those_below(decoded: DataFrame, heads: DataFrame) -> DataFrame:
    """Give a cause to records whose events are below a head of another partition."""
    head, last_nr = F.col("head"), F.element_at("events", -1)["seq_nr"]
    reached = F.greatest(head["seq_nr"], head["delete_to"])
    is_below = (head["partition"] != F.col("partition")) & (last_nr <= reached)
    cause = F.when(_is_true(is_below), _below(last_nr, reached))
    return (
        decoded.join(heads, _JOURNAL, "left")
        .withColumn("cause", F.coalesce("cause", cause))
        .select(*DECODED)
    )


def _below(last_nr: Column, reached: Column) -> Column:
    return F.concat(
        F.lit("its events end at seq_nr "),
        last_nr,
        F.lit(", and those of another partition, which are replicated, at "),
        reached,
    )


def _is_true(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
