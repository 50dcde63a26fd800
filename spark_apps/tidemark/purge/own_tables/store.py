"""The deletes of these targets by key: of few rows from the driver, of many by Spark."""

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

    With `below`, the next column of the primary key, only the rows with a lower value there than
    the last value of the key. With `write_time`, in microseconds, only rows written until then.
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
    """Delete all rows of persistence ids from one of Tidemark's own tables.

    `keys` has the columns of the primary key up to `persistence_id`, in their order.
    """
    connector.delete(keys, settings.keyspace, name)
