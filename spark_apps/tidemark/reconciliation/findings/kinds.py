"""The kinds of findings, and the shape of one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.continuity.findings import checks
from tidemark.spark.shapes import shaped

MISSING_ROW = "missing_row"
EXTRA_ROW = "extra_row"
DOUBLED_ROW = "doubled_row"
WRONG_NUMBER = "wrong_number"
WRONG_TIME_BUCKET = "wrong_time_bucket"
UNWRITABLE_EVENT = "unwritable_event"
PROGRESS_MISSING = "progress_missing"
PROGRESS_BEHIND = "progress_behind"
PROGRESS_AHEAD = "progress_ahead"
PROGRESS_WRONG = "progress_wrong"
SCANNING_AHEAD = "scanning_ahead"

MEANINGS = {
    MISSING_ROW: "an event carries the tag and has no row",
    EXTRA_ROW: "a row whose event does not carry the tag, or lies behind the last one there is",
    DOUBLED_ROW: "one more row of an event that has its row",
    WRONG_NUMBER: "a row with another tag pid sequence nr than its event's",
    WRONG_TIME_BUCKET: "a row in another time bucket than its event's",
    UNWRITABLE_EVENT: "a tagged event that no reader could read, such as one without a payload",
    PROGRESS_MISSING: "rows without a row of tag_write_progress",
    PROGRESS_BEHIND: "tag_write_progress stands before the last row",
    PROGRESS_AHEAD: "tag_write_progress stands behind the last event",
    PROGRESS_WRONG: "tag_write_progress has another number or offset than its event",
    SCANNING_AHEAD: "tag_scanning stands behind events that are missing or do not exist",
    checks.SEQUENCE_NR_GAP: "events are missing from messages before this one",
    checks.SEQUENCE_NR_MISSING_HEAD: "the first events are missing from messages",
    checks.SEQUENCE_NR_DUPLICATE: "one sequence nr belongs to two events: two writers",
    checks.WRONG_PARTITION_NR: "an event where no reader looks for it",
    checks.SEQUENCE_NR_LOST_TAIL: "the last events are missing from messages",
    checks.TAG_PID_SEQUENCE_NR_GAP: "rows of events that are deleted are missing before this one",
    checks.TAG_PID_SEQUENCE_NR_MISSING_HEAD: "the first rows are missing, and so are their events",
    checks.TAG_PID_SEQUENCE_NR_DUPLICATE: "two rows of deleted events have one number",
    checks.TAG_PID_SEQUENCE_NR_OUT_OF_ORDER: "rows of deleted events are not in their order",
    checks.TAG_PID_SEQUENCE_NR_LOST_TAIL: "the last rows are missing, and so are their events",
    checks.UNTAGGED_EVENT: "a deleted event that is still in messages has no row",
}
"""Every kind, in the order in which reports list them, with what it means.

The first ones are put right by repair. Those with the names of validate's checks are not: what they
lack is in no table, so a backup or an operator's decision is needed.
"""
OF_CONTINUITY = tuple(
    check.name
    for check in checks.CHECKS
    # Both have these under one name; the comparison finds them by itself.
    if check.name in MEANINGS and check.name not in (EXTRA_ROW, UNWRITABLE_EVENT, WRONG_TIME_BUCKET)
)

NEED_A_WRITE = (MISSING_ROW, WRONG_NUMBER, WRONG_TIME_BUCKET)
NEED_A_DELETE = (EXTRA_ROW, DOUBLED_ROW, WRONG_NUMBER, WRONG_TIME_BUCKET)
OF_PROGRESS = (PROGRESS_MISSING, PROGRESS_BEHIND, PROGRESS_AHEAD, PROGRESS_WRONG)

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
}
"""A finding. The first half is what is stored (null where nothing is), the second what should be.

number is the tag pid sequence nr; timestamp a timeuuid, of progress its offset. tag is "" in a
finding about tag_scanning as a whole. Nothing expected: the row must go.
"""


@shaped(returns=COLUMNS)
def finding(rows: DataFrame, **values: Column) -> DataFrame:
    """Return a finding for each row: the given values, its persistence_id, else null."""
    values = {
        **dict.fromkeys(COLUMNS, F.lit(None)),
        "persistence_id": F.col("persistence_id"),
    } | values
    return rows.select(*(values[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))
