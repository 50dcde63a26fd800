"""The differences that a comparison of messages with tag views reports, and their kinds.

The kinds are names of `validate.findings.checks`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate.findings import checks
from tidemark.validate.findings.check import Inputs, Repair
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.shapes import EVIDENCE, FINDINGS

OF_PROGRESS = checks.repaired_by(Repair.PROGRESS)
OF_ROWS = (
    *checks.repaired_by(
        Repair.ROW_WRITTEN, Repair.ROW_DELETED, Repair.ROW_RENUMBERED, Repair.ROW_MOVED
    ),
    checks.UNWRITABLE_EVENT.name,
)
OF_CONTINUITY = tuple(check.name for check in checks.CHECKS if check.inputs is Inputs.NUMBERS)
"""The findings that remain in the numbers once all differences are repaired.

Events missing then are in no table, so no repair can restore them.
"""
RULES = {check.name: check.rule for check in checks.CHECKS}
KINDS = (*OF_ROWS, *OF_PROGRESS, *checks.repaired_by(Repair.SCANNING), *OF_CONTINUITY)
"""Every kind that a comparison reports, in the order of reports."""


def any_of(names: Iterable[str]) -> str:
    """Return the condition for findings of these kinds."""
    return f"check_name IN ({', '.join(repr(name) for name in names)})"


IS_LEFT = any_of(OF_CONTINUITY)
"""The condition for findings that a repair does not change."""
IS_WRITTEN = any_of(checks.repaired_by(Repair.ROW_WRITTEN, Repair.ROW_RENUMBERED, Repair.ROW_MOVED))
"""The condition for findings whose repair writes a row of the tag views."""
IS_DELETED = any_of(checks.repaired_by(Repair.ROW_DELETED, Repair.ROW_RENUMBERED, Repair.ROW_MOVED))
"""The condition for findings whose repair deletes a row of the tag views."""
IS_OF_PROGRESS = any_of(OF_PROGRESS)
IS_EXPECTED = "expected_sequence_nr IS NOT NULL"
"""The condition for findings of progress whose repair writes a row; else it deletes the row."""
IS_SCANNING = f"{any_of(checks.repaired_by(Repair.SCANNING))} AND tag = ''"
"""The condition for findings whose repair moves tag_scanning back.

A finding with a tag is about a missing row; its repair is to write that row.
"""

COLUMNS = {
    "kind": "string",
    "tag": "string",
    "persistence_id": "string",
    "sequence_nr": "bigint",
    "timestamp": "string",
    "time_bucket": "bigint",
    "number": "bigint",
    "expected_sequence_nr": "bigint",
    "expected_timestamp": "string",
    "expected_time_bucket": "bigint",
    "expected_number": "bigint",
    "cause": "string",
}
"""A difference: the stored values (null if nothing is stored), then the expected values.

number is the tag pid sequence nr; timestamp a timeuuid, for progress its offset. tag is "" if
tag_scanning is after all events. Without expected values the row must be deleted. cause is the
reason why an event cannot be written.
"""


@shaped(returns=COLUMNS)
def difference(rows: DataFrame, **values: Column) -> DataFrame:
    """Return a difference for each row, with its persistence_id and the given values, else null."""
    values = {
        **dict.fromkeys(COLUMNS, F.lit(None)),
        "persistence_id": F.col("persistence_id"),
    } | values
    return rows.select(*(values[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))


@shaped(differences=COLUMNS, returns={**FINDINGS, **EVIDENCE})
def as_findings(differences: DataFrame, size: BucketSize) -> DataFrame:
    """Return differences as findings, with the same numbers as findings of validate.

    A finding is in the time bucket of the event; a finding of progress in that of its offset, if it
    has one.
    """
    kind = F.col("kind")
    is_scanning = kind == checks.SCANNING_AHEAD.name
    own_bucket = columns.time_bucket(columns.timeuuid_epoch_ms(F.col("timestamp")), size)
    bucket = F.coalesce("expected_time_bucket", "time_bucket", own_bucket, F.lit(NO_TIME_BUCKET))
    is_by_event = is_scanning | kind.isin(checks.UNTAGGED_EVENT.name, checks.UNWRITABLE_EVENT.name)
    is_of_numbers = kind.isin(checks.DOUBLED_ROW.name, checks.WRONG_NUMBER.name, *OF_PROGRESS)
    stored_number = F.coalesce("number", F.lit(0))
    values = {
        "time_bucket": bucket,
        "check_name": kind,
        "persistence_id": F.col("persistence_id"),
        "tag": F.col("tag"),
        "number": F.when(is_by_event, F.col("sequence_nr")).otherwise(stored_number),
        "expected": F.when(is_scanning, F.col("expected_sequence_nr")).when(
            is_of_numbers, F.col("expected_number")
        ),
        "detail": _detail(kind),
        "row_time_bucket": F.when(F.col("time_bucket") != bucket, F.col("time_bucket")),
        "tag_pid_sequence_nr": F.col("number"),
        "expected_tag_pid_sequence_nr": F.col("expected_number"),
    }
    shape = {**FINDINGS, **EVIDENCE}
    return differences.select(
        *(values.get(name, F.col(name)).cast(type_).alias(name) for name, type_ in shape.items())
    )


def _detail(kind: Column) -> Column:
    """Return the difference as a clause for people."""
    sequence_nr, expected_nr = F.col("sequence_nr"), F.col("expected_sequence_nr")
    number, expected = F.col("number"), F.col("expected_number")
    stored_text = F.when(number.isNull(), "no row").otherwise(F.format_string("number %d", number))
    other_bucket = F.when(
        F.col("time_bucket") != F.col("expected_time_bucket"),
        F.format_string(" in time bucket %d", F.col("time_bucket")),
    )
    expected_text = F.when(expected.isNull(), "none").otherwise(
        F.format_string("number %d", expected)
    )
    row_text = F.concat(
        stored_text, F.coalesce(other_bucket, F.lit("")), F.lit(", expected "), expected_text
    )
    progress_text = F.concat(
        F.when(number.isNull(), F.lit("no progress")).otherwise(stored_text),
        F.lit(", expected "),
        F.when(expected_nr.isNull(), F.lit("no progress")).otherwise(
            F.format_string("number %d at sequence nr %d", expected, expected_nr)
        ),
    )
    scanning_text = F.when(
        F.col("tag") == "", F.format_string("the last sequence nr is %d", expected_nr)
    ).otherwise(F.format_string("sequence nr %d has no row", expected_nr))
    differs = (
        F.when(kind.isin(*OF_PROGRESS), progress_text)
        .when(kind == checks.SCANNING_AHEAD.name, scanning_text)
        .when(
            kind == checks.UNWRITABLE_EVENT.name,
            F.concat(F.lit("the event cannot be written: "), "cause"),
        )
        .otherwise(row_text)
    )
    return F.concat(F.format_string("sequence nr %d: ", sequence_nr), differs)
