"""How late flights departed, in classes of minutes: a partial result for each time bucket."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.projection import projection

LIMITS = (0, 15, 60, 180)
"""Minutes; each class reaches up to its limit."""


@projection(
    name="delay_classes",
    version=1,
    source="messages",
    mode="bucket",
    target="flights.delay_classes",
    event="kind STRING, carrier STRING, dep_delay INT",
)
def delay_classes(events: DataFrame) -> DataFrame:
    """Departures by time bucket, carrier and class."""
    departed = events.where("kind = 'departed'").withColumn("delay_class", _class())
    return departed.groupBy("time_bucket", "carrier", "delay_class").agg(
        F.count(F.lit(1)).alias("departures")
    )


def _class() -> Column:
    found = F.lit(f"over {LIMITS[-1]}")
    for limit in reversed(LIMITS):
        found = F.when(F.col("dep_delay") <= limit, F.lit(f"up to {limit}")).otherwise(found)
    return found
