"""The place of findings that belong to no time bucket, such as those of a table or a projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.window import from_millis, iso

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_TIME_BUCKET = -1
"""Stands for the time bucket of such a finding; no time bucket begins there."""
NOWHERE = "no time bucket"


def place_of(time_bucket: int) -> str:
    """Return the time bucket (epoch ms) of a finding for people: ISO 8601, or that it has none."""
    return NOWHERE if time_bucket == NO_TIME_BUCKET else iso(from_millis(time_bucket))


def nowhere() -> Column:
    """Return the time bucket of such findings as a column."""
    from pyspark.sql import functions as F

    return F.lit(NO_TIME_BUCKET).cast("bigint")
