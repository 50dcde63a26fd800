"""All modes by name, and the write step: checks a result and stores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from tidemark.project.definition.model import Mode
from tidemark.project.transformation import result_checks, transform
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import append, bucket, export, fold, rollup, upsert
from tidemark.project.writing.mode import Counted, ResultWriter, WriteMode, WriteRequest
from tidemark.spark.read_once import kept_once

MODES: Mapping[Mode, WriteMode] = {
    Mode.BUCKET: bucket.MODE,
    Mode.UPSERT: upsert.MODE,
    Mode.FOLD: fold.MODE,
    Mode.APPEND: append.MODE,
    Mode.EXPORT: export.MODE,
    Mode.ROLLUP: rollup.MODE,
}


def write(
    batch: WriteRequest,
    result: DataFrame,
    announce: Callable[[], None],
    writer: ResultWriter | None = None,
) -> Counted:
    """Check a result by the rules of its mode and the definition's checks, and store the result.

    `announce` is called after the checks, before the first row is written. Without `writer`, the
    mode itself stores the rows, in Cassandra or in files.

    Raises:
        LockLost: the run's lock expired.
        WrongData: a blocking check fails.
        TidemarkError: the result breaks the mode's rules.
    """
    mode = MODES[batch.definition.mode]
    rows = kept_once(mode.rows_of(result, batch.definition))
    try:
        key = RowKey.of(batch.run, batch.definition)
        counted = mode.count(rows, batch.definition, key, batch.time_buckets)
        example_key = key.columns or list(mode.required)
        findings = result_checks.examine(
            transform.stored(rows), batch.definition.checks, example_key
        )
        warnings = result_checks.require(batch.definition, findings)
        announce()
        store = mode.store if writer is None else writer.store
        counted = store(batch, rows, counted)
    finally:
        rows.unpersist()
    return replace(counted, warnings=warnings)
