"""The columns that all events of a definition have, besides the fields of their payload."""

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
"""The first columns of every event; the fields of its payload follow."""

IS_SNAPSHOT = "is_snapshot"
"""A further column before the payload, in definitions that start from snapshots."""

STATE_KEY = T.StructType(ENVELOPE.fields[:2])
"""The first columns of every row of mode fold; the fields of its state follow."""

DELETED = "deleted"
"""The column of a result of mode upsert that says whether to delete the row."""

SOURCE_COLUMN = "_source"

UNREADABLE_COLUMN = "_unreadable"
