"""The shapes of validate's frames."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID, MESSAGE_KEYS, MESSAGES, PARTITIONED_EVENTS
from tidemark.spark.shapes import Shape

FINDINGS: Shape = {
    "time_bucket": "bigint",
    "persistence_id": "string",
    "tag": "string",
    "check_name": "string",
    "number": "bigint",
    "expected": "bigint",
    "detail": "string",
}
"""`tag` is "" if no tag is concerned, `expected` may be null, `detail` is a clause for reports.

Columns of EVIDENCE may exist as well.
"""
EVIDENCE: Shape = {
    "sequence_nr": "bigint",
    "timestamp": "string",
    "row_time_bucket": "bigint",
    "tag_pid_sequence_nr": "bigint",
    "expected_sequence_nr": "bigint",
    "expected_timestamp": "string",
    "expected_time_bucket": "bigint",
    "expected_tag_pid_sequence_nr": "bigint",
}
"""The exact key of the event or row of a finding, as stored and as expected; null if unknown.

`row_time_bucket` is the time bucket of the row's partition, if it is not that of the finding.
"""
SETTLEMENTS: Shape = {
    "check_name": "string",
    "persistence_id": "string",
    "tag": "string",
    "number": "bigint",
    "expected": "bigint",
    "reason": "string",
    "owner": "string",
}
"""Findings that operators have settled; `expected` is null if it is null in the finding."""
WEIGHED: Shape = {**FINDINGS, "reason": "string", "owner": "string"}
"""Findings with the reason and owner of their settlement; both are null in open findings."""
PLACED: Shape = {"time_bucket": "bigint"}
"""Rows of any kind; `time_bucket` in epoch ms."""
CHECKED: Shape = {**PLACED, "persistence_id": "string"}
"""Rows to which the rule of a finding is applied, with `tag` if a tag is concerned."""
NUMBERED_EVENTS: Shape = {**MESSAGE_KEYS, "ticks": "bigint", "time_bucket": "bigint"}
JOURNAL_EVENTS: Shape = {
    **MESSAGES,
    "partition_nr": "bigint",
    "has_payload": "boolean",
    "cause": "string",
    "pending_tags": "array<string>",
}
"""Messages as `journal_keys.with_rule_tags` returns them."""
PARTITIONED: Shape = {**PARTITIONED_EVENTS, "time_bucket": "bigint"}
WITH_OR_WITHOUT_PAYLOAD: Shape = {
    **MESSAGE_KEYS,
    "time_bucket": "bigint",
    "has_payload": "boolean",
}
VIEW_SIZES: Shape = {**PLACED, "tag": "string", "rows": "bigint"}
"""Partitions of the tag views with the number of their rows."""
ABSENT: Shape = {
    **MESSAGE_KEYS,
    "tag": "string",
    "time_bucket": "bigint",
    "is_removed": "boolean",
    "is_owed": "boolean",
}
"""The (event, tag) pairs of messages without a row in the tag views.

`is_removed`: the row may have been removed on purpose. `is_owed`: the row is yet to be written.
"""
TAILS: Shape = {
    **MESSAGE_KEYS,
    "tag": "string",
    "tag_pid_sequence_nr": "bigint",
}
"""The last row of each series that a run has read."""
FIRST_ROWS: Shape = {**ID, "tag": "string", "first_number": "bigint", "first_nr": "bigint"}
"""The lowest number and the lowest sequence nr of the new rows of each series."""
