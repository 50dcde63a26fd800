"""The rule by which columns are put back, for single rows and for frames of rows alike.

A column has one write time now, or none. Whose its value is follows from that time:

| now                        | it was written by             | what is written in its place        |
|----------------------------|-------------------------------|-------------------------------------|
| a time of the events       | an event that is taken back   | what was there before the event     |
| null, which the event left | the event                     | what was there before the event     |
| null otherwise             | nobody, or who has deleted it | null                                |
| before the event's time    | somebody else                 | the same value                      |
| any other time             | somebody else, later          | nothing                             |

Whatever is written gets a write time after those of the group. So a statement of the event that
Cassandra delivers late, after its time-out, loses against it: therefore values are written that
seem to be there already.

Several events may have written a column, and each is taken back at a time of its own, the last that
has written first. What is put back is a value of an event that is taken back later, or one that
stays: somebody else's, or that of an event which has not failed. The latter is written
`STAYS_LATER`, at a time that is none of the events, so nothing is written in its place any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    # A group with few rows does not wait for Spark.
    from pyspark.sql import Column

STAYS_LATER = 1
"""Microseconds by which the write time of a value that stays is later than that of another."""
MARKER_LATER = 2
"""Microseconds by which that of the marker of a row is later, which so loses its end."""
TIME_OF_EVENT = 3
"""Write times, in microseconds, that the way back of one event needs."""
Truth = TypeVar("Truth", bool, "Column")
"""A condition for one row, or for the rows of a frame; it is no null."""


@dataclass(frozen=True)
class Now(Generic[Truth]):
    """What the write time of a column says; at most one of the first three holds.

    Attributes:
        is_own: it is that of an event that is taken back, or of what is put back.
        is_null: there is none.
        is_older: somebody else has written it before the event's write time.
        may_be_cleared: whether the event may have left a null.
    """

    is_own: Truth
    is_null: Truth
    is_older: Truth
    may_be_cleared: Truth

    @property
    def gets_image(self) -> Truth:
        """Return whether what was there before the event is written."""
        return self.is_own | (self.is_null & self.may_be_cleared)

    @property
    def is_written(self) -> Truth:
        """Return whether anything is written; neither the image nor the value now: null."""
        return self.is_own | self.is_null | self.is_older
