"""The value used for findings without a time bucket, such as those of a table or a projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.window import from_millis, iso

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_TIME_BUCKET = -1
"""The value of `time_bucket` in such a finding; no time bucket begins there."""
WITHOUT_TIME_BUCKET = "no time bucket"


def bucket_text(time_bucket: int) -> str:
    """Return the time bucket (epoch ms) of a finding in ISO 8601, or WITHOUT_TIME_BUCKET."""
    return WITHOUT_TIME_BUCKET if time_bucket == NO_TIME_BUCKET else iso(from_millis(time_bucket))


def no_time_bucket() -> Column:
    """Return NO_TIME_BUCKET as a column."""
    from pyspark.sql import functions as F

    return F.lit(NO_TIME_BUCKET).cast("bigint")
