"""The conversion of numbered events to rows of Pekko's `messages` and `all_persistence_ids`.

Tags: every event carries its carrier (`UA`) and its origin airport (`EWR`); a `departed` event
that left more than 15 minutes late also carries `delayed`.

Payload: JSON with these fields in this order, without fields that do not apply::

    kind, carrier, flight, tail_number, origin, dest, scheduled_departure    every event
    dep_delay                                         minutes                departed
    arr_delay, air_time, distance                     minutes, minutes, miles    arrived
"""

from __future__ import annotations

import uuid

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from examples.flights.events import ARRIVED, DEPARTED
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize

PEKKO_STRING_SERIALIZER = 20
DELAYED = "delayed"
DELAYED_OVER_MINUTES = 15

DEFINITION = "flights-1"
"""The name of these rules; other rules would need another name."""
WRITER_UUID = str(uuid.uuid5(uuid.NAMESPACE_OID, f"tidemark {DEFINITION}"))
CLOCK_SEQUENCE = 0x2013
NODE = 0x01_74_69_64_65_6D
"""Its multicast bit is set, so that it is no network card's address (RFC 4122, section 4.5)."""


def to_messages(
    numbered: DataFrame, bucket_size: BucketSize, target_partition_size: int
) -> DataFrame:
    """Return the rows of `messages` as the Pekko plugin writes events without metadata.

    Columns in: those of `number_events`.
    Columns out: every column of `messages` except `meta*`, which Pekko leaves unset. `timestamp` is
    the text of a timeuuid at the event's own time, unique in the journal and rising with
    `sequence_nr` in each persistence id.
    """
    ticks = columns.epoch_ms_ticks(F.col("event_ms")) + F.col("rank_in_ms")
    timestamp = columns.ticks_timeuuid(ticks, clock_sequence=CLOCK_SEQUENCE, node=NODE)
    return numbered.select(
        "persistence_id",
        columns.partition_nr(F.col("sequence_nr"), target_partition_size).alias("partition_nr"),
        "sequence_nr",
        timestamp.alias("timestamp"),
        columns.messages_time_bucket(F.col("event_ms"), bucket_size).alias("timebucket"),
        F.lit(WRITER_UUID).alias("writer_uuid"),
        F.lit(PEKKO_STRING_SERIALIZER).alias("ser_id"),
        F.lit("").alias("ser_manifest"),
        F.lit("").alias("event_manifest"),
        F.encode(F.to_json(payload(), {"ignoreNullFields": "true"}), "UTF-8").alias("event"),
        tags().alias("tags"),
    )


def to_persistence_ids(messages: DataFrame) -> DataFrame:
    """Return the rows of `all_persistence_ids`: Pekko adds one with each first event.

    Columns in: `persistence_id` and `sequence_nr`. Columns out: `persistence_id`, unique.
    """
    return messages.where(F.col("sequence_nr") == 1).select("persistence_id")


def payload() -> Column:
    """Return the fields of an event, null where they do not apply."""
    always = ["kind", "carrier", "flight", "tail_number", "origin", "dest", "scheduled_departure"]
    by_kind = {DEPARTED: ["dep_delay"], ARRIVED: ["arr_delay", "air_time", "distance"]}
    fields = [
        F.col("tailnum").alias(name) if name == "tail_number" else F.col(name) for name in always
    ]
    fields += [
        F.when(F.col("kind") == kind, F.col(name)).alias(name)
        for kind, names in by_kind.items()
        for name in names
    ]
    return F.struct(*fields)


def tags() -> Column:
    """Return the tags of an event."""
    is_delayed = (F.col("kind") == DEPARTED) & (F.col("dep_delay") > DELAYED_OVER_MINUTES)
    return F.array_compact(
        F.array(F.col("carrier"), F.col("origin"), F.when(is_delayed, F.lit(DELAYED)))
    )
