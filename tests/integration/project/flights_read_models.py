"""Comparison of each projection of the flights with the rows that loops over the CSV expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from tests.flights_model import Event
from tests.integration import flights
from tests.integration.flights import DAY_MS
from tests.integration.support import Journal

PAYLOAD = (
    "kind", "carrier", "flight", "tail_number", "origin", "dest", "scheduled_departure",
    "dep_delay", "arr_delay", "air_time", "distance",
)  # fmt: skip
MEASURES = ("departed", "delayed", "cancelled", "arrived", "dep_delay_sum", "arr_delay_sum")


def tag_rows(journal: Journal) -> set[tuple[Any, ...]]:
    """Return the tag views as `flights.expected_tag_rows` has them."""
    names = ("tag_name", "timebucket", "persistence_id", "tag_pid_sequence_nr", "sequence_nr")
    return {tuple(row[name] for name in names) for row in journal.rows("tag_views")}


def assert_shipped(journal: Journal, events: Sequence[Event]) -> int:
    """Check the read models of include/sql/projections (modes bucket, upsert); return the rows."""
    expected = flights.expected_punctuality(events)
    assert {
        (row["time_bucket"], row["carrier"], row["origin"]): {name: row[name] for name in MEASURES}
        for row in journal.rows("daily_punctuality")
    } == {key: {name: counts[name] for name in MEASURES} for key, counts in expected.items()}

    newest = flights.expected_state(events)
    assert {
        row["persistence_id"]: (row["sequence_nr"], row["kind"], row["flight"])
        for row in journal.rows("aircraft_state")
    } == {
        pid: (event.sequence_nr, event.payload["kind"], event.payload["flight"])
        for pid, event in newest.items()
    }
    return len(expected) + len(newest)


def assert_examples(journal: Journal, events: Sequence[Event], export: Path) -> int:
    """Check the examples (modes append, export, fold, bucket, rollup); return the rows."""
    log = [_log_row(event) for event in events if event.payload["kind"] != "scheduled"]
    assert sorted(_stored(row) for row in journal.rows("flight_log")) == sorted(log)

    lake = pd.read_parquet(export / "flights")
    assert sorted(map(_exported, lake.itertuples())) == sorted(map(_lake_row, events))
    use, classes = aircraft_use(events), delay_classes(events)
    stored_use = {row.pop("persistence_id"): row for row in journal.rows("aircraft_use")}
    assert stored_use == use
    assert {tuple(row.values()) for row in journal.rows("delay_classes")} == classes
    totals = carrier_totals(events)
    stored_totals = {row.pop("carrier"): row for row in journal.rows("carrier_totals")}
    assert stored_totals == totals
    return len(log) + len(lake) + len(use) + len(classes) + len(totals)


def carrier_totals(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """Compute by a loop the rows that the rollup of the same name must hold."""
    rows: dict[str, dict[str, Any]] = {}
    for (_, carrier, _), counts in flights.expected_punctuality(events).items():
        row = rows.setdefault(carrier, dict.fromkeys(("departed", "delayed", "dep_delay_sum"), 0))
        for name in row:
            row[name] += counts[name]
    for row in rows.values():
        row["dep_delay_avg"] = row["dep_delay_sum"] / row["departed"] if row["departed"] else None
    return rows


def aircraft_use(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """Compute by a loop the rows that the fold of the same name must hold."""
    rows: dict[str, dict[str, Any]] = {}
    for event in sorted(events, key=lambda event: event.sequence_nr):
        row = rows.setdefault(
            event.persistence_id,
            {
                **dict.fromkeys(
                    ("departures", "arrivals", "minutes_flown", "minutes_on_ground"), 0
                ),
                "airborne": None,
                "landed_at": None,
            },
        )
        row["sequence_nr"] = event.sequence_nr
        now = _moment(event.time_ms).replace(tzinfo=None)
        if event.payload["kind"] == "departed":
            if row["landed_at"]:
                stay = (now - row["landed_at"]).total_seconds()
                row["minutes_on_ground"] += int(stay // 60)
            row |= {"airborne": True, "landed_at": None, "departures": row["departures"] + 1}
        if event.payload["kind"] == "arrived":
            row |= {"airborne": False, "landed_at": now, "arrivals": row["arrivals"] + 1}
            row["minutes_flown"] += int(event.payload["air_time"])
    return rows


def delay_classes(events: Sequence[Event]) -> set[tuple[Any, ...]]:
    """Compute by a loop the rows that the projection of the same name must hold."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        if event.payload["kind"] == "departed":
            delay = int(event.payload["dep_delay"])
            reached = next((limit for limit in (0, 15, 60, 180) if delay <= limit), None)
            name = "over 180" if reached is None else f"up to {reached}"
            counts[event.time_ms // DAY_MS * DAY_MS, event.payload["carrier"], name] += 1
    return {(*key, number) for key, number in counts.items()}


def _log_row(event: Event) -> tuple[Any, ...]:
    payload = event.payload
    ends = [payload["origin"], payload["dest"]]
    airport, other = ends[::-1] if payload["kind"] == "arrived" else ends
    delay = payload.get("dep_delay", payload.get("arr_delay"))
    moment = _moment(event.time_ms)
    return (
        event.persistence_id, event.sequence_nr, airport, moment.date(), moment, payload["kind"],
        payload["carrier"], payload["flight"], payload.get("tail_number"), other, delay,
    )  # fmt: skip


def _stored(row: dict[str, Any]) -> tuple[Any, ...]:
    names = (
        "persistence_id", "sequence_nr", "airport", "day", "at", "kind", "carrier", "flight",
        "tail_number", "other_airport", "delay",
    )  # fmt: skip
    return tuple(_comparable(row[name]) for name in names)


def _comparable(value: Any) -> Any:
    """Convert a value of the driver: its dates are a type of its own, its times are naive UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return value.date() if hasattr(value, "days_from_epoch") else value


def _lake_row(event: Event) -> tuple[Any, ...]:
    fields = {**dict.fromkeys(PAYLOAD), **event.payload}
    fields["scheduled_departure"] = datetime.fromisoformat(str(fields["scheduled_departure"]))
    bucket = event.time_ms // DAY_MS * DAY_MS
    key = (event.persistence_id, event.sequence_nr, bucket, _moment(event.time_ms))
    return (*key, *(fields[name] for name in PAYLOAD))


def _exported(row: Any) -> tuple[Any, ...]:
    values = (getattr(row, name) for name in ("at", *PAYLOAD))
    rest: list[Any]
    at, *rest = (None if pd.isna(value) else value for value in values)
    scheduled = PAYLOAD.index("scheduled_departure")
    rest[scheduled] = rest[scheduled].to_pydatetime()
    return (row.persistence_id, row.sequence_nr, int(row.time_bucket), _to_ms(at), *rest)


def _to_ms(at: Any) -> datetime:
    """Truncate to ms: Pekko's timeuuids count events within a millisecond in the digits below."""
    moment: datetime = at.floor("ms").to_pydatetime()
    return moment


def _moment(time_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
