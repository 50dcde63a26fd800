"""Which bucket and partition sizes a journal was built with. Pekko never stores nor checks them.

A reader whose bucket size differs from the writer's sees nothing, without an error
(docs/real-systems.md, "How a reader reads"), so we compare with what we stored and with the rows
themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import BucketSizeMismatch, InvalidInput
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings

SAMPLED_PARTITIONS = 64
LISTED_PARTITIONS = 1000
TABLE = "tag_view_table"


def require_bucket_size(control: Control, settings: Settings) -> None:
    """Refuse a bucket size other than that of the rows that exist.

    Of up to 64 partitions the last row is read: in a partition of a larger bucket size it lies
    past the end of a smaller bucket, and the key of a smaller one is not at a larger one's edge.
    Fewer than half of them in the wrong bucket are damage, which `reconcile check` finds.

    Raises:
        BucketSizeMismatch: what we stored, or a row, contradicts `settings.bucket_size`.
    """
    recorded = recorded_bucket_size(control, settings)
    if recorded is not None and recorded is not settings.bucket_size:
        raise _mismatch(settings, f"Tidemark built them with {recorded.value}")
    sampled = _sample(control, settings)
    wrong = [
        (time_bucket, epoch_ms)
        for time_bucket, epoch_ms in sampled
        if keys.time_bucket(epoch_ms, settings.bucket_size) != time_bucket
    ]
    if wrong and 2 * len(wrong) >= len(sampled):
        time_bucket, epoch_ms = wrong[0]
        fitting = [s.value for s in BucketSize if keys.time_bucket(epoch_ms, s) == time_bucket]
        raise _mismatch(
            settings,
            f"an event of epoch ms {epoch_ms} lies in time bucket {time_bucket},"
            f" which is right for {' or '.join(fitting) or 'no bucket size'}",
        )


def require_partition_size(control: Control, settings: Settings) -> None:
    """Refuse a target partition size other than that of the messages that exist.

    Messages are looked up by it: with another one they would be there, and not be found. Of the
    highest of up to 1,000 partitions the last row is read; it lies in the partition of its
    sequence nr or in the next one (docs/real-systems.md, "Partitions").

    Raises:
        InvalidInput: a row lies elsewhere.
    """
    messages = table(settings.journal_keyspace, settings.journal_table)
    found = control.execute(
        f"SELECT DISTINCT persistence_id, partition_nr FROM {messages} LIMIT {LISTED_PARTITIONS}"
    )
    highest = sorted(found, key=lambda row: -int(row["partition_nr"]))[:SAMPLED_PARTITIONS]
    last_rows = control.execute_many(
        f"SELECT persistence_id, partition_nr, sequence_nr FROM {messages}"
        " WHERE persistence_id = ? AND partition_nr = ? ORDER BY sequence_nr DESC LIMIT 1",
        [(row["persistence_id"], row["partition_nr"]) for row in highest],
    )
    for row in (row for rows in last_rows for row in rows):
        due = keys.message_partitions(row["sequence_nr"], settings.target_partition_size)
        if row["partition_nr"] not in due:
            raise InvalidInput(
                f"target partition size {settings.target_partition_size} is not that of the"
                f" messages: sequence nr {row['sequence_nr']} of {row['persistence_id']} lies in"
                f" partition {row['partition_nr']}, not {due[0]}",
                where=f"TIDEMARK_TARGET_PARTITION_SIZE, {messages}",
                do="set it to journal.target-partition-size of the actors' configuration",
            )


def record_bucket_size(control: Control, *written: Settings) -> None:
    """Store the bucket size of tag views, all at one time, before their first row is written."""
    now = clock.now()
    control.execute_many(
        f"INSERT INTO {table(written[0].keyspace, TABLE)}"
        " (journal_keyspace, tag_views_table, bucket_size, recorded_at) VALUES (?, ?, ?, ?)",
        [
            (one.journal_keyspace, one.events_by_tag_table, one.bucket_size.value, now)
            for one in written
        ],
    )


def recorded_bucket_size(control: Control, settings: Settings) -> BucketSize | None:
    """The bucket size that was stored for the tag views' table."""
    row = _recorded(control, settings)
    return BucketSize.parse(row["bucket_size"]) if row else None


def recorded_at(control: Control, settings: Settings) -> datetime | None:
    """When tag-write or reconcile last wrote to the tag views' table, or rebucket made it."""
    row = _recorded(control, settings)
    return row["recorded_at"].replace(tzinfo=UTC) if row else None


def _recorded(control: Control, settings: Settings) -> Row | None:
    if control.table_columns(settings.keyspace, TABLE) is None:
        return None
    rows = control.execute(
        f"SELECT bucket_size, recorded_at FROM {table(settings.keyspace, TABLE)}"
        " WHERE journal_keyspace = ? AND tag_views_table = ?",
        (settings.journal_keyspace, settings.events_by_tag_table),
    )
    return rows[0] if rows else None


def forget_bucket_size(control: Control, settings: Settings, tag_views_table: str) -> None:
    """Delete what was stored for a table that is gone."""
    control.execute(
        f"DELETE FROM {table(settings.keyspace, TABLE)}"
        " WHERE journal_keyspace = ? AND tag_views_table = ?",
        (settings.journal_keyspace, tag_views_table),
    )


def _sample(control: Control, settings: Settings) -> list[tuple[int, int]]:
    views = table(settings.journal_keyspace, settings.events_by_tag_table)
    partitions = control.execute(
        f"SELECT DISTINCT tag_name, timebucket FROM {views} LIMIT {SAMPLED_PARTITIONS}"
    )
    last_rows = control.execute_many(
        f"SELECT timebucket, timestamp FROM {views} WHERE tag_name = ? AND timebucket = ?"
        " ORDER BY timestamp DESC LIMIT 1",
        [(row["tag_name"], row["timebucket"]) for row in partitions],
    )
    return [
        (row["timebucket"], keys.timeuuid_epoch_ms(str(row["timestamp"])))
        for rows in last_rows
        for row in rows
    ]


def _mismatch(settings: Settings, evidence: str) -> BucketSizeMismatch:
    return BucketSizeMismatch(
        f"bucket size {settings.bucket_size.value} is not that of the existing tag views:"
        f" {evidence}",
        where=f"{settings.journal_keyspace}.{settings.events_by_tag_table}",
        do="set TIDEMARK_BUCKET_SIZE to the bucket size they were built with",
    )
