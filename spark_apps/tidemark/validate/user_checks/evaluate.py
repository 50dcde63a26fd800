"""The evaluation of users' checks by Spark; checks over keys use the keys that a run has read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import MESSAGES, TAG_ROWS
from tidemark.partitioning import columns
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.user_sql.evaluate import accepted, named_columns, require_evaluable, with_failures
from tidemark.user_sql.row_check import RowCheck
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.judged import require_columns, unmet_expectations
from tidemark.validate.user_checks.result import (
    KEY,
    computing,
    key_of,
    require_key,
    shown,
    wrong_time_bucket,
)
from tidemark.validate.user_checks.suite import Suite

_SCHEMAS = {
    "messages": "persistence_id string, sequence_nr bigint, timestamp timestamp,"
    " time_bucket bigint, tags array<string>",
    "tag_rows": "tag string, time_bucket bigint, timestamp timestamp, persistence_id string,"
    " sequence_nr bigint, tag_pid_sequence_nr bigint",
    "findings": finding.SCHEMA,
}


def require_usable(spark: SparkSession, checks: Sequence[UserCheck]) -> None:
    """Parse and analyze each check over keys against empty tables; nothing is read.

    Raises:
        DefinitionError: Spark rejects a check, or its result lacks the time bucket or columns of an
            expectation; with file, line, column and the correction.
    """
    if not checks:
        return
    empty = {name: spark.createDataFrame([], ddl) for name, ddl in _SCHEMAS.items()}
    for check in checks:
        selected(check, empty)


@shaped(messages=MESSAGES, tag_rows=TAG_ROWS, findings=shapes.FINDINGS, returns=shapes.FINDINGS)
def failures(
    messages: DataFrame,
    tag_rows: DataFrame,
    findings: DataFrame,
    checks: Sequence[UserCheck],
    buckets: Collection[int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return a finding for each key of rows that fail a check, computed.

    Events (`messages`) and `tag_rows` of the time buckets (epoch ms) are checked. `findings` are
    those of Tidemark's checks. `require_usable` has accepted the checks.
    """
    timed = {
        name: finding.within(frame, buckets)
        .withColumn("timestamp", columns.ticks_timestamp(F.col("ticks")))
        .select(*_names(name))
        for name, frame in (("messages", messages), ("tag_rows", tag_rows))
    }
    tables = {**timed, "findings": findings.select(*_names("findings"))}
    parts = [check_findings(selected(check, tables), check, buckets, keep) for check in checks]
    no_findings = local_rows(messages.sparkSession, [], finding.SCHEMA)
    return reduce(DataFrame.unionByName, parts, no_findings)


def _names(frame: str) -> list[str]:
    return [column.split()[0] for column in _SCHEMAS[frame].split(",")]


@contextmanager
def _views(frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Register the frames as tables of the session for the block."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name, frame in frames.items():
            frame.sparkSession.catalog.dropTempView(name)


def selected(check: UserCheck, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the result of a check's SELECT over tables; no row is read."""
    spark = next(iter(tables.values())).sparkSession
    columns_of = "; ".join(f"of {name}: {', '.join(rows.columns)}" for name, rows in tables.items())
    with _views(tables):
        hint = f"the columns are {columns_of}"
        rows = accepted(spark, check.select, check.file, hint, tuple(tables))
    require_key(check, rows)
    if isinstance(check.condition, Suite):
        require_columns(check.condition, rows)
    else:
        require_evaluable(rows, check.condition, check.file)
    return rows


@shaped(returns=shapes.FINDINGS)
def check_findings(
    rows: DataFrame,
    check: UserCheck,
    buckets: Collection[int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return a finding for each key of the rows of `selected` that fail a check, computed.

    Raises:
        DefinitionError: the check cannot be computed or judged, or a row that fails it is of none
            of the time buckets (epoch ms).
    """
    if isinstance(check.condition, Suite):
        return unmet_expectations(rows, check, check.condition, buckets, keep)
    failed = keep(_failed(rows, check, check.condition))
    allowed = local_rows(rows.sparkSession, [(bucket,) for bucket in buckets], "time_bucket bigint")
    strays = failed.join(F.broadcast(allowed), on="time_bucket", how="left_anti")
    with computing(check):
        # An aggregate, since a limit would leave rows uncomputed.
        [(number, first)] = strays.agg(F.count(F.lit(1)), F.min("time_bucket")).collect()
    if number:
        raise wrong_time_bucket(check, "a row that fails", first)
    return failed


@shaped(returns=shapes.FINDINGS)
def _failed(rows: DataFrame, check: UserCheck, condition: RowCheck) -> DataFrame:
    """Return a finding for each key of the rows that fail a condition."""
    evidence = [name for name in named_columns(rows, condition, ()) if name not in KEY]
    marked = with_failures(rows, {"_fails": condition}).where("_fails")
    key = key_of(rows)
    return (
        marked.select(
            "time_bucket",
            *(column.alias(name) for name, column in key.items()),
            _detail(f"{check.prefix}{condition.text}", evidence).alias("detail"),
        )
        .groupBy("time_bucket", *key)
        .agg(F.min("detail").alias("detail"), F.count(F.lit(1)).alias("rows"))
        .select(
            *("time_bucket", "persistence_id", "tag"),
            F.lit(check.check.name).alias("check_name"),
            "number",
            F.lit(None).cast("bigint").alias("expected"),
            F.when(F.col("rows") == 1, F.col("detail"))
            .otherwise(F.concat("detail", F.format_string(" (%,d rows)", "rows")))
            .alias("detail"),
        )
    )


def _detail(text: str, evidence: Sequence[str]) -> Column:
    """Return the check and the values of its columns, as a clause."""
    values = [F.concat(F.lit(f"{name}="), shown(name)) for name in evidence]
    return F.concat_ws(": ", F.lit(text), *([F.concat_ws(", ", *values)] if values else []))
