"""The writes of tag views, one function for each kind, in the order in which they must happen.

Rows, then progress, then scanning, then Tidemark's tails: a crash between two of them leaves
progress that lags, and the next run writes the same keys again (docs/real-systems.md, "What an
actor writes", "progress may lag, never lead").
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.pekko import tables
from tidemark.ledger import quarantine
from tidemark.settings import Settings
from tidemark.tag_write import completeness, events

LATE_ROWS = "late_tag_rows"
"""The partitions that got rows after their time bucket was done. A projection may have consumed it
already, and purge must not delete the rows before the projection's next run, see
`project.offset_store.late`."""


def record_late(partitions: DataFrame, settings: Settings) -> None:
    """Write the partitions of `transform.late_partitions`, before their rows."""
    rows = partitions.withColumns(
        {
            "journal_keyspace": F.lit(settings.journal_keyspace),
            "bucket_size": F.lit(settings.bucket_size.value),
        }
    )
    connector.write(rows, settings.keyspace, LATE_ROWS)


def forget_late(control: Control, settings: Settings, deleted: Iterable[tuple[str, int]]) -> None:
    """Delete the records of partitions (tag, time bucket) that no longer exist."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, LATE_ROWS)}"
        " WHERE journal_keyspace = ? AND bucket_size = ? AND time_bucket = ? AND tag = ?",
        [
            (settings.journal_keyspace, settings.bucket_size.value, bucket, tag)
            for tag, bucket in deleted
        ],
    )


def quarantine_unwritable(run: RunContext, tagged: DataFrame) -> None:
    """Write the events of `events.unwritable` to quarantine, before all other writes."""
    settings = run.settings
    quarantine.write(
        events.unwritable(tagged),
        settings,
        source=f"{settings.journal_keyspace}.{settings.journal_table}",
        application=run.application,
        run_id=run.run_id,
    )


def write_tag_views(
    rows: DataFrame, settings: Settings, partitions: int, *, write_time: int | None = None
) -> None:
    """Write the rows of `transform.tag_view_rows`, the first write.

    `partitions`: the approximate largest number of Cassandra partitions. `write_time`:
    microseconds; needed after deletes, see `Control.write_time`.
    """
    rows = connector.repartition_by_key(rows, ("tag_name", "timebucket"), partitions)
    ttl = settings.events_by_tag_time_to_live
    _write(rows, settings, settings.events_by_tag_table, write_time, time_to_live=ttl)


def write_progress(rows: DataFrame, settings: Settings, *, write_time: int) -> None:
    """Write the rows of `transform.progress_rows`, the second write.

    The `write_time` (microseconds) is when the progress was read, or that of a later delete: an
    actor that has recovered since then has written its own progress, which must win.
    """
    _write(rows, settings, tables.TAG_WRITE_PROGRESS, write_time)


def write_scanning(rows: DataFrame, settings: Settings, *, write_time: int) -> None:
    """Write the rows of `transform.scanning_rows`, the third write, as in `write_progress`."""
    _write(rows, settings, tables.TAG_SCANNING, write_time)


def write_tails(
    rows: DataFrame, settings: Settings, rules_version: str, *, write_time: int
) -> None:
    """Write the rows of `transform.tail_rows`, the last write."""
    stamped = rows.withColumns(
        {
            "journal_keyspace": F.lit(settings.journal_keyspace),
            "rules_version": F.lit(rules_version),
            "write_time": F.lit(write_time),
        }
    )
    connector.write(stamped, settings.keyspace, completeness.TABLE, write_time="write_time")


def _write(
    rows: DataFrame, settings: Settings, name: str, write_time: int | None, time_to_live: int = 0
) -> None:
    keyspace = settings.journal_keyspace
    if write_time is None:
        connector.write(rows, keyspace, name, time_to_live=time_to_live)
        return
    stamped = rows.withColumn("write_time", F.lit(write_time))
    connector.write(stamped, keyspace, name, write_time="write_time", time_to_live=time_to_live)
