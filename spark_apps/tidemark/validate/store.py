"""The tables of findings, of validate and `reconcile check`, and of settlements by operators.

A run writes its findings, then deletes older findings of the part that it has checked: the deletes
have a write time just before that of the new rows. So a reader sees the old findings, then both,
then the new findings, but never a state without findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Layer, Severity
from tidemark.validate.findings.checks import REPAIRABLE
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.stored_findings import FINDING, NOTHING_EXPECTED, SETTLED, key_of

BY_CHECK = ("time_bucket", "check_name")
"""The key of all findings of a check in a time bucket."""
BY_KEY = (
    *("time_bucket", "check_name", "persistence_id", "tag", "number"),
    *("sequence_nr", "timestamp", "row_time_bucket"),
)
"""The key of one finding."""
_NONE_IN_KEY = {
    "sequence_nr": 0,
    "timestamp": "00000000-0000-1000-8000-000000000000",
    "row_time_bucket": 0,
}
"""The values for null in the key of FINDING."""
_BATCH = 1000


def stored_in(spark: SparkSession, settings: Settings, buckets: Iterable[int]) -> DataFrame:
    """Read the findings of time buckets (epoch ms), by direct join.

    Columns out: BY_KEY and first_seen.
    """
    keys = local_rows(
        spark,
        [(settings.journal_keyspace, bucket) for bucket in sorted(buckets)],
        "journal_keyspace string, time_bucket bigint",
    )
    return connector.read_partitions(keys, settings.keyspace, FINDING, *BY_KEY, "first_seen")


def stored(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read all findings of the journal.

    Columns out: BY_KEY; write_time, the microseconds of the finding's last write.
    """
    rows = connector.read(
        spark, settings.keyspace, FINDING, "journal_keyspace", *BY_KEY, write_time_of="run_id"
    )
    own_rows = rows.where(F.col("journal_keyspace") == settings.journal_keyspace)
    return own_rows.drop("journal_keyspace")


@shaped(findings=shapes.FINDINGS)
def write_findings(
    findings: DataFrame,
    checks: Sequence[Check],
    settings: Settings,
    run_id: str,
    write_time: int,
) -> None:
    """Write findings (`finding.weighed`) at `write_time` (microseconds), the first write.

    `first_seen` of a finding is taken from the stored finding if there is one.
    """
    now = F.lit(clock.now())
    complete = finding.with_evidence(findings).withColumns(
        {name: F.coalesce(name, F.lit(null_value)) for name, null_value in _NONE_IN_KEY.items()}
    )
    rows = _with_first_seen(complete, settings).withColumns(
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
    control: Control,
    settings: Settings,
    keys: Iterable[Row],
    write_time: int,
    columns: Collection[str] = BY_CHECK,
) -> None:
    """Delete the findings with these keys that were written before `write_time` (microseconds).

    `columns` of the keys: BY_CHECK or BY_KEY.
    """
    where = " AND ".join(f"{name} = ?" for name in columns)
    statement = (
        f"DELETE FROM {table(settings.keyspace, FINDING)} USING TIMESTAMP ?"
        f" WHERE journal_keyspace = ? AND {where}"
    )
    values = (
        (
            *(write_time - 1, settings.journal_keyspace),
            *(UUID(key[name]) if name == "timestamp" else key[name] for name in columns),
        )
        for key in keys
    )
    while batch := list(islice(values, _BATCH)):
        control.execute_many(statement, batch)


@shaped(findings=shapes.WEIGHED)
def replace(
    run: RunContext,
    findings: DataFrame,
    checks: Sequence[Check],
    replaced: Callable[[DataFrame], DataFrame],
    *,
    key: Sequence[str] = BY_KEY,
    is_judged: Callable[[Row], bool] = lambda _: True,
) -> None:
    """Write all findings of an examination, then delete the older findings that they replace.

    `replaced` returns the stored findings that this examination would have found again; `is_judged`
    does the same for a key, for conditions that Spark cannot express. `key` of the deletes:
    BY_CHECK or BY_KEY.
    """
    stored_findings = stored(run.spark, run.settings).localCheckpoint()
    [newest] = stored_findings.agg(F.max("write_time").alias("write_time")).collect()
    # After all stored findings, whatever the clocks of other machines say.
    write_time = max(clock.now_micros(), (newest["write_time"] or 0) + 1)
    if not findings.isEmpty():
        write_findings(findings, checks, run.settings, run.run_id, write_time)
    rows = replaced(stored_findings).select(*key).distinct().toLocalIterator()
    older = (row.asDict() for row in rows)
    delete_older(run.control, run.settings, filter(is_judged, older), write_time, columns=key)


