"""The shapes of the frames of the rule. A series is a persistence id and a tag."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID
from tidemark.spark.shapes import Shape

SERIES: Shape = {**ID, "tag": "string"}
ENTRIES: Shape = {**SERIES, "sequence_nr": "bigint", "ticks": "bigint", "is_present": "boolean"}
"""Events under each of their tags, and once without a tag if they have none.

`is_present`: whether messages has the event; if not, it is known by its row alone.
"""
NUMBERS: Shape = {**SERIES, "sequence_nr": "bigint", "ticks": "bigint", "number": "bigint"}
"""The number that a row has at its event."""
REACHED: Shape = {**SERIES, "sequence_nr": "bigint", "number": "bigint"}
"""The number of events of a series up to a sequence nr, as tag_write_progress tells it."""
POINTS: Shape = {
    **ENTRIES,
    "kind": "int",
    "number": "bigint",
    "rank": "bigint",
    "missing": "bigint",
}
"""ENTRIES, NUMBERS and REACHED in one frame, told apart by `kind`.

`is_present`: of every point whether messages has an event with that sequence nr. `number`: null for
an entry. `rank`: the entries of the series up to here. `missing`: the events
that are in no table up to here.
"""
KNOWN: Shape = {**SERIES, "known": "array<struct<missing:bigint,shift:bigint>>"}
"""What the evidence says of a series: the `shift` from ranks to numbers behind so many missing."""
NUMBERED: Shape = {**POINTS, "expected_number": "bigint", "is_certain": "boolean"}
"""POINTS with the number of the last entry up to each; null without a tag.

`is_certain`: whether what is known leaves no other number.
"""
RANKED: Shape = {**SERIES, "sequence_nr": "bigint", "tag_pid_sequence_nr": "bigint"}
