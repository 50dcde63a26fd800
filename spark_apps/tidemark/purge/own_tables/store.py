"""The writes of these targets: deletes by key, of few rows from here and of many by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier, table
from tidemark.journals.pekko.shapes import ID
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped


def delete(
    control: Control,
    settings: Settings,
    name: str,
    columns: Sequence[str],
    keys: Iterable[Sequence[object]],
    *,
    below: str | None = None,
    write_time: int | None = None,
) -> None:
    """Delete all rows of one of Tidemark's own tables that begin with one of the keys.

    With `below`, the next column of the primary key, only those with a lower value in it than the
    last one of the key. With `write_time`, in microseconds, only what was written by then.
    """
    conditions = [f"{identifier(column)} = ?" for column in columns]
    if below is not None:
        conditions.append(f"{identifier(below)} < ?")
    condition = " AND ".join(conditions)
    deleted = table(settings.keyspace, name)
    if write_time is not None:
        deleted += f" USING TIMESTAMP {write_time:d}"
    control.execute_many(f"DELETE FROM {deleted} WHERE {condition}", keys)


@shaped(keys=ID)
def delete_of_ids(keys: DataFrame, settings: Settings, name: str) -> None:
    """Delete all rows of one of Tidemark's own tables of persistence ids.

    Args:
        keys: the columns of the primary key up to `persistence_id`, in their order.
        settings: where the table is.
        name: of the table.
    """
    connector.delete(keys, settings.keyspace, name)
