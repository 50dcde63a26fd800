"""Every mode by its name."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.projection.definition import Mode
from tidemark.projection.modes import append, bucket, export, fold, upsert
from tidemark.projection.modes.base import Batch, Counted, Handling

HANDLINGS: Mapping[Mode, Handling] = {
    Mode.BUCKET: bucket.HANDLING,
    Mode.UPSERT: upsert.HANDLING,
    Mode.FOLD: fold.HANDLING,
    Mode.APPEND: append.HANDLING,
    Mode.EXPORT: export.HANDLING,
}


def write(batch: Batch, result: DataFrame) -> Counted:
    """Check a result by the rules of its mode, and store it.

    Raises:
        LockLost: our lock ran out while we worked.
        TidemarkError: the result contradicts the rules.
        CassandraUnavailable: a statement failed.
    """
    handling = HANDLINGS[batch.definition.mode]
    rows = handling.rows_of(result, batch.definition)
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counted = handling.count(rows, batch.definition, batch.time_buckets)
        handling.store(batch, rows, counted)
    finally:
        rows.unpersist()
    return counted
