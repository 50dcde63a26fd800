"""Mode `bucket`: a partial result per time bucket, replaced when the bucket is processed again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidemark.errors import TidemarkError
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store import management_state
from tidemark.projection.transformation import row_key
from tidemark.projection.transformation.row_key import RowKey
from tidemark.projection.writing import tables
from tidemark.projection.writing.mode import (
    BY_BUCKET,
    Counted,
    WriteMode,
    WriteRequest,
    as_selected,
)
from tidemark.window import from_millis, iso


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key whose partition is not what is replaced, or None."""
    if partition_key == ["time_bucket"]:
        return None
    key = ", ".join(partition_key)
    return f"the table's partition key is ({key}), mode bucket needs (time_bucket)"


def count_by_bucket(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of each time bucket.

    Raises:
        TidemarkError: there are rows of time buckets that were not read, or as `RowCount.checked`
            raises it.
    """
    by = ["time_bucket"]
    counted = row_key.count(rows, definition, key, one_row_each=key.columns, by=by)
    by_bucket = {bucket: number for (bucket,), number in counted.numbers.items()}
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
    counted.checked()
    return Counted(sum(by_bucket.values()), by_bucket)


def _replace(batch: WriteRequest, rows: DataFrame, counted: Counted) -> None:
    batch.claimed.check()
    write_time = management_state.next_write_time(batch.store)
    if counted.rows:
        tables.write_bucket_rows(rows, batch.definition, write_time, len(batch.time_buckets))
        batch.claimed.check()
    tables.delete_older_rows(batch.run.control, batch.definition, batch.time_buckets, write_time)


MODE = WriteMode(
    required={"time_bucket": T.LongType()},
    purpose="says which time bucket it belongs to",
    key_problem=key_problem,
    rows_of=as_selected,
    count=count_by_bucket,
    store=_replace,
    keeps_apart=BY_BUCKET,
    instead=", or use mode fold for totals of a persistence id",
)
