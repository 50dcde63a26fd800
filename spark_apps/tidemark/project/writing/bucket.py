"""Mode `bucket`: a result per time bucket, replaced when the bucket is processed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.cassandra import connector
from tidemark.cassandra.schema import default_time_to_live
from tidemark.context import RunContext
from tidemark.errors import TidemarkError, WrongData
from tidemark.ledger.piece import PieceRow
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.offset_store import management_state
from tidemark.project.planning import target_check, target_table
from tidemark.project.planning.plan import ledger
from tidemark.project.postgres import counts
from tidemark.project.postgres.place import PostgresPlace
from tidemark.project.transformation import row_key
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import tables
from tidemark.project.writing.mode import (
    ANY_KEY,
    BY_BUCKET,
    Counted,
    WriteMode,
    WriteRequest,
    as_selected,
)
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.text import counted, shortened
from tidemark.window import from_millis, iso

COMPARED = 10_000
"""Most time buckets to compare, the newest that were written: 14 months of hourly buckets."""
_NAMED = 5


@dataclass(frozen=True)
class BucketDifference:
    """A time bucket (epoch ms) that has another number of rows than were written."""

    time_bucket: int
    stored: int
    written: int

    def __str__(self) -> str:
        """Return the text for reports."""
        bucket = iso(from_millis(self.time_bucket))
        return f"{bucket} has {self.stored:,} rows, {self.written:,} were written"


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return the problem of a key whose partitions are not time buckets, or None."""
    if partition_key == ["time_bucket"]:
        return None
    key = ", ".join(partition_key)
    return f"the table's partition key is ({key}), mode bucket needs (time_bucket)"


def count_by_bucket(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of each time bucket.

    Raises:
        TidemarkError: there are rows of time buckets that were not read, or two rows with one key.
    """
    by = ["time_bucket"]
    row_count = row_key.count(rows, definition, key, unique=key.columns, by=by)
    by_bucket = {bucket: number for (bucket,), number in row_count.numbers.items()}
    foreign = sorted(
        "null" if bucket is None else iso(from_millis(bucket))
        for bucket in set(by_bucket) - set(time_buckets)
    )
    if foreign:
        raise TidemarkError(
            f"the result has rows of time buckets that were not read: {', '.join(foreign[:5])}",
            where=str(definition.file),
            do="select the events' own time_bucket and group by it",
        )
    row_count.checked()
    return Counted(sum(by_bucket.values()), by_bucket=by_bucket)


def _replace(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    batch.claimed.check()
    write_time = management_state.next_write_time(batch.store)
    if counted.rows:
        tables.write_bucket_rows(rows, batch.definition, write_time, len(batch.time_buckets))
        batch.claimed.check()
    tables.delete_older_rows(batch.run.control, batch.definition, batch.time_buckets, write_time)
    return counted


def differing_buckets(run: RunContext, definition: Definition) -> list[BucketDifference]:
    """Compare the rows of each time bucket in the table with the ledger; oldest bucket first.

    A differing time bucket is counted again, since a run of the projection may be replacing it.
    Returns nothing if `why_not_compared` has a reason.
    """
    if why_not_compared(run, definition):
        return []
    pieces = ledger(run, definition)
    last_bucket = pieces.standing().known.last
    if last_bucket is None:
        return []
    first_bucket = last_bucket - COMPARED * run.settings.bucket_size.milliseconds
    entries = _written(pieces.entries(first_bucket), definition)
    differences = _differing(entries, _stored(run, definition, entries))
    entries_now = _written(
        pieces.entries_of(difference.time_bucket for difference in differences), definition
    )
    unchanged_entries = {
        bucket: entry for bucket, entry in entries_now.items() if entry == entries[bucket]
    }
    return _differing(unchanged_entries, _stored(run, definition, unchanged_entries))


def why_not_compared(run: RunContext, definition: Definition) -> str:
    """Return why stored rows cannot be compared with the ledger, or ""."""
    if definition.mode is not Mode.BUCKET:
        return f"in mode {definition.mode} a row does not belong to one time bucket"
    if definition.connection:
        is_present = target_table.is_present(run, definition)
        return "" if is_present else f"there is no table {definition.target}"
    ttl = default_time_to_live(run.control, definition.keyspace, definition.table)
    if ttl is None:
        return f"there is no table {definition.target}"
    return f"rows of {definition.target} expire" if ttl else ""


def require_rows(run: RunContext, definition: Definition) -> str:
    """Require that the table has as many rows as were written; return a line for reports.

    Raises:
        WrongData: time buckets differ.
    """
    if reason := why_not_compared(run, definition):
        return f"rows are not compared with what was written: {reason}"
    differences = differing_buckets(run, definition)
    if not differences:
        return "each time bucket has as many rows as were written"
    first, last = differences[0].time_bucket, differences[-1].time_bucket
    end = last + run.settings.bucket_size.milliseconds
    raise WrongData(
        f"{counted(len(differences), 'time bucket')} of {definition.target} have another number of"
        f" rows than projection {definition.name} has written:"
        f" {'; '.join(shortened([*map(str, differences)], _NAMED))}",
        where=str(definition.file),
        do=f"run `{target_check.write_again(definition, first, end)}`",
    )


def _written(entries: Sequence[PieceRow], definition: Definition) -> dict[int, PieceRow]:
    return {
        entry.time_bucket: entry
        for entry in entries
        if entry.is_done(definition.fingerprint) and "rows_written" in entry.counts
    }


def _differing(
    written: Mapping[int, PieceRow], stored: Mapping[int, int]
) -> list[BucketDifference]:
    differences = (
        BucketDifference(bucket, stored.get(bucket, 0), entry.counts["rows_written"])
        for bucket, entry in sorted(written.items())
    )
    return [difference for difference in differences if difference.stored != difference.written]


def _stored(
    run: RunContext, definition: Definition, time_buckets: Mapping[int, PieceRow]
) -> dict[int, int]:
    """Count the rows of the time buckets in the table, without zeros; read by partition key."""
    if not time_buckets:
        return {}
    if definition.connection:
        place = PostgresPlace.of(run.settings, definition)
        return counts.by_time_bucket(place, sorted(time_buckets))
    bucket_rows = [(bucket,) for bucket in sorted(time_buckets)]
    keys = local_rows(run.spark, bucket_rows, "time_bucket bigint")
    rows = connector.read_partitions(keys, definition.keyspace, definition.table, "time_bucket")
    return {row["time_bucket"]: row["rows"] for row in _rows_by_bucket(rows).collect()}


@shaped(rows={"time_bucket": "bigint"}, returns={"time_bucket": "bigint", "rows": "bigint"})
def _rows_by_bucket(rows: DataFrame) -> DataFrame:
    return rows.groupBy("time_bucket").agg(F.count(F.lit(1)).alias("rows"))


MODE = WriteMode(
    required={"time_bucket": T.LongType()},
    purpose="says which time bucket it belongs to",
    key_problem=key_problem,
    rows_of=as_selected,
    count=count_by_bucket,
    store=_replace,
    keeps_apart=BY_BUCKET,
    instead=f", or use mode fold for totals of a persistence id{ANY_KEY}",
)
