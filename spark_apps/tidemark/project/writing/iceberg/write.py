"""Writes batches to an Iceberg table: all time buckets of a batch are replaced by one commit.

A batch is written to a branch of the table, which readers do not see. Then the branch becomes the
table's `main` if nothing else has changed `main` since the branch was made. A run begins by
removing the branches of dead runs: a run that only seemed dead then has nothing to publish.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.errors import SchemaMismatch
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.writing.iceberg import columns
from tidemark.project.writing.iceberg.table import OWNER, IcebergTable, batch_branch, is_batch
from tidemark.project.writing.mode import Counted, WriteRequest
from tidemark.spark import gateway
from tidemark.spark.gateway import named

_MAIN = "main"
_PROPERTIES = {
    # Of every commit a file of the table's metadata remains; Iceberg keeps the last hundred.
    "write.metadata.delete-after-commit.enabled": "true",
}


def require_table(run: RunContext, analyzed: AnalyzedDefinition) -> None:
    """Reject a table that is not the projection's own, or whose columns do not fit the result.

    Raises:
        InvalidInput: the catalog cannot be used.
        SchemaMismatch: the table is of something else, or a column does not fit.
        TidemarkError: the catalog does not answer.
    """
    table = IcebergTable.of(run, analyzed.definition)
    if table.exists:
        require_own(table, analyzed.definition)
        _require_columns(table, analyzed.definition, analyzed.result)


def replace(batch: WriteRequest, rows: DataFrame, counted: Counted, batch_id: str) -> Counted:
    """Replace the time buckets of a batch.

    Raises:
        LockLost: another run may write.
        SchemaMismatch: the table is of something else, or a column does not fit.
        TidemarkError: another process writes the table, or has written it meanwhile.
    """
    table, branch = IcebergTable.of(batch.run, batch.definition), batch_branch(batch_id)
    batch.claimed.check()
    prepare(table, batch.definition, rows)
    batch.claimed.check()
    begin_batch(table, branch)
    batch.claimed.check()
    write_batch(table, branch, rows, batch.time_buckets)
    batch.claimed.check()
    publish_batch(table, branch)
    return counted


def prepare(table: IcebergTable, definition: Definition, rows: DataFrame) -> None:
    """Create the table, or give it the columns of the rows that it lacks.

    Raises:
        SchemaMismatch: the table is of something else, or a column does not fit.
    """
    if not table.exists:
        writer = rows.limit(0).writeTo(table.name).using("iceberg")
        for key, value in {**_PROPERTIES, OWNER: table.owner}.items():
            writer = writer.tableProperty(key, value)
        with table.commit("cannot be created"):
            writer.partitionedBy(F.col("time_bucket")).create()
        return
    require_own(table, definition)
    _require_columns(table, definition, rows.schema)
    changes = columns.changes(_stored_columns(table), rows.schema)
    if changes.fields:
        schemas = named(table.spark, "org.apache.iceberg.spark.SparkSchemaUtil")
        with table.commit("cannot get further columns"):
            update = table.loaded().updateSchema()
            update.unionByNameWith(schemas.convert(gateway.struct(table.spark, changes))).commit()


def begin_batch(table: IcebergTable, branch: str) -> None:
    """Remove the branches of dead runs, and make one that is like `main`."""
    with table.commit("cannot get a branch"):
        loaded = table.loaded()
        change = loaded.manageSnapshots()
        for name in [str(name) for name in loaded.refs().keySet()]:
            if is_batch(name):
                change = change.removeBranch(name)
        change.createBranch(branch).commit()


def write_batch(
    table: IcebergTable, branch: str, rows: DataFrame, time_buckets: Sequence[int]
) -> None:
    """Replace the rows of the time buckets in a branch; there may be none for a time bucket.

    Columns in: time_bucket (bigint), and the other columns of the table in any order.
    """
    rows.writeTo(table.branch_name(branch)).overwrite(F.col("time_bucket").isin(*time_buckets))


def publish_batch(table: IcebergTable, branch: str) -> None:
    """Make the branch the table's `main`, and remove the branch, in one commit.

    Raises:
        TidemarkError: the branch was removed, or `main` was changed since the branch was made.
    """
    with table.commit("was changed by another run"):
        change = table.loaded().manageSnapshots()
        change.fastForwardBranch(_MAIN, branch).removeBranch(branch).commit()


def require_own(table: IcebergTable, definition: Definition) -> None:
    """Reject a table that another projection or another program has made.

    Raises:
        SchemaMismatch: the table is of something else.
    """
    owner = table.written_by
    if owner != table.owner:
        raise SchemaMismatch(
            f"the Iceberg table {table.target} is {f'that of {owner}' if owner else 'not ours'},"
            f" and projection {definition.name} would replace its rows",
            where=f"{definition.file}:{definition.header_lines['target']}",
            do=f"choose another target; or drop the table, or set its property {OWNER} to"
            f" {table.owner}",
        )


def _require_columns(table: IcebergTable, definition: Definition, result: T.StructType) -> None:
    problems = list(columns.problems(_stored_columns(table), result))
    if problems:
        raise SchemaMismatch(
            f"projection {definition.name} does not fit the Iceberg table {table.target}: "
            + "; ".join(problems),
            where=str(definition.file),
            do=f"change {definition.body} or the table; or choose another target, which gets all"
            " time buckets",
        )


def _stored_columns(table: IcebergTable) -> T.StructType:
    with table.errors("cannot be read"):
        return table.spark.table(table.name).schema
