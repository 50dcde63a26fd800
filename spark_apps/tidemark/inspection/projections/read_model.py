"""Rows of read models against what the ledger says was written, where both are by time bucket.

That is mode `bucket` only: a time bucket is replaced as a whole, and its piece has the number of
its rows. In the other modes rows of several pieces share a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.continuity.no_time_bucket import NO_TIME_BUCKET
from tidemark.inspection.projections import checks
from tidemark.ledger.pieces import PieceRow
from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.planning.plan import ledger
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.window import from_millis, iso

COMPARED = 10_000
"""Time buckets that are compared, the newest that were written: 14 months of Hours."""


def rows_differing(run: RunContext, definition: Definition) -> Iterator[tuple[object, ...]]:
    """Yield a finding for each time bucket with another number of rows than were written.

    What differs is looked at twice, since a run of the projection may be replacing it. Nothing is
    said of a table whose rows expire.
    """
    if definition.mode is not Mode.BUCKET or not _keeps_rows(run, definition):
        return
    pieces = ledger(run, definition)
    last = pieces.standing().known.last
    if last is None:
        return
    first = last - COMPARED * run.settings.bucket_size.milliseconds
    before = _written(pieces.entries(first), definition)
    differing = _differing(before, _held(run, definition, before))
    again = _written(pieces.entries_of(differing), definition)
    unmoved = {bucket: entry for bucket, entry in again.items() if entry == before[bucket]}
    held = _held(run, definition, unmoved)
    for bucket in _differing(unmoved, held):
        yield (
            *(NO_TIME_BUCKET, checks.ROWS_DIFFER.name, "", definition.name, bucket, None),
            f"time bucket {iso(from_millis(bucket))} of {definition.target} has"
            f" {held.get(bucket, 0):,} rows, {_number(unmoved[bucket]):,} were written",
        )


def _keeps_rows(run: RunContext, definition: Definition) -> bool:
    """Return whether the table is there, and none of its rows expires by its default."""
    rows = run.control.execute(
        "SELECT default_time_to_live FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (definition.keyspace, definition.table),
    )
    return any(not row["default_time_to_live"] for row in rows)


def _written(entries: list[PieceRow], definition: Definition) -> dict[int, PieceRow]:
    return {
        entry.time_bucket: entry
        for entry in entries
        if entry.is_done(definition.fingerprint) and "rows_written" in entry.counts
    }


def _number(entry: PieceRow) -> int:
    return entry.counts["rows_written"]


def _differing(written: Mapping[int, PieceRow], held: Mapping[int, int]) -> list[int]:
    return sorted(
        bucket for bucket, entry in written.items() if _number(entry) != held.get(bucket, 0)
    )


def _held(
    run: RunContext, definition: Definition, time_buckets: Mapping[int, PieceRow]
) -> dict[int, int]:
    """Count the rows of the time buckets in the table, without zeros; by key."""
    if not time_buckets:
        return {}
    wanted = [(bucket,) for bucket in sorted(time_buckets)]
    keys = local_rows(run.spark, wanted, "time_bucket bigint")
    rows = connector.read_partitions(keys, definition.keyspace, definition.table, "time_bucket")
    return {row["time_bucket"]: row["rows"] for row in _counted(rows).collect()}


@shaped(rows={"time_bucket": "bigint"}, returns={"time_bucket": "bigint", "rows": "bigint"})
def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("time_bucket").agg(F.count(F.lit(1)).alias("rows"))
