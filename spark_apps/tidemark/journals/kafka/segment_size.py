"""The number of events in a segment of journal, as readers take it from a head."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

DEFAULT = 10_000
"""For a head without a size, or with one below 2, which upstream's reader ignores, too
(docs/real-systems.md, "Tables")."""


def of_value(stored: int | None) -> int:
    """Return the effective size for the size stored in a head."""
    return stored if stored is not None and stored >= 2 else DEFAULT


def of_column(stored: Column) -> Column:
    """Return the effective sizes of a column (int)."""
    return F.when(stored >= 2, stored).otherwise(DEFAULT)
