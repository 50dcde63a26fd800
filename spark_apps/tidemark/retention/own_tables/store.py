"""The writes of these targets: deletes by key, of few rows from here and of many by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier, table
from tidemark.journal.shapes import ID
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped


def delete(
    control: Control,
    settings: Settings,
    name: str,
    columns: Sequence[str],
    keys: Iterable[Sequence[object]],
) -> None:
    """Delete all rows of one of Tidemark's own tables that begin with one of the keys."""
    condition = " AND ".join(f"{identifier(column)} = ?" for column in columns)
    control.execute_many(f"DELETE FROM {table(settings.keyspace, name)} WHERE {condition}", keys)


def delete_below(
    control: Control,
    settings: Settings,
    name: str,
    columns: Sequence[str],
    keys: Iterable[Sequence[object]],
) -> None:
    """Delete the rows of partitions below a value of the first clustering column, the last one."""
    *partition, last = (identifier(column) for column in columns)
    condition = " AND ".join([*(f"{column} = ?" for column in partition), f"{last} < ?"])
    control.execute_many(f"DELETE FROM {table(settings.keyspace, name)} WHERE {condition}", keys)


@shaped(keys=ID)
def delete_of_ids(keys: DataFrame, settings: Settings, name: str) -> None:
    """Delete all rows of one of Tidemark's own tables of persistence ids.

    Args:
        keys: the columns of the primary key up to `persistence_id`, in their order.
        settings: where the table is.
        name: of the table.
    """
    connector.delete(keys, settings.keyspace, name)
