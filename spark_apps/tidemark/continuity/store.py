"""The tables of validate: findings, and which of them operators have settled.

A run writes its findings, then deletes older ones in the same time buckets: the new rows carry a
write time, and the partitions are deleted up to just before it. So a reader sees the old findings,
then both, then the new ones, but never a state without findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.continuity import shapes
from tidemark.continuity.findings import finding
from tidemark.continuity.findings.checks import Check, Severity
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

FINDING = "finding"
SETTLED = "settled_finding"
_NOTHING_EXPECTED = 0
"""Stands for null in the key of SETTLED; no finding expects the number 0."""


@shaped(findings=shapes.WEIGHED)
def write_findings(
    findings: DataFrame,
    checks: Sequence[Check],
    settings: Settings,
    run_id: str,
    write_time: int,
    seen_before: Sequence[int],
) -> None:
    """Write findings at `write_time` (microseconds), the first write.

    Args:
        findings: `finding.weighed`.
        checks: all checks.
        settings: the settings.
        run_id: of the run.
        write_time: microseconds since the epoch.
        seen_before: the time buckets (epoch ms) that may have findings of earlier runs, which
            tell since when a finding has been there.
    """
    now = F.lit(clock.now())
    rows = _with_first_seen(findings, settings, seen_before).withColumns(
        {
            "journal_keyspace": F.lit(settings.journal_keyspace),
            "layer": _of_check(checks, lambda check: check.layer),
            "severity": _of_check(checks, lambda check: check.severity),
            "state": F.when(F.col("reason").isNull(), "open").otherwise("settled"),
            "first_seen": F.coalesce("first_seen", now),
            "last_seen": now,
            "run_id": F.lit(run_id),
            "write_time": F.lit(write_time),
        }
    )
    connector.write(rows, settings.keyspace, FINDING, write_time="write_time")


def delete_older(
    control: Control, settings: Settings, buckets: Iterable[int], write_time: int
) -> None:
    """Delete the findings of the time buckets that were written before `write_time`, afterwards."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, FINDING)} USING TIMESTAMP ?"
        " WHERE journal_keyspace = ? AND time_bucket = ?",
        [(write_time - 1, settings.journal_keyspace, bucket) for bucket in buckets],
    )


def delete_older_of(
    control: Control, settings: Settings, bucket: int, checks: Iterable[str], write_time: int
) -> None:
    """Delete the findings of some checks in a time bucket that were written before `write_time`."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, FINDING)} USING TIMESTAMP ?"
        " WHERE journal_keyspace = ? AND time_bucket = ? AND check_name = ?",
        [(write_time - 1, settings.journal_keyspace, bucket, name) for name in checks],
    )


def newest_write(control: Control, settings: Settings, bucket: int) -> int:
    """Return the write time (microseconds) of the newest finding in a time bucket; 0 without any.

    `detail` is in every finding.
    """
    rows = control.stream(
        f"SELECT writetime(detail) AS written FROM {table(settings.keyspace, FINDING)}"
        " WHERE journal_keyspace = ? AND time_bucket = ?",
        (settings.journal_keyspace, bucket),
    )
    return max((row["written"] for row in rows), default=0)


def open_findings(control: Control, settings: Settings, buckets: Iterable[int]) -> Iterator[Row]:
    """Yield the findings in the time buckets (epoch ms) that block and that nobody has settled."""
    closed = {_key(row) for row in settled(control, settings)}
    for bucket in buckets:
        for row in control.stream(
            "SELECT time_bucket, check_name, persistence_id, tag, number, expected, detail,"
            f" severity FROM {table(settings.keyspace, FINDING)}"
            " WHERE journal_keyspace = ? AND time_bucket = ?",
            (settings.journal_keyspace, bucket),
        ):
            if row["severity"] != Severity.WARNS and _key(row) not in closed:
                yield row


def settle(
    control: Control, settings: Settings, findings: Sequence[Row], reason: str, owner: str
) -> None:
    """Store findings (`open_findings`) as settled."""
    at = clock.now()
    control.execute_many(
        f"INSERT INTO {table(settings.keyspace, SETTLED)} (journal_keyspace, check_name,"
        " persistence_id, tag, number, expected, time_bucket, detail, reason, owner, settled_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(settings.journal_keyspace, *_key(row)),
                *(row["time_bucket"], row["detail"], reason, owner, at),
            )
            for row in findings
        ],
    )


@shaped(returns=shapes.SETTLEMENTS)
def settlements(spark: SparkSession, control: Control, settings: Settings) -> DataFrame:
    """Read the settled findings; they are few, since people settle them."""
    names = ("check_name", "persistence_id", "tag", "number")
    return local_rows(
        spark,
        [
            (
                *(row[name] for name in names),
                None if row["expected"] == _NOTHING_EXPECTED else row["expected"],
                *(row["reason"], row["owner"]),
            )
            for row in settled(control, settings)
        ],
        finding.SETTLEMENTS_SCHEMA,
    )


def settled(control: Control, settings: Settings) -> list[Row]:
    """Return the settled findings, as `open_findings` has them, with reason and owner."""
    return control.execute(
        "SELECT check_name, persistence_id, tag, number, expected, reason, owner"
        f" FROM {table(settings.keyspace, SETTLED)} WHERE journal_keyspace = ?",
        (settings.journal_keyspace,),
    )


def _key(row: Row) -> tuple[Any, ...]:
    names = ("check_name", "persistence_id", "tag", "number")
    return (*(row[name] for name in names), row["expected"] or _NOTHING_EXPECTED)


def _with_first_seen(
    findings: DataFrame, settings: Settings, seen_before: Sequence[int]
) -> DataFrame:
    if not seen_before:
        return findings.withColumn("first_seen", F.lit(None).cast("timestamp"))
    partitions = local_rows(
        findings.sparkSession,
        [(settings.journal_keyspace, bucket) for bucket in sorted(seen_before)],
        "journal_keyspace string, time_bucket bigint",
    )
    known = connector.read_partitions(
        partitions, settings.keyspace, FINDING, *finding.KEY, "first_seen"
    )
    return findings.join(known, on=[*finding.KEY], how="left")


def _of_check(checks: Sequence[Check], value: Callable[[Check], str]) -> Column:
    column = F.lit(None).cast("string")
    for check in checks:
        column = F.when(F.col("check_name") == check.name, str(value(check))).otherwise(column)
    return column
