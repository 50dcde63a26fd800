"""The shapes of a comparison of messages with tag views, besides `finding_kinds.COLUMNS`."""

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
"""The rows that the tag views should have; `expected_number` is 1 or more."""
EXPECTED_PLACES: Shape = {"ticks": "bigint", "expected_time_bucket": "bigint"}
RANKED: Shape = {**EXPECTED, "is_lost": "boolean", "is_pending": "boolean"}
"""EXPECTED, and whether only the row of the event exists, which is not changed, and whether the row
may not be written yet."""
REQUIRED: Shape = {
    **RANKED,
    "is_kept": "boolean",
    "is_required": "boolean",
}
"""RANKED, whether the row has not been removed, and whether it must exist."""
SETTLED: Shape = {**REQUIRED, "is_settled": "boolean"}
"""REQUIRED, and whether progress must have reached the event."""
POINTS: Shape = {**POINTS_OF_RULE, "timestamp": "string", "expected_time_bucket": "bigint"}
"""The points of the rule; the event's timeuuid and its row's time bucket, null for other points."""
REACHED: Shape = {**SERIES, "is_event_there": "boolean", "reached_number": "bigint"}
"""The facts to judge progress: `is_event_there`: messages has the event that progress names.
`reached_number`: the number of the last event up to that event."""
SEQUENCE_ENDS: Shape = {**ID, "lowest_sequence_nr": "bigint", "highest_sequence_nr": "bigint"}
"""The lowest and highest sequence nr of each persistence id in messages."""
