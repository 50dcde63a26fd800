"""The shapes of the frames of a comparison of messages with tag views; `kinds.COLUMNS` is one."""

from __future__ import annotations

from tidemark.journal.shapes import ID, MESSAGE_KEYS
from tidemark.spark.shapes import Shape

SERIES: Shape = {**ID, "tag": "string"}
EXPECTED: Shape = {
    **SERIES,
    **MESSAGE_KEYS,
    "ticks": "bigint",
    "expected_time_bucket": "bigint",
    "expected_number": "bigint",
}
"""The rows that the tag views should hold; `expected_number` is 1 or more."""
RANKED: Shape = {**EXPECTED, "is_lost": "boolean"}
"""EXPECTED, and whether the event is only there as a row, which stays what it is."""
REQUIRED: Shape = {**EXPECTED, "is_required": "boolean", "deleted_to": "bigint"}
"""EXPECTED, and whether the row must be there."""
SEQUENCE_ENDS: Shape = {**ID, "lowest_sequence_nr": "bigint", "highest_sequence_nr": "bigint"}
"""The ends of each persistence id in messages."""
