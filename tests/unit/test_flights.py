"""The demo's journal: Spark's rows against a model that shares no code with it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from examples.flights import events, messages, plan, source, topic
from tests import flights_model
from tidemark.errors import InvalidInput
from tidemark.journals.kafka.wire import decode
from tidemark.journals.kafka.wire.action import HEADER
from tidemark.journals.kafka.wire.record import Record
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.window import to_millis

FLIGHTS = 3_000
# A small size, so that the busier aircraft fill several partitions.
TARGET_PARTITION_SIZE = 10
YEAR_EVENTS = 992_643
FLIGHTS_BEFORE_FEBRUARY = 27_004
HOUR = "2013-01-01T10:00:00Z"


@pytest.fixture(scope="module")
def expected() -> list[flights_model.Event]:
    return flights_model.events(flights_model.read_csv(source.flights_file(), FLIGHTS))


@pytest.fixture(scope="module")
def january() -> list[flights_model.Event]:
    return flights_model.events(
        flights_model.read_csv(source.flights_file(), FLIGHTS_BEFORE_FEBRUARY)
    )


@pytest.fixture(scope="module")
def year() -> list[flights_model.Event]:
    return flights_model.events(flights_model.read_csv(source.flights_file()))


@pytest.fixture(scope="module")
def numbered(spark: SparkSession) -> DataFrame:
    before = datetime(2013, 1, 6, tzinfo=UTC)
    flights = source.read_flights(spark, source.flights_file(), before)
    first = flights.where(F.col("row") < FLIGHTS)
    return events.number_events(events.to_events(first)).cache()


@pytest.fixture(scope="module")
def rows(numbered: DataFrame) -> list[Row]:
    return messages.to_messages(numbered, BucketSize.DAY, TARGET_PARTITION_SIZE).collect()


def test_every_row_is_the_models_event(
    rows: list[Row], expected: list[flights_model.Event]
) -> None:
    assert len(expected) > 2 * FLIGHTS
    by_key = {
        (row.persistence_id, row.sequence_nr): (
            keys.timeuuid_ticks(row.timestamp),
            sorted(row.tags),
            list(json.loads(row.event.decode("utf-8")).items()),
        )
        for row in rows
    }
    assert len(by_key) == len(rows)
    assert by_key == {
        (event.persistence_id, event.sequence_nr): (
            keys.epoch_ms_ticks(event.time_ms) + event.place_in_ms,
            sorted(event.tags),
            list(event.payload.items()),
        )
        for event in expected
    }


def test_rows_have_every_column_that_pekko_writes(rows: list[Row]) -> None:
    for row in rows:
        epoch_ms = keys.timeuuid_epoch_ms(row.timestamp)
        assert row.asDict() == {
            "persistence_id": row.persistence_id,
            "partition_nr": (row.sequence_nr - 1) // TARGET_PARTITION_SIZE,
            "sequence_nr": row.sequence_nr,
            "timestamp": row.timestamp,
            "timebucket": str(epoch_ms // 86_400_000 * 86_400_000),
            "writer_uuid": "766c8e7a-000f-5ccc-9aed-f9093c2b1f0e",
            "ser_id": 20,
            "ser_manifest": "",
            "event_manifest": "",
            "event": row.event,
            "tags": row.tags,
        }
    assert {row.partition_nr for row in rows} >= {0, 1}


def test_timestamps_are_unique_timeuuids_of_nobodys_network_card(rows: list[Row]) -> None:
    uuids = {UUID(row.timestamp) for row in rows}
    assert len(uuids) == len(rows)
    assert {event_uuid.version for event_uuid in uuids} == {1}
    assert {(event_uuid.clock_seq, event_uuid.node >> 40 & 1) for event_uuid in uuids} == {
        (0x2013, 1)
    }


def test_timestamps_rise_with_the_sequence_nr_without_a_gap(rows: list[Row]) -> None:
    by_aircraft: dict[str, list[Row]] = {}
    for row in rows:
        by_aircraft.setdefault(row.persistence_id, []).append(row)
    for of_aircraft in by_aircraft.values():
        of_aircraft.sort(key=lambda row: row.sequence_nr)
        ticks = [keys.timeuuid_ticks(row.timestamp) for row in of_aircraft]
        assert ticks == sorted(set(ticks))
        assert [row.sequence_nr for row in of_aircraft] == list(range(1, len(of_aircraft) + 1))


def test_persistence_ids_are_those_of_first_events(
    numbered: DataFrame, expected: list[flights_model.Event]
) -> None:
    pids = [row.persistence_id for row in messages.to_persistence_ids(numbered).collect()]
    assert sorted(pids) == sorted({event.persistence_id for event in expected})
    assert "aircraft|N14228" in pids
    assert any(pid.startswith("aircraft|none-") for pid in pids)


def test_numbering_a_part_gives_the_numbers_of_the_whole(
    rows: list[Row], numbered: DataFrame
) -> None:
    end = to_millis(datetime(2013, 1, 3, tzinfo=UTC))
    kept = [name for name in numbered.columns if name not in ("sequence_nr", "rank_in_ms")]
    part = events.number_events(numbered.select(*kept).where(F.col("event_ms") < end))
    again = messages.to_messages(part, BucketSize.DAY, TARGET_PARTITION_SIZE).collect()
    earlier = [row for row in rows if keys.timeuuid_epoch_ms(row.timestamp) < end]
    assert 0 < len(earlier) < len(rows)
    assert sorted(again) == sorted(earlier)


def test_january_has_all_its_events(
    spark: SparkSession, january: list[flights_model.Event]
) -> None:
    window = plan.load_window(1)
    flights = source.read_flights(spark, source.flights_file(), datetime(2013, 2, 2, tzinfo=UTC))
    of_month = F.col("event_ms") < to_millis(window.end)
    counts = {
        row.kind: row["count"]
        for row in events.to_events(flights).where(of_month).groupBy("kind").count().collect()
    }
    modelled = Counter(
        event.payload["kind"] for event in flights_model.first_months(january, months=1)
    )
    assert counts == modelled
    assert sum(counts.values()) == 79_349


@pytest.mark.soak
def test_every_event_of_the_year_lies_in_exactly_one_month(
    year: list[flights_model.Event],
) -> None:
    assert len(year) == YEAR_EVENTS
    windows = plan.month_windows(12)
    assert [month.end for month in windows[:-1]] == [month.start for month in windows[1:]]
    all_year = plan.load_window(12)
    assert (all_year.start, all_year.end) == (windows[0].start, windows[-1].end)
    times = [event.time_ms for event in year]
    assert to_millis(all_year.start) <= min(times)
    assert max(times) < to_millis(all_year.end)


@pytest.mark.parametrize("months", [-1, 0, 13])
def test_a_number_of_months_outside_the_year_is_refused(months: int) -> None:
    with pytest.raises(InvalidInput, match=f"cannot load {months} months of 2013"):
        plan.month_windows(months)


def test_delayed_means_more_than_fifteen_minutes(spark: SparkSession) -> None:
    departures = [(517, 15), (517, 16), (None, None)]
    flights = spark.createDataFrame(
        [
            (n, dep_time, delay, None, "UA", n, None, "EWR", "IAH", None, 1400, 5, HOUR)
            for n, (dep_time, delay) in enumerate(departures)
        ],
        source.FLIGHTS_SCHEMA,
    )
    written = messages.to_messages(
        events.number_events(events.to_events(flights)), BucketSize.HOUR, 500_000
    ).collect()
    tags = {
        (payload["flight"], payload["kind"]): row.tags
        for row in written
        for payload in [json.loads(row.event)]
    }
    assert tags == {
        (0, "scheduled"): ["UA", "EWR"],
        (0, "departed"): ["UA", "EWR"],
        (1, "scheduled"): ["UA", "EWR"],
        (1, "departed"): ["UA", "EWR", "delayed"],
        (2, "cancelled"): ["UA", "EWR"],
    }
    assert {row.persistence_id for row in written} == {"aircraft|none-UA"}


def test_records_of_a_topic_are_what_kafka_journal_reads(numbered: DataFrame) -> None:
    rows = topic.records(numbered).where("key = encode('aircraft|N14228', 'UTF-8')").collect()
    assert len({row["partition"] for row in rows}) == 1
    times = [row["event_ms"] for row in rows]
    assert times == sorted(times)
    numbers = []
    for row in rows:
        at = datetime.fromtimestamp(row["event_ms"] / 1000, UTC)
        header = [(HEADER, bytes(row["header"]))]
        read = decode.row(Record(bytes(row["key"]), at, header, bytes(row["value"])))
        told = read["id"], read["action"], read["origin"]
        assert told == ("aircraft|N14228", "append", "flights")
        [event] = read["events"]
        payload = json.loads(event["payload_txt"])
        assert (event["payload_type"], payload["tail_number"]) == ("json", "N14228")
        assert {payload["carrier"], payload["origin"]} <= set(event["tags"])
        numbers.append(event["seq_nr"])
    assert numbers == list(range(1, len(rows) + 1))
