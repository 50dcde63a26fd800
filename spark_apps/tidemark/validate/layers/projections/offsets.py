"""The check of offsets that are ahead of their source, as a pure transformation."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import NO_TAG, SERIES
from tidemark.journals.pekko.shapes import DELETED
from tidemark.project.shapes import NUMBERS, STORED, WRITTEN
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.layers.projections import checks
from tidemark.validate.no_time_bucket import no_time_bucket


@shaped(offsets=STORED, numbers=NUMBERS, written=WRITTEN, deleted=DELETED, returns=shapes.FINDINGS)
def offsets_ahead(
    projection: str,
    offsets: DataFrame,
    numbers: DataFrame,
    written: DataFrame | None,
    deleted: DataFrame,
) -> DataFrame:
    """Return a finding for each series whose offset is after the last number of its source.

    Its number is the offset, expected the highest number of the source. Persistence ids without any
    number are left out: Cleanup has removed them permanently.

    The offsets were read before the source, `deleted` after it; `deleted` has sequence nrs, so it
    applies to series without a tag only. `written`: how far each persistence id was written, if
    `numbers` may lack some.
    """
    highest = numbers.groupBy(*SERIES).agg(F.max("number").alias("highest"))
    joined = offsets.join(highest, on=[*SERIES], how="left").join(
        deleted, on="persistence_id", how="left"
    )
    last_numbers = [F.col("highest"), F.when(F.col("tag") == NO_TAG, F.col("deleted_to"))]
    if written is not None:
        joined = joined.join(written, on="persistence_id", how="left")
        last_numbers.append(F.col("written_to"))
    number, reached = F.col("stored_number"), F.greatest(*last_numbers)
    subject = F.concat_ws(" ", F.lit(projection), F.when(F.col("tag") != NO_TAG, F.col("tag")))
    rule = FindingRule(
        checks.OFFSET_AHEAD,
        number > reached,
        number,
        reached,
        F.format_string("the offset is %d, the source ends at %d", number, reached),
    )
    with_subject = joined.withColumns({"time_bucket": no_time_bucket(), "tag": subject})
    return findings_of(with_subject, [rule])
