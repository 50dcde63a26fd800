"""The columns that every event of a definition has, whatever its payload."""

from __future__ import annotations

from pyspark.sql import types as T

from tidemark.journals.pekko import event_type

ENVELOPE = T.StructType(
    [
        T.StructField("persistence_id", T.StringType()),
        T.StructField("sequence_nr", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("time_bucket", T.LongType()),
        T.StructField("entity_type", T.StringType()),
        T.StructField("slice", T.IntegerType()),
        T.StructField("tags", T.ArrayType(T.StringType())),
        *event_type.FIELDS,
    ]
)
"""What every event has; the fields of its payload come after it."""

IS_SNAPSHOT = "is_snapshot"
"""And in definitions that start from snapshots; it comes before those fields."""

STATE_KEY = T.StructType(ENVELOPE.fields[:2])
"""What every row of mode fold has; the fields of its state come after it."""

DELETED = "deleted"
"""The column of a result of mode upsert that says whether the row is deleted."""

SOURCE_COLUMN = "_source"

UNREADABLE_COLUMN = "_unreadable"
