"""The Cassandra tables that a definition joins its events with."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.errors import SchemaMismatch
from tidemark.project.definition.model import Definition
from tidemark.spark.read_once import kept_once


def read(run: RunContext, definition: Definition) -> dict[str, DataFrame]:
    """Return the reference tables of a definition by their names.

    Each is read at its first use and cached, so that all batches of a run join with the same rows.
    The caller unpersists them.

    Raises:
        SchemaMismatch: a table does not exist.
    """
    frames = {}
    for name, target in definition.tables.items():
        keyspace, _, table = target.partition(".")
        columns = run.control.table_columns(keyspace, table)
        if columns is None:
            raise SchemaMismatch(
                f"the table {target} that projection {definition.name} calls {name} does not exist",
                where=f"{definition.file}:{definition.header_lines['with']}",
                do="create it, or correct `with`",
            )
        frames[name] = kept_once(connector.read(run.spark, keyspace, table, *columns))
    return frames