def newest_write(control: Control, settings: Settings, bucket: int) -> int:
    """Return the write time (microseconds) of the newest finding in a time bucket, or 0."""
    rows = control.stream(
        f"SELECT writetime(detail) AS written FROM {table(settings.keyspace, FINDING)}"
        " WHERE journal_keyspace = ? AND time_bucket = ?",
        (settings.journal_keyspace, bucket),
    )
    return max((row["written"] for row in rows), default=0)


def open_findings(control: Control, settings: Settings) -> Iterator[Row]:
    """Yield the findings of the journal that block and that nobody has settled."""
    return filter(_is_blocking, _unsettled(control, settings))


def open_findings_in(control: Control, settings: Settings, bucket: int) -> Iterator[Row]:
    """Yield the findings in a time bucket that block and that nobody has settled."""
    closed = {key_of(row) for row in settled(control, settings)}
    return filter(_is_blocking, _unsettled_in(control, settings, bucket, closed))


def _is_blocking(row: Row) -> bool:
    return bool(row["severity"] != Severity.WARNS)


def _unsettled(control: Control, settings: Settings) -> Iterator[Row]:
    closed = {key_of(row) for row in settled(control, settings)}
    partitions = control.stream(
        f"SELECT DISTINCT journal_keyspace, time_bucket FROM {table(settings.keyspace, FINDING)}"
    )
    for partition in partitions:
        if partition["journal_keyspace"] == settings.journal_keyspace:
            yield from _unsettled_in(control, settings, partition["time_bucket"], closed)


def _unsettled_in(
    control: Control, settings: Settings, bucket: int, closed: Collection[tuple[Any, ...]]
) -> Iterator[Row]:
    for row in control.stream(
        "SELECT time_bucket, check_name, persistence_id, tag, number, expected, detail, severity"
        f" FROM {table(settings.keyspace, FINDING)} WHERE journal_keyspace = ? AND time_bucket = ?",
        (settings.journal_keyspace, bucket),
    ):
        if key_of(row) not in closed:
            yield row


def names_in_no_time_bucket(control: Control, settings: Settings, layer: Layer) -> set[str]:
    """Return the checks of a layer with findings without a time bucket, settled or not."""
    rows = control.stream(
        f"SELECT check_name, layer FROM {table(settings.keyspace, FINDING)}"
        " WHERE journal_keyspace = ? AND time_bucket = ?",
        (settings.journal_keyspace, NO_TIME_BUCKET),
    )
    return {row["check_name"] for row in rows if row["layer"] == layer}


def repairable_ids(control: Control, settings: Settings) -> Iterator[str]:
    """Yield the persistence ids with repairable findings that nobody has settled."""
    seen: set[str] = set()
    for row in _unsettled(control, settings):
        if row["check_name"] in REPAIRABLE and row["persistence_id"] not in seen:
            seen.add(row["persistence_id"])
            yield row["persistence_id"]


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
                *(settings.journal_keyspace, *key_of(row)),
                *(row["time_bucket"], row["detail"], reason, owner, at),
            )
            for row in findings
        ],
    )


@shaped(returns=shapes.SETTLEMENTS)
def settlements(spark: SparkSession, control: Control, settings: Settings) -> DataFrame:
    """Read the settled findings; there are few, since people settle them."""
    names = ("check_name", "persistence_id", "tag", "number")
    return local_rows(
        spark,
        [
            (
                *(row[name] for name in names),
                None if row["expected"] == NOTHING_EXPECTED else row["expected"],
                *(row["reason"], row["owner"]),
            )
            for row in settled(control, settings)
        ],
        finding.SETTLEMENTS_SCHEMA,
    )


def settled(control: Control, settings: Settings) -> list[Row]:
    """Return the settled findings, as `open_findings` yields them, with reason and owner."""
    return control.execute(
        "SELECT check_name, persistence_id, tag, number, expected, reason, owner"
        f" FROM {table(settings.keyspace, SETTLED)} WHERE journal_keyspace = ?",
        (settings.journal_keyspace,),
    )


def _with_first_seen(findings: DataFrame, settings: Settings) -> DataFrame:
    buckets = [row["time_bucket"] for row in findings.select("time_bucket").distinct().collect()]
    stored_keys = stored_in(findings.sparkSession, settings, buckets)
    return findings.join(stored_keys, on=[*BY_KEY], how="left")


def _of_check(checks: Sequence[Check], value: Callable[[Check], str]) -> Column:
    column = F.lit(None).cast("string")
    for check in checks:
        column = F.when(F.col("check_name") == check.name, str(value(check))).otherwise(column)
    return column
