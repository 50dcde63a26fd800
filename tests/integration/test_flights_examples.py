"""The example projections of the flights, against direct computation over the CSV."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from tests.flights_model import Event
from tests.integration.flights import DAY_MS, WINDOW, FlightsJournal
from tests.integration.support import Journal

FLIGHTS = 300
PAYLOAD = (
    "kind", "carrier", "flight", "tail_number", "origin", "dest", "scheduled_departure",
    "dep_delay", "arr_delay", "air_time", "distance",
)  # fmt: skip


def test_each_event_is_a_row_of_the_log_and_of_the_lake(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    directory = tmp_path / "p"
    loaded = FlightsJournal.create(make_journal, directory, FLIGHTS, "examples")
    result = loaded.journal.run("project", *WINDOW, "--force")
    assert result.status == 0, result.stderr

    log = [_log_row(event) for event in loaded.events if event.payload["kind"] != "scheduled"]
    assert sorted(_stored(row) for row in loaded.journal.rows("flight_log")) == sorted(log)

    lake = pd.read_parquet(directory / "export" / "flights")
    assert sorted(map(_exported, lake.itertuples())) == sorted(map(_lake_row, loaded.events))
    assert result.report["counts"]["rows_written"] == len(log) + len(lake)


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
    """The driver's days are its own, its times are naive and in UTC."""
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
    """Pekko's timeuuids count events within a millisecond in the digits below it."""
    moment: datetime = at.floor("ms").to_pydatetime()
    return moment


def _moment(time_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
