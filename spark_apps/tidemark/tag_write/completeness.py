"""How far each persistence id is complete in the tag views.

`journals.pekko.messages.increments` reads the messages after that event.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journals.pekko.shapes import SCANNING, TIMED_PROGRESS
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tag_write import shapes

TABLE = "tag_write_tail"
_TAIL = ("persistence_id", "sequence_nr", "read_to", "series")


@shaped(returns=shapes.STORED_TAILS)
def stored_tails(
    spark: SparkSession, settings: Settings, rules_version: str, ids: DataFrame | None = None
) -> DataFrame:
    """Read the tails written under this version of the tag rules, valid or void.

    `ids`: unique persistence ids, whose tails are read by key; None for all.
    """
    source = (settings.keyspace, TABLE, "journal_keyspace", *_TAIL, "rules_version")
    if ids is None:
        rows = connector.read(spark, *source, write_time_of="sequence_nr")
    else:
        # Joined, since Spark turns a literal into a condition, which a direct join does not allow.
        journal = local_rows(spark, [(settings.journal_keyspace,)], "journal_keyspace string")
        keys = ids.select("persistence_id").crossJoin(F.broadcast(journal))
        rows = connector.read_partitions(keys, *source, write_time_of="sequence_nr")
    is_current = (F.col("journal_keyspace") == settings.journal_keyspace) & (
        F.col("rules_version") == rules_version
    )
    return rows.where(is_current).select(*_TAIL, "write_time")


@shaped(
    tails=shapes.STORED_TAILS, progress=TIMED_PROGRESS, scanning=SCANNING, returns=shapes.COMPLETE
)
def complete_up_to(tails: DataFrame, progress: DataFrame, scanning: DataFrame) -> DataFrame:
    """Return how far each persistence id is complete, and how far it has been read.

    A tail is void if its tag views have changed: whoever deletes or truncates them clears
    tag_scanning and progress (docs/real-systems.md, "How an actor recovers" and "Deletes and
    tools"), and whoever writes them again also writes progress. So a tail is void if it is ahead of
    tag_scanning, if the id has progress of fewer tags now, or if progress that was written later is
    before the last complete event: it may not count all events up to there.
    """
    is_behind = (F.col("progress_written_at") > F.col("write_time")) & (
        F.col("progress_sequence_nr") < F.col("sequence_nr")
    )
    return (
        tails.join(progress, on="persistence_id", how="left")
        .groupBy(*_TAIL)
        .agg(F.count("tag").alias("tags"), F.bool_or(is_behind).alias("is_behind"))
        .where(F.col("tags") >= F.col("series"))
        .where(~F.coalesce("is_behind", F.lit(False)))
        .join(scanning, on="persistence_id", how="left")
        .where(F.coalesce("scanned_to", F.lit(0)) >= F.col("sequence_nr"))
        .select("persistence_id", F.col("sequence_nr").alias("known_to"), "read_to")
    )


def forget(control: Control, settings: Settings, persistence_ids: frozenset[str] | None) -> None:
    """Delete the tails of the persistence ids, or all tails, since their tag views will change."""
    tail = table(settings.keyspace, TABLE)
    if persistence_ids is None:
        # Other journals lose their tails too, which only costs each of them one more scan.
        control.execute_ddl(f"TRUNCATE {tail}")
        return
    control.execute_many(
        f"DELETE FROM {tail} WHERE journal_keyspace = ? AND persistence_id = ?",
        [(settings.journal_keyspace, persistence_id) for persistence_id in persistence_ids],
    )
