"""The shapes of the rule's frames. A series is the events of a persistence id under a tag."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID
from tidemark.spark.shapes import Shape

SERIES: Shape = {**ID, "tag": "string"}
ENTRIES: Shape = {**SERIES, "sequence_nr": "bigint", "ticks": "bigint", "is_present": "boolean"}
"""Events under each of their tags, and once without a tag if they have none.

`is_present`: whether messages has the event; if not, only its row exists.
"""
NUMBERS: Shape = {**SERIES, "sequence_nr": "bigint", "ticks": "bigint", "number": "bigint"}
"""The number that a row has at its event."""
REACHED: Shape = {**SERIES, "sequence_nr": "bigint", "number": "bigint"}
"""The number of events of a series up to a sequence nr, as recorded in tag_write_progress."""
POINTS: Shape = {
    **ENTRIES,
    "kind": "int",
    "number": "bigint",
    "rank": "bigint",
    "missing": "bigint",
}
"""ENTRIES, NUMBERS and REACHED in one frame, distinguished by `kind`.

`is_present`: whether messages has an event with that sequence nr, for points of every kind.
`number`: null for an entry. `rank`: the number of entries of the series up to the point. `missing`:
the number of events up to the point that are in no table.
"""
KNOWN: Shape = {**SERIES, "known": "array<struct<missing:bigint,shift:bigint>>"}
"""The evidence for a series: the `shift` from ranks to numbers after so many missing events."""
NUMBERED: Shape = {**POINTS, "expected_number": "bigint", "is_certain": "boolean"}
"""POINTS with the number of the last entry up to each point; null without a tag.

`is_certain`: whether the evidence leaves no other number.
"""
RANKED: Shape = {**SERIES, "sequence_nr": "bigint", "tag_pid_sequence_nr": "bigint"}
