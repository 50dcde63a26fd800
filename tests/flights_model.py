"""A second implementation of the demo journal's rules, as plain loops over the CSV.

Tests compare what Spark makes of the flights with the results of this module, which therefore
shares no code with Tidemark.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

Payload = dict[str, str | int]

START_OF_YEAR = datetime(2013, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """An event: `time_ms` is epoch ms in UTC, `place_in_ms` counts from 0 over all aircraft."""

    persistence_id: str
    sequence_nr: int
    time_ms: int
    place_in_ms: int
    tags: frozenset[str]
    payload: Payload


@dataclass(frozen=True)
class TagRow:
    """A row of an event under a tag, with its tag pid sequence nr."""

    tag: str
    persistence_id: str
    tag_pid_sequence_nr: int
    event: Event


def read_csv(file: Path, limit: int | None = None) -> list[dict[str, str]]:
    """Read the first `limit` flights of the zipped CSV, or all of them without a limit."""
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as raw:
        return list(islice(csv.DictReader(io.TextIOWrapper(raw, "utf-8")), limit))


def events(flights: Iterable[dict[str, str]]) -> list[Event]:
    """Return all events in time order."""
    happened = []
    for line, flight in enumerate(flights):
        for time_ms, payload, tags in _happenings(flight):
            place = (
                time_ms, payload["kind"], flight["carrier"], int(flight["flight"]),
                flight["origin"], line,
            )  # fmt: skip
            happened.append((place, flight, payload, tags))
    happened.sort(key=lambda entry: entry[0])

    sequence_nr: Counter[str] = Counter()
    in_ms: Counter[int] = Counter()
    result = []
    for (time_ms, *_), flight, payload, tags in happened:
        aircraft = flight["tailnum"] if known(flight["tailnum"]) else "none-" + flight["carrier"]
        pid = "aircraft|" + aircraft
        sequence_nr[pid] += 1
        event = Event(pid, sequence_nr[pid], time_ms, in_ms[time_ms], frozenset(tags), payload)
        in_ms[time_ms] += 1
        result.append(event)
    return result


def first_months(all_events: Iterable[Event], months: int) -> list[Event]:
    """Return the events of the first months of 2013, cut by event time; 12 takes all events."""
    if months == 12:
        return list(all_events)
    end = START_OF_YEAR.replace(month=months + 1)
    return [event for event in all_events if event.time_ms < end.timestamp() * 1000]


def tag_rows(all_events: Iterable[Event]) -> list[TagRow]:
    """Return every event once per tag, numbered per persistence id and tag in sequence nr order."""
    numbers: Counter[tuple[str, str]] = Counter()
    rows = []
    for event in sorted(all_events, key=lambda event: (event.persistence_id, event.sequence_nr)):
        for tag in sorted(event.tags):
            numbers[event.persistence_id, tag] += 1
            number = numbers[event.persistence_id, tag]
            rows.append(TagRow(tag, event.persistence_id, number, event))
    return rows


def known(text: str) -> bool:
    """Return whether a field of the CSV holds a value."""
    return text not in ("", "NA")


def _happenings(flight: dict[str, str]) -> Iterator[tuple[int, Payload, list[str]]]:
    """Yield the events of one flight as (epoch ms, payload, tags)."""
    hour = datetime.fromisoformat(flight["time_hour"])
    departure = hour + timedelta(minutes=int(flight["minute"]))
    common: Payload = {"carrier": flight["carrier"], "flight": int(flight["flight"])}
    if known(flight["tailnum"]):
        common["tail_number"] = flight["tailnum"]
    common["origin"] = flight["origin"]
    common["dest"] = flight["dest"]
    common["scheduled_departure"] = departure.isoformat().replace("+00:00", "Z")
    tags = [flight["carrier"], flight["origin"]]

    if not known(flight["dep_time"]):
        yield _ms(departure), {"kind": "cancelled", **common}, tags
        return
    yield _ms(departure - timedelta(hours=2)), {"kind": "scheduled", **common}, tags
    delay = int(flight["dep_delay"])
    departed = departure + timedelta(minutes=delay)
    late = ["delayed"] if delay > 15 else []
    yield _ms(departed), {"kind": "departed", **common, "dep_delay": delay}, tags + late
    if known(flight["air_time"]):
        air_time = int(flight["air_time"])
        landing = {
            "arr_delay": int(flight["arr_delay"]),
            "air_time": air_time,
            "distance": int(flight["distance"]),
        }
        arrived = departed + timedelta(minutes=air_time)
        yield _ms(arrived), {"kind": "arrived", **common, **landing}, tags


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
