"""Mode `export`: rows for the lake, whose time buckets are replaced when they are processed again.

Either a Parquet file per time bucket, or an Iceberg table that is partitioned by time bucket.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import FileFormat
from tidemark.project.writing import export_files
from tidemark.project.writing.bucket import count_by_bucket
from tidemark.project.writing.iceberg import write as iceberg
from tidemark.project.writing.mode import BY_BUCKET, Counted, WriteMode, WriteRequest, as_selected

_NOT_IN_FILES = (T.NullType, T.DayTimeIntervalType, T.YearMonthIntervalType)


def batch_id(batch: WriteRequest) -> str:
    """Return the name of a run's batch: the definition's version, and a hash of the run.

    A repeated run has a new name: it removes the batch of the first run and does not reuse it.
    """
    run = hashlib.sha256(batch.run.owner.encode()).hexdigest()[:12]
    return f"{batch.definition.version}-{run}"


def column_problems(analyzed: AnalyzedDefinition) -> Iterator[str]:
    """Return a line for each problem of the columns in Parquet files, or in an Iceberg table."""
    result, file_format = analyzed.result, analyzed.definition.file_format
    place = "Parquet" if file_format is FileFormat.PARQUET else "Iceberg"
    if result.names == ["time_bucket"] and file_format is FileFormat.PARQUET:
        yield "the result has no column beside time_bucket, which is the name of the directory"
    lower = [name.lower() for name in result.names]
    for name in sorted({name for name in lower if lower.count(name) > 1}):
        yield f"{place} does not tell columns apart by case: {name} is there more than once"
    for field in result.fields:
        if any(isinstance(kind, _NOT_IN_FILES) for kind in _types_in(field.dataType)):
            yield f"{field.name} is {field.dataType.simpleString()}, which {place} does not have"


def _types_in(kind: T.DataType) -> Iterator[T.DataType]:
    yield kind
    if isinstance(kind, T.ArrayType):
        yield from _types_in(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _types_in(kind.keyType)
        yield from _types_in(kind.valueType)
    elif isinstance(kind, T.StructType):
        for field in kind.fields:
            yield from _types_in(field.dataType)


def no_table(partition_key: Sequence[str], clustering: Sequence[str]) -> None:
    """Accept every key, since the target is no table."""


def require_place(run: RunContext, analyzed: AnalyzedDefinition) -> None:
    """Reject a directory that cannot be opened or cannot replace files, or a table that differs."""
    definition = analyzed.definition
    if definition.file_format is FileFormat.ICEBERG:
        iceberg.require_table(run, analyzed)
        return
    directory = export_files.resolve(definition, run.settings)
    export_files.open_files(run.spark, directory, definition.name)


def _replace(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    if batch.definition.file_format is FileFormat.ICEBERG:
        return iceberg.replace(batch, rows, counted, batch_id(batch))
    return _replace_files(batch, rows, counted)


def _replace_files(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    settings, definition = batch.run.settings, batch.definition
    directory = export_files.resolve(definition, settings)
    files = export_files.open_files(
        batch.run.spark, directory, f"{settings.journal_keyspace}.{definition.name}"
    )
    name = batch_id(batch)
    batch.claimed.check()
    # Removes the batches of dead runs, so that a run that only seemed dead cannot publish its own.
    export_files.remove_batches(files)
    if counted.rows:
        batch.claimed.check()
        export_files.write_batch(rows, files, name)
    for time_bucket in batch.time_buckets:
        batch.claimed.check()
        if counted.by_bucket and time_bucket in counted.by_bucket:
            export_files.replace_bucket(files, name, time_bucket)
        else:
            export_files.remove_bucket(files, time_bucket)
    # Checked again, because this would also remove the batch of another run.
    batch.claimed.check()
    export_files.remove_batches(files)
    return counted


MODE = WriteMode(
    required={"time_bucket": T.LongType()},
    purpose="names the directory",
    key_problem=no_table,
    rows_of=as_selected,
    count=count_by_bucket,
    store=_replace,
    keeps_apart=BY_BUCKET,
    has_table=False,
    column_problems=column_problems,
    require_place=require_place,
)
