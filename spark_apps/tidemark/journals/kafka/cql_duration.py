"""CQL's durations as columns of text, which is how the connector returns them.

Source: com.datastax.oss.driver.api.core.data.CqlDuration 4, whose text has the units y, mo, d, h,
m, s, ms, us and ns. kafka-journal writes whole days, and the rest as nanoseconds.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_UNITS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}


def nanoseconds(text: Column) -> Column:
    """Return a duration in nanoseconds (bigint), a day as 24 hours; null if it has months."""

    def part(unit: str, size: int) -> Column:
        digits = F.regexp_extract(text, rf"(\d+){unit}(?![a-z])", 1)
        return F.when(digits != "", digits.cast("bigint") * size).otherwise(0)

    total = reduce(Column.__add__, (part(unit, size) for unit, size in _UNITS.items()))
    signed = F.when(text.startswith("-"), -total).otherwise(total)
    return F.when(~text.rlike(r"\d(y|mo)"), signed)


def text(nanoseconds: Column) -> Column:
    """Return the text of a duration: whole days, and the rest as nanoseconds; null for null."""
    day = F.lit(_UNITS["d"])
    length = F.abs(nanoseconds)
    parts = F.format_string("%dd%dns", F.call_function("div", length, day), length % day)
    signed = F.concat(F.when(nanoseconds < 0, "-").otherwise(""), parts)
    return F.when(nanoseconds.isNotNull(), signed)
