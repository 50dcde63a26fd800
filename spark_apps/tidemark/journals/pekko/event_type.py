"""The fields that tell the type of an event besides its payload, with names for users."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

FIELDS = (
    T.StructField("serializer_id", T.IntegerType()),
    T.StructField("manifest", T.StringType()),
    T.StructField("event_manifest", T.StringType()),
    T.StructField(
        "metadata",
        T.StructType(
            [
                T.StructField("serializer_id", T.IntegerType()),
                T.StructField("manifest", T.StringType()),
                T.StructField("payload", T.BinaryType()),
            ]
        ),
    ),
)
"""`manifest`: the serializer's. `event_manifest`: the event adapter's. `metadata`: null if the
event has none."""
NAMES = tuple(field.name for field in FIELDS)


def columns() -> list[Column]:
    """Return FIELDS from a frame that has the journal's own columns for them."""
    metadata = F.struct(
        F.col("meta_ser_id").alias("serializer_id"),
        F.col("meta_ser_manifest").alias("manifest"),
        F.col("meta").alias("payload"),
    )
    return [
        F.col("ser_id").alias("serializer_id"),
        F.col("ser_manifest").alias("manifest"),
        F.col("event_manifest"),
        F.when(F.col("meta").isNotNull(), metadata).alias("metadata"),
    ]
