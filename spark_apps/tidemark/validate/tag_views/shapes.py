"""The shapes of the frames of a comparison of messages with tag views; `kinds.COLUMNS` is one."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID, MESSAGE_KEYS
from tidemark.numbering.shapes import POINTS as POINTS_OF_RULE
from tidemark.numbering.shapes import SERIES
from tidemark.spark.shapes import Shape

EXPECTED: Shape = {
    **SERIES,
    **MESSAGE_KEYS,
    "ticks": "bigint",
    "expected_time_bucket": "bigint",
    "expected_number": "bigint",
}
"""The rows that the tag views should hold; `expected_number` is 1 or more."""
EXPECTED_PLACES: Shape = {"ticks": "bigint", "expected_time_bucket": "bigint"}
RANKED: Shape = {**EXPECTED, "is_lost": "boolean", "is_pending": "boolean"}
"""EXPECTED, and whether the event is only there as a row, which stays what it is, and whether the
row may be yet to come."""
REQUIRED: Shape = {
    **RANKED,
    "is_kept": "boolean",
    "is_required": "boolean",
}
"""RANKED, whether nothing has removed the row, and whether it must be there."""
SETTLED: Shape = {**REQUIRED, "is_settled": "boolean"}
"""REQUIRED, and whether progress must have reached the event."""
POINTS: Shape = {**POINTS_OF_RULE, "timestamp": "string", "expected_time_bucket": "bigint"}
"""The points of the rule; the event's timeuuid and the time bucket of its row, null of others."""
REACHED: Shape = {**SERIES, "is_event_there": "boolean", "reached_number": "bigint"}
"""What each progress should be: `is_event_there`: messages has the event that it names.
`reached_number`: the number of the last event up to there."""
SEQUENCE_ENDS: Shape = {**ID, "lowest_sequence_nr": "bigint", "highest_sequence_nr": "bigint"}
"""The ends of each persistence id in messages."""
