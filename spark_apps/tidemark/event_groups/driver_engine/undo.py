"""The rule by which columns are restored, for single rows and for frames of rows.

A column has one write time, or none. The time tells who wrote the value:

| now                        | it was written by             | what is written in its place        |
|----------------------------|-------------------------------|-------------------------------------|
| a time of the events       | an event that is undone       | the before-image                    |
| null, which the event left | the event                     | the before-image                    |
| null otherwise             | nobody, or a deleter          | null                                |
| before the event's time    | somebody else                 | the same value                      |
| any other time             | somebody else, later          | nothing                             |

Restored values get a write time after those of the group. Then a statement of the event that
Cassandra delivers late, after its timeout, loses against them. This is why a value is written even
if it seems to be there already.

Several events may have written a column. Each is undone at its own time, the last writer first. A
restored value belongs to an event that is undone later, or it stays: it is somebody else's, or that
of an event which has not failed. A value that stays is written `STAYS_LATER`, at a time of no
event, so that no further event replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    # A group with few rows does not wait for the import of Spark.
    from pyspark.sql import Column

STAYS_LATER = 1
"""Microseconds by which a value that stays is written later than other restored values."""
MARKER_LATER = 2
"""Microseconds by which a row's marker is written later, so that it outlives the row's TTL."""
TIME_OF_EVENT = 3
"""Microseconds of write times that undoing one event needs."""
Truth = TypeVar("Truth", bool, "Column")
"""A condition for one row, or for the rows of a frame; never null."""


@dataclass(frozen=True)
class ColumnState(Generic[Truth]):
    """What the write time of a column tells; at most one of the first three holds.

    Attributes:
        is_own: it is that of an event that is undone, or of a restored value.
        is_null: there is none.
        is_older: somebody else wrote the column before the event's write time.
        may_be_cleared: whether the event may have left a null.
    """

    is_own: Truth
    is_null: Truth
    is_older: Truth
    may_be_cleared: Truth

    @property
    def gets_image(self) -> Truth:
        """Return whether the before-image is written."""
        return self.is_own | (self.is_null & self.may_be_cleared)

    @property
    def is_written(self) -> Truth:
        """Return whether anything is written: the before-image, the current value, or null."""
        return self.is_own | self.is_null | self.is_older
