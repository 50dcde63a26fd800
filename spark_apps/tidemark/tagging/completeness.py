"""How far each persistence id is complete in the tag views.

`journal.increments` reads the messages after it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journal.shapes import SCANNING, TIMED_PROGRESS
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tagging import shapes

TABLE = "tag_write_tail"


@shaped(progress=TIMED_PROGRESS, scanning=SCANNING, returns=shapes.KNOWN)
def known(
    settings: Settings,
    rules_version: str,
    progress: DataFrame,
    scanning: DataFrame,
    ids: DataFrame | None = None,
) -> DataFrame:
    """Return how far each persistence id is complete, and how far it has been read.

    A row that was written under other tag rules is void. So is one whose tag views have changed:
    whoever deletes or truncates them clears tag_scanning and progress (docs/real-systems.md, "How
    an actor recovers" and "Deletes and tools"), and who writes them anew writes progress, too. So
    a row is void if it is ahead of tag_scanning, if the id has progress of fewer tags by now, or
    if progress was written since that stands before the last complete event: it may not count all
    events up to there.

    Args:
        settings: where the journal is.
        rules_version: of the present tag rules.
        progress: tag_write_progress, with the write times of its rows.
        scanning: tag_scanning.
        ids: unique persistence ids, of which the others are; None for all.
    """
    tail = ("persistence_id", "sequence_nr", "read_to", "series")
    place = (settings.keyspace, TABLE, "journal_keyspace", *tail, "rules_version")
    spark = progress.sparkSession
    if ids is None:
        stored = connector.read(spark, *place, write_time_of="sequence_nr")
    else:
        # Joined, since Spark turns a literal into a condition, which a direct join cannot have.
        journal = local_rows(spark, [(settings.journal_keyspace,)], "journal_keyspace string")
        keys = ids.select("persistence_id").crossJoin(F.broadcast(journal))
        stored = connector.read_partitions(keys, *place, write_time_of="sequence_nr")
    is_ours = (F.col("journal_keyspace") == settings.journal_keyspace) & (
        F.col("rules_version") == rules_version
    )
    is_behind = (F.col("progress_written_at") > F.col("write_time")) & (
        F.col("progress_sequence_nr") < F.col("sequence_nr")
    )
    return (
        stored.where(is_ours)
        .join(progress, on="persistence_id", how="left")
        .groupBy(*tail)
        .agg(F.count("tag").alias("tags"), F.bool_or(is_behind).alias("is_behind"))
        .where(F.col("tags") >= F.col("series"))
        .where(~F.coalesce("is_behind", F.lit(False)))
        .join(scanning, on="persistence_id", how="left")
        .where(F.coalesce("scanned_to", F.lit(0)) >= F.col("sequence_nr"))
        .select("persistence_id", F.col("sequence_nr").alias("known_to"), "read_to")
    )


def forget(control: Control, settings: Settings, persistence_ids: frozenset[str] | None) -> None:
    """Delete what is known of the persistence ids, or of all: their tag views will change."""
    tail = table(settings.keyspace, TABLE)
    if persistence_ids is None:
        # Other journals lose their rows too, which only costs each of them one more scan.
        control.execute_ddl(f"TRUNCATE {tail}")
        return
    control.execute_many(
        f"DELETE FROM {tail} WHERE journal_keyspace = ? AND persistence_id = ?",
        [(settings.journal_keyspace, persistence_id) for persistence_id in persistence_ids],
    )
