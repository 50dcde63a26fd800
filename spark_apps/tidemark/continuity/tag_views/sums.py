"""The quick look before a comparison: which persistence ids have to be compared at all.

Of an id in order, everything comes in pairs: each (event, tag) with its row, and the last row of
each tag with its progress. Each of a pair gives the same hash of 64 bits, so that the exclusive or
of all hashes is 0, and their numbers cancel out. Checks that need only an event or a row and its
predecessor run on that pair. One sum for each id is left, instead of joins and sorts of all
events by each key that a comparison needs.

An id that differs need not have findings: the comparison judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.continuity.tag_views.keys import Keep, Keys
from tidemark.journal.series import SERIES
from tidemark.partitioning import columns
from tidemark.spark.shapes import Shape, shaped

_SUMMANDS: Shape = {
    "id": "bigint",
    "is_odd": "boolean",
    "is_older": "boolean",
    "sequence_nr": "bigint",
    "known_to": "bigint",
    "pairs": "bigint",
    "hash": "bigint",
}
"""`is_odd`: not as it is in an id in order. `is_older`: an event older than the one before it.
`known_to`: up to where another table than messages has heard of events. `pairs`: 1 for one half of
a pair, -1 for the other; a last row is half of two."""
BROADCAST_IDS = 1_000_000
"""Ids up to which each executor gets all of them, some ten bytes each, so that nothing that is read
of others is moved."""
SUMS: Shape = {"id": "bigint", "differs": "boolean", "is_disordered": "boolean"}
"""Persistence ids, hashed."""


@dataclass(frozen=True)
class Doubts:
    """The persistence ids that have to be looked at more closely.

    Attributes:
        sums: of SUMS, those of which either is true.
        differing: how many differ.
        disordered: how many are disordered.
    """

    sums: DataFrame
    differing: int
    disordered: int

    @classmethod
    def of(cls, keys: Keys, target_partition_size: int, keep: Keep) -> Doubts:
        """Find them, and keep the frame in memory.

        Args:
            keys: as they were read.
            target_partition_size: of messages, in events.
            keep: function that keeps a frame in memory that is used more than once.
        """
        sums = keep(sums_of(keys, target_partition_size).where("differs OR is_disordered"))
        [number] = sums.agg(
            F.count_if("differs").alias("differing"),
            F.count_if("is_disordered").alias("disordered"),
        ).collect()
        return cls(sums, number["differing"], number["disordered"])

    def keys_that_differ(self, keys: Keys, keep: Keep) -> Keys:
        """Return the keys of the ids of which a comparison may find, keep or excuse anything."""
        ids = self.sums.where("differs")
        return keys.each(lambda frame: keep(_among(frame, ids, self.differing)))

    def events_out_of_order(self, index: DataFrame) -> DataFrame:
        """Return the events of the ids with an event older than the one before it."""
        return _among(index, self.sums.where("is_disordered"), self.disordered)


def _among(frame: DataFrame, ids: DataFrame, number: int) -> DataFrame:
    """Return the rows of so many persistence ids, which are hashed."""
    if not number:
        # Spark leaves out whatever is made of it.
        return frame.limit(0)
    few = F.broadcast(ids) if number <= BROADCAST_IDS else ids
    hashed = frame.withColumn("id", _id())
    return hashed.join(few, on="id", how="left_semi").select(*frame.columns)


@shaped(returns=SUMS)
def sums_of(keys: Keys, target_partition_size: int) -> DataFrame:
    """Return each persistence id, and whether it differs.

    Those do not whose events are all there from sequence nr 1 on, in their partitions and readable,
    with a row of the right number for each tag, progress at the last row, and nothing
    that speaks of later events.
    """
    parts = [
        _of_events(keys.index, target_partition_size),
        _of_tags(keys.index),
        _of_rows(keys.rows),
        _of_progress(keys.progress),
        keys.scanning.select(_id(), F.col("scanned_to").alias("known_to")),
        keys.deleted.select(_id(), (F.col("deleted_to") > 0).alias("is_odd")),
    ]
    sums = (
        reduce(DataFrame.unionByName, map(_as_summands, parts))
        .groupBy("id")
        .agg(
            F.bool_or("is_odd").alias("is_odd"),
            F.bool_or("is_older").alias("is_disordered"),
            F.max("sequence_nr").alias("last"),
            F.max("known_to").alias("known_to"),
            F.sum("pairs").alias("pairs"),
            F.bit_xor("hash").alias("hash"),
        )
    )
    is_in_order = (
        ~F.coalesce("is_odd", F.lit(False))
        & (F.coalesce("known_to", F.lit(0)) <= F.col("last"))
        & (F.coalesce("pairs", F.lit(0)) == 0)
        & (F.coalesce("hash", F.lit(0)) == 0)
    )
    return sums.select(
        "id",
        # Without events there is no last one.
        (~F.coalesce(is_in_order, F.lit(False))).alias("differs"),
        F.coalesce("is_disordered", F.lit(False)).alias("is_disordered"),
    )


def _as_summands(part: DataFrame) -> DataFrame:
    held = {name: F.col(name) if name in part.columns else F.lit(None) for name in _SUMMANDS}
    return part.select(*(held[name].cast(kind).alias(name) for name, kind in _SUMMANDS.items()))


def _of_events(index: DataFrame, target_partition_size: int) -> DataFrame:
    partitions = columns.message_partitions(F.col("sequence_nr"), target_partition_size)
    is_odd = (
        ~F.array_contains(partitions, F.col("partition_nr"))
        | ~F.col("has_payload")
        | F.col("cause").isNotNull()
    )
    if "pending_tags" in index.columns:
        is_odd = is_odd | (F.coalesce(F.size("pending_tags"), F.lit(0)) > 0)
    in_order = Window.partitionBy("id").orderBy("sequence_nr", "ticks")
    events = index.select(_id(), "sequence_nr", "ticks", is_odd.alias("is_odd"))
    return events.withColumns(
        {
            "is_odd": F.col("is_odd") | (F.row_number().over(in_order) != F.col("sequence_nr")),
            "is_older": F.lag("ticks").over(in_order) > F.col("ticks"),
        }
    )


def _of_tags(index: DataFrame) -> DataFrame:
    tagged = index.select(
        _id(), "sequence_nr", "timestamp", "time_bucket", F.explode("tags").alias("tag")
    )
    return tagged.select("id", F.lit(1).alias("pairs"), _event().alias("hash"))


def _of_rows(rows: DataFrame) -> DataFrame:
    numbered = rows.select(
        _id(),
        F.xxhash64(*SERIES).alias("series"),
        "sequence_nr",
        "tag_pid_sequence_nr",
        _event().alias("event"),
        _end("sequence_nr", "tag_pid_sequence_nr", "timestamp").alias("end"),
    )
    in_order = Window.partitionBy("series").orderBy("sequence_nr")
    followed = numbered.withColumns(
        {
            "place": F.row_number().over(in_order),
            "is_last": F.lead("sequence_nr").over(in_order).isNull(),
        }
    )
    is_last = F.col("is_last")
    return followed.select(
        "id",
        (F.col("place") != F.col("tag_pid_sequence_nr")).alias("is_odd"),
        F.when(is_last, 0).otherwise(-1).alias("pairs"),
        F.col("event").bitwiseXOR(F.when(is_last, F.col("end")).otherwise(0)).alias("hash"),
    )


def _of_progress(progress: DataFrame) -> DataFrame:
    end = _end("progress_sequence_nr", "progress_number", "progress_offset")
    return progress.select(
        _id(),
        F.col("progress_sequence_nr").alias("known_to"),
        F.lit(-1).alias("pairs"),
        end.alias("hash"),
    )


def _id() -> Column:
    return F.xxhash64("persistence_id").alias("id")


def _event() -> Column:
    return F.xxhash64("tag", "sequence_nr", "timestamp", "time_bucket")


def _end(sequence_nr: str, number: str, timestamp: str) -> Column:
    return F.xxhash64("tag", sequence_nr, number, timestamp)
