"""Checks of the bucket size and the partition size that a journal was built with.

Pekko neither stores nor checks these sizes. A reader whose bucket size differs from the writer's
sees no events and gets no error (docs/real-systems.md, "How a reader reads"). The checks therefore
compare the settings with the recorded bucket size and with the rows themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import BucketSizeMismatch, InvalidInput
from tidemark.journals.pekko.tables import OF_EVENTS
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings

SAMPLED_PARTITIONS = 64
LISTED_PARTITIONS = 1000
TABLE = "tag_view_table"


def require_bucket_size(control: Control, settings: Settings) -> None:
    """Require that the existing tag views have the configured bucket size.

    The check reads the last row of up to 64 partitions. If the existing buckets are larger, the
    last row is after the end of the expected bucket; if they are smaller, the partition key is not
    the start of an expected bucket. If fewer than half of these rows are in the wrong bucket, the
    rows are damaged, which `reconcile check` finds.

    Raises:
        BucketSizeMismatch: the recorded bucket size, or at least half of the sampled rows,
            contradict `settings.bucket_size`.
    """
    recorded = recorded_bucket_size(control, settings)
    if recorded is not None and recorded is not settings.bucket_size:
        raise _mismatch(settings, f"Tidemark built them with {recorded.value}")
    samples = _sample(control, settings)
    misplaced = [
        (time_bucket, epoch_ms)
        for time_bucket, epoch_ms in samples
        if keys.time_bucket(epoch_ms, settings.bucket_size) != time_bucket
    ]
    if misplaced and 2 * len(misplaced) >= len(samples):
        time_bucket, epoch_ms = misplaced[0]
        fitting = [s.value for s in BucketSize if keys.time_bucket(epoch_ms, s) == time_bucket]
        raise _mismatch(
            settings,
            f"an event of epoch ms {epoch_ms} lies in time bucket {time_bucket},"
            f" which is right for {' or '.join(fitting) or 'no bucket size'}",
        )


def require_partition_size(control: Control, settings: Settings) -> None:
    """Require that the existing messages have the configured target partition size.

    With a wrong target partition size, a read by key misses messages. The check lists up to 1,000
    partitions and reads the last row of the 64 with the highest partition nrs. A row is in the
    partition of its sequence nr or in the next one (docs/real-systems.md, "Partitions").

    Raises:
        InvalidInput: a row is in any other partition.
    """
    messages = table(settings.journal_keyspace, settings.journal_table)
    partitions = control.execute(
        f"SELECT DISTINCT persistence_id, partition_nr FROM {messages} LIMIT {LISTED_PARTITIONS}"
    )
    highest = sorted(partitions, key=lambda row: -int(row["partition_nr"]))[:SAMPLED_PARTITIONS]
    last_rows = control.execute_many(
        f"SELECT persistence_id, partition_nr, sequence_nr FROM {messages}"
        f" WHERE persistence_id = ? AND partition_nr = ? AND {OF_EVENTS}"
        " ORDER BY sequence_nr DESC LIMIT 1",
        [(row["persistence_id"], row["partition_nr"]) for row in highest],
    )
    for row in (row for rows in last_rows for row in rows):
        expected = keys.message_partitions(row["sequence_nr"], settings.target_partition_size)
        if row["partition_nr"] not in expected:
            raise InvalidInput(
                f"target partition size {settings.target_partition_size} is not that of the"
                f" messages: sequence nr {row['sequence_nr']} of {row['persistence_id']} lies in"
                f" partition {row['partition_nr']}, not {expected[0]}",
                where=f"TIDEMARK_TARGET_PARTITION_SIZE, {messages}",
                do="set it to journal.target-partition-size of the actors' configuration",
            )


def record_bucket_size(control: Control, *written: Settings) -> None:
    """Record the bucket size of tag views, with one common time, before their first row."""
    now = clock.now()
    control.execute_many(
        f"INSERT INTO {table(written[0].keyspace, TABLE)}"
        " (journal_keyspace, tag_views_table, bucket_size, recorded_at) VALUES (?, ?, ?, ?)",
        [
            (
                settings.journal_keyspace,
                settings.events_by_tag_table,
                settings.bucket_size.value,
                now,
            )
            for settings in written
        ],
    )


def recorded_bucket_size(control: Control, settings: Settings) -> BucketSize | None:
    """Return the recorded bucket size of the tag views; None without a record."""
    row = _recorded(control, settings)
    return BucketSize.parse(row["bucket_size"]) if row else None


def recorded_at(control: Control, settings: Settings) -> datetime | None:
    """Return when (UTC) tag-write or reconcile last wrote tag views, or rebucket made the table."""
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
    """Delete the recorded bucket size of a dropped table."""
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
