"""The events of each aircraft, derived from its flights, with their times and sequence nrs.

Rules: an aircraft is the persistent entity `aircraft|<tail number>`; flights without a tail
number belong to `aircraft|none-<carrier>`. A flight that was flown gives `scheduled` two hours
before its scheduled departure, `departed` at the scheduled departure plus its delay, and
`arrived` after its air time if that is known. A flight without a departure time gives only
`cancelled`, at its scheduled departure.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

SCHEDULED, DEPARTED, ARRIVED, CANCELLED = "scheduled", "departed", "arrived", "cancelled"
ENTITY_TYPE = "aircraft"
ANNOUNCED_MS = 2 * 3_600_000
"""A flight is announced this long before its scheduled departure."""
_MINUTE_MS = 60_000

# A total order of simultaneous events: `row` and `kind` together identify an event.
_TIE_ORDER = ["kind", "carrier", "flight", "origin", "row"]


def to_events(flights: DataFrame) -> DataFrame:
    """Return one row per event.

    Columns in: FLIGHTS_SCHEMA.
    Columns out: those of the flight, `persistence_id`, `kind`, `event_ms` (epoch ms, UTC) and
    `scheduled_departure` (ISO 8601 text, UTC).
    """
    scheduled_ms = F.unix_millis(F.to_timestamp("time_hour")) + F.col("minute") * _MINUTE_MS
    scheduled_departure = F.concat(
        F.substring("time_hour", 1, 14),
        F.lpad(F.col("minute").cast("string"), 2, "0"),
        F.lit(":00Z"),
    )
    owner = F.coalesce(F.col("tailnum"), F.concat(F.lit("none-"), F.col("carrier")))
    return (
        flights.withColumn("persistence_id", F.concat(F.lit(f"{ENTITY_TYPE}|"), owner))
        .withColumn("scheduled_departure", scheduled_departure)
        .withColumn("scheduled_ms", scheduled_ms)
        .select("*", F.inline(_events_of_flight()))
        .drop("scheduled_ms")
    )


def number_events(events: DataFrame) -> DataFrame:
    """Number the events of each aircraft, and those of each millisecond.

    An event's numbers depend only on events that are not later, so numbering the journal up to some
    month gives the same numbers as numbering all of it.

    Columns in: those of `to_events`.
    Columns out: also `sequence_nr` (bigint, from 1 per persistence id, without a gap, in time
    order) and `rank_in_ms` (int, from 0 within one `event_ms`, rising with `sequence_nr`).
    """
    of_aircraft = Window.partitionBy("persistence_id").orderBy("event_ms", *_TIE_ORDER)
    of_millisecond = Window.partitionBy("event_ms").orderBy(*_TIE_ORDER)
    # The aircraft's window comes last, because rows are written by aircraft.
    return events.withColumn("rank_in_ms", F.row_number().over(of_millisecond) - 1).withColumn(
        "sequence_nr", F.row_number().over(of_aircraft).cast("bigint")
    )


def _events_of_flight() -> Column:
    """Return an array of (kind, event_ms); null members are left out."""
    is_cancelled = F.col("dep_time").isNull()
    is_arrival_known = F.col("air_time").isNotNull()
    departed_ms = F.col("scheduled_ms") + F.col("dep_delay") * _MINUTE_MS
    arrived_ms = departed_ms + F.col("air_time") * _MINUTE_MS
    return F.array_compact(
        F.array(
            F.when(is_cancelled, _event(CANCELLED, F.col("scheduled_ms"))),
            F.when(~is_cancelled, _event(SCHEDULED, F.col("scheduled_ms") - ANNOUNCED_MS)),
            F.when(~is_cancelled, _event(DEPARTED, departed_ms)),
            F.when(~is_cancelled & is_arrival_known, _event(ARRIVED, arrived_ms)),
        )
    )


def _event(kind: str, event_ms: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), event_ms.alias("event_ms"))
