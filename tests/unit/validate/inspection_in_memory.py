"""The inspection of new time buckets, with histories of `stored_history_model` as the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.project.stored_history_frames import BOUNDS, keys_of, messages_of
from tests.unit.project.stored_history_model import HOUR, History
from tidemark.journals.pekko import frames, tag_view_rows
from tidemark.journals.pekko.shapes import MESSAGES
from tidemark.ledger.purged import Removed
from tidemark.settings import Settings
from tidemark.validate import store
from tidemark.validate.plan import PendingTagWrites
from tidemark.validate.reading import incremental, journal_keys, tails
from tidemark.validate.tag_views import bounds
from tidemark.validate.tag_views.expected import REMOVED

Lives = Mapping[str, tuple[History, History]]
"""By persistence id, its history when the old time buckets passed, and its present history."""


def inspected(
    spark: SparkSession,
    lives: Lives,
    new: Sequence[int],
    removed: frozenset[int] = frozenset(),
    row_bytes: float = 0,
) -> tuple[set[str], DataFrame]:
    """Return the persistence ids that are in doubt, and the findings of the checks that warn."""
    before = keys_of(spark, {pid: was for pid, (was, _) in lives.items()})
    last_rows = tails.last_rows(before.rows, min(new) - HOUR)
    present = {pid: now for pid, (_, now) in lives.items()}
    keys, messages = keys_of(spark, present), messages_of(spark, present).drop("cause")
    in_doubt = set[str]()

    def indexed(
        spark: SparkSession, settings: Settings, first: int, end: int, *columns: str, **_: bool
    ) -> DataFrame:
        in_range = (F.col("time_bucket") >= first) & (F.col("time_bucket") < end)
        columns_read = (*MESSAGES, "has_payload", *columns)
        return messages.withColumn("ser_id", F.lit(1)).where(in_range).select(*columns_read)

    def by_key(keys_read: DataFrame, settings: Settings) -> DataFrame:
        read = messages.join(keys_read, on=keys_read.columns, how="left_semi")
        return read.select(*MESSAGES)

    def rows_of(partitions: DataFrame, settings: Settings) -> DataFrame:
        named = partitions.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})
        return keys.rows.join(named, on=named.columns, how="left_semi")

    def read_series(series: DataFrame, settings: Settings) -> DataFrame:
        return last_rows.join(series, on=["persistence_id", "tag"], how="left_semi")

    def doubt(suspected: DataFrame, overlaps: DataFrame) -> str:
        for frame in (suspected, overlaps):
            in_doubt.update(row.persistence_id for row in frame.select("persistence_id").collect())
        return ""

    settings = Settings(target_partition_size=BOUNDS.target_partition_size)
    run = cast(Any, SimpleNamespace(spark=spark, settings=settings, control=MagicMock()))
    with ExitStack() as patches:
        for place, name, stand_in in (
            (journal_keys, "usable_rules", lambda run: []),
            (journal_keys, "listed", lambda run: keys.listed),
            (journal_keys, "row_bytes", lambda run: row_bytes),
            (frames, "write_progress", lambda *_: keys.progress),
            (frames, "scanning", lambda *_: keys.scanning),
            (frames, "deleted", lambda *_: keys.deleted.where(F.col("deleted_to") < REMOVED)),
            (frames, "indexed_between", indexed),
            (frames, "messages_of", by_key),
            (frames, "messages_of_ids", by_key),
            (tag_view_rows, "tag_view_keys_of", rows_of),
            (tails, "read_series", read_series),
            (store, "settled", lambda *_: []),
            (bounds, "removed", lambda *_: Removed(removed)),
            (bounds, "emptied_buckets", lambda *_: removed),
            (incremental, "_doubt", doubt),
        ):
            patches.enter_context(patch.object(place, name, stand_in))
        _, warned, _ = incremental.inspect(run, new, PendingTagWrites())
    return in_doubt, warned
