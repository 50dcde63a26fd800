"""The writes of validate: new findings, then the deletes of older ones in the same time buckets.

The new rows carry a write time, and the partitions are deleted up to just before it. So a reader
sees the old findings, then both, then the new ones, but never a state without findings.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

FINDING = "finding"


def write_findings(findings: DataFrame, settings: Settings, run_id: str, write_time: int) -> None:
    """Write the rows of `finding.of_buckets` at `write_time` (microseconds), the first write."""
    rows = findings.withColumns(
        {
            "journal_keyspace": F.lit(settings.journal_keyspace),
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
