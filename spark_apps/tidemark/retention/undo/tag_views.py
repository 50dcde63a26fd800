"""The copy of time buckets of the tag views that purge takes, and the way back.

rows/   whole rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journal import tag_view_rows
from tidemark.journal.tag_view_rows import TAG_VIEW_KEY
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces, Reason
from tidemark.ledger.purged import purged_buckets
from tidemark.ledger.schedule import time_buckets
from tidemark.retention.messages.deletes import fingerprint
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo import copies, store
from tidemark.retention.undo.copies import Copy, Kind
from tidemark.retention.undo.visible import require_visible
from tidemark.spark.local_rows import local_rows

_ROWS = "rows"
_PARTITION = ["tag_name", "timebucket"]


def save_tag_views(run: RunContext, doomed: Iterable[tuple[str, int]], place: str) -> None:
    """Save whole partitions (tag, time bucket) of the tag views, before they are deleted.

    Raises:
        TidemarkError: the directory cannot be written; nothing was deleted.
    """
    keyspace, name = run.settings.journal_keyspace, run.settings.events_by_tag_table
    rows = connector.read_partitions(
        local_rows(run.spark, list(doomed), "tag_name string, timebucket bigint"),
        keyspace,
        name,
        *copies.columns_of(run.control, keyspace, name),
        ttl_of="event",
        write_time_of="event",
    )
    copies.write(run, place, Kind.TAG_VIEWS, {_ROWS: rows})


def plan_tag_views(run: RunContext, found: Sequence[Copy], *, keep_write_times: bool) -> TargetPlan:
    """Plan to write back the rows that copies of tag views hold and the journal lacks.

    The ledger then says of their time buckets that purge has yet to delete them: readers take the
    rows for whole, and the next purge deletes them again if nothing keeps them.
    """
    settings = run.settings
    saved = copies.all_rows_of(run, found, _ROWS, TAG_VIEW_KEY).localCheckpoint()
    there = _there(run, saved).localCheckpoint()
    rows = saved.join(there, on=[*TAG_VIEW_KEY], how="left_anti").localCheckpoint()
    buckets = [row.timebucket for row in saved.select("timebucket").distinct().collect()]
    ledger = Pieces.of(run.control, settings, applications.PURGE)
    purged = purged_buckets(run.control, settings) & buckets
    number = rows.count()

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.write_tag_views(rows, settings, keep_write_times=keep_write_times)
        hidden = rows.join(_there(run, rows), on=[*TAG_VIEW_KEY], how="left_anti").count()
        name = (settings.journal_keyspace, settings.events_by_tag_table)
        saved_at = found[-1].saved_at
        require_visible(run, {name: hidden}, saved_at, keep_write_times=keep_write_times)
        ensure_locked()
        entries = ledger.entries_of(purged)
        again = [Piece(row.time_bucket, Reason.RESTATED, row.attempt) for row in entries]
        ledger.restate(again, owner=run.owner)
        return {"tag_rows_restored": number}

    lines = [
        f"{number:,} rows of {time_buckets(len(buckets))} of the tag views come back",
        "purge deletes them again unless a policy keeps them longer",
    ]
    can_apply = bool(number or purged)
    return TargetPlan(
        {"tag_rows_restored": number},
        lines if can_apply else [],
        Tombstones(),
        digest([fingerprint(rows.select(*TAG_VIEW_KEY)), *purged.ranges]),
        (),
        apply if can_apply else None,
    )


def _there(run: RunContext, rows: DataFrame) -> DataFrame:
    keys = rows.select(*_PARTITION).distinct()
    return tag_view_rows.tag_view_keys_of(keys, run.settings).select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        *TAG_VIEW_KEY[2:],
    )
