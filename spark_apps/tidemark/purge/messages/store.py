"""The writes of event deletes, one function for each kind, in the promised order.

`metadata.deleted_to` first, as Pekko does: from then on no actor and no reader sees the events,
and after a crash it shows which events are still to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journals.pekko.shapes import DELETED, PARTITIONS
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped


@shaped(rows=DELETED)
def write_deleted_to(rows: DataFrame, settings: Settings, *, write_time: int) -> None:
    """Write up to where persistence ids are deleted, the first step.

    `write_time` is from before the plan (microseconds), so that a higher value that an actor writes
    meanwhile prevails.
    """
    stamped = rows.select("persistence_id", "deleted_to", F.lit(write_time).alias("write_time"))
    connector.write(
        stamped, settings.journal_keyspace, settings.metadata_table, write_time="write_time"
    )


@shaped(keys=PARTITIONS)
def delete_partitions(keys: DataFrame, settings: Settings) -> None:
    """Delete whole partitions of messages, the second step: one tombstone each."""
    connector.delete(
        keys.select("persistence_id", "partition_nr"),
        settings.journal_keyspace,
        settings.journal_table,
    )


def delete_ranges(control: Control, settings: Settings, ranges: Iterable[Sequence[object]]) -> None:
    """Delete (persistence id, partition, up to this sequence nr), the third step.

    One tombstone each. By CQL, since the connector deletes by equality only.
    """
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, settings.journal_table)}"
        " WHERE persistence_id = ? AND partition_nr = ? AND sequence_nr <= ?",
        ranges,
    )


def unlist_ids(control: Control, settings: Settings, persistence_ids: Sequence[str]) -> None:
    """Delete persistence ids from all_persistence_ids, the last step but one."""
    _delete_by_id(control, settings, settings.all_persistence_ids_table, persistence_ids)


def forget_ids(control: Control, settings: Settings, persistence_ids: Sequence[str]) -> None:
    """Delete persistence ids from metadata, the last step.

    As long as these rows exist, they show that all events are deleted.
    """
    _delete_by_id(control, settings, settings.metadata_table, persistence_ids)


def _delete_by_id(
    control: Control, settings: Settings, name: str, persistence_ids: Sequence[str]
) -> None:
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, name)} WHERE persistence_id = ?",
        [(persistence_id,) for persistence_id in persistence_ids],
    )
