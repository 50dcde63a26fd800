"""How far each persistence id is complete in the tag views; `journal.tails` reads what is after."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journal import frames
from tidemark.settings import Settings

TABLE = "tag_write_tail"


def known(spark: SparkSession, settings: Settings, rules_version: str) -> DataFrame:
    """How far each persistence id is complete.

    A row that was written under other tag rules is void; so is one ahead of tag_scanning, which
    whoever deletes or truncates tag views clears (docs/real-systems.md, "How an actor recovers" and
    "Deletes and tools").

    Columns: persistence_id, known_to (bigint; 0 if nothing is complete), numbers
    (map<string,bigint>), is_whole (boolean: they name every tag that the id had up to there).
    """
    stored = connector.read(
        spark,
        settings.keyspace,
        TABLE,
        "journal_keyspace",
        "persistence_id",
        "sequence_nr",
        "numbers",
        "is_whole",
        "rules_version",
    )
    is_ours = (F.col("journal_keyspace") == settings.journal_keyspace) & (
        F.col("rules_version") == rules_version
    )
    return (
        stored.where(is_ours)
        .join(frames.scanning(spark, settings), on="persistence_id", how="left")
        .where(F.coalesce("scanned_to", F.lit(0)) >= F.col("sequence_nr"))
        .select(
            "persistence_id",
            F.col("sequence_nr").alias("known_to"),
            "numbers",
            F.coalesce("is_whole", F.lit(False)).alias("is_whole"),
        )
    )


def forget(control: Control, settings: Settings, persistence_ids: frozenset[str] | None) -> None:
    """Void what is known of those persistence ids, or of all: their tag views will change."""
    tail = table(settings.keyspace, TABLE)
    if persistence_ids is None:
        # Other journals lose theirs too: they are read whole once more, and nothing else.
        control.execute_ddl(f"TRUNCATE {tail}")
        return
    control.execute_many(
        f"DELETE FROM {tail} WHERE journal_keyspace = ? AND persistence_id = ?",
        [(settings.journal_keyspace, persistence_id) for persistence_id in persistence_ids],
    )
