"""A correction of one flight over three tables, as event groups: one fails, and one does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from embedded.paths import ROOT
from examples.flights.source import flights_file
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_keyspace, table
from tidemark.settings import Settings

KEYSPACE = "flight_desk"
STREAM = "flight-desk"
_GROUPS = [
    ROOT / "include" / "event_groups" / "examples" / f"{name}.yaml"
    for name in ("correct-delay-unsigned", "correct-delay")
]
_TABLES = {
    "departure": "flight text PRIMARY KEY, dep_delay int, signed_by text",
    "carrier_day": "carrier text, day date, delay int, PRIMARY KEY (carrier, day)",
    "origin_day": "origin text, day date, delay int, PRIMARY KEY (origin, day)",
}
_DAY = "2013-01-01"
_DELAYS = (
    ("departure", "dep_delay", "flight", "UA-1545"),
    ("carrier_day", "delay", "carrier", "UA"),
    ("origin_day", "delay", "origin", "EWR"),
)


def create_tables(control: Control, settings: Settings) -> None:
    """Make the three tables with the delays of 1 January, unless they are there."""
    create_keyspace(control, KEYSPACE, settings.replication)
    for name, columns in _TABLES.items():
        made = f"CREATE TABLE IF NOT EXISTS {table(KEYSPACE, name)} ({columns})"
        control.execute_ddl(made)
    flights = pd.read_csv(flights_file())
    departed = flights[(flights["month"] == 1) & (flights["day"] == 1)].dropna(subset="dep_delay")
    united = departed[departed["carrier"] == "UA"]
    of_flights = united.groupby("UA-" + united["flight"].astype(str))
    _insert(control, "departure", ("flight", "dep_delay"), of_flights)
    for name, key in (("carrier_day", "carrier"), ("origin_day", "origin")):
        _insert(control, name, (key, "delay", "day"), departed.groupby(key), _DAY)


def _insert(
    control: Control, name: str, columns: tuple[str, ...], departures: Any, *more: str
) -> None:
    """Insert the sums of delays, in minutes; a second demo leaves what was corrected."""
    cql = (
        f"INSERT INTO {table(KEYSPACE, name)} ({', '.join(columns)})"
        f" VALUES ({', '.join('?' * len(columns))}) IF NOT EXISTS"
    )
    for key, delay in departures["dep_delay"].sum().items():
        control.execute(cql, (key, int(delay), *more))


def run(control: Control, settings: Settings, application: Callable[..., None]) -> None:
    """Submit and execute both groups, and show what the tables say after each.

    Args:
        control: the session.
        settings: of the applications.
        application: runs `run_event_groups.py` with these arguments.
    """
    shown = Table()
    for name in ("event group", "ended as", "UA-1545", "all of UA", "all of EWR"):
        shown.add_column(name)
    shown.add_row("", "", *_delays(control))
    for file in _GROUPS:
        application("submit", "--stream", STREAM, str(file))
        application("--stream", STREAM)
        shown.add_row(file.stem, _state(control, settings, file), *_delays(control))
    console = Console(highlight=False)
    console.print("\nDelays of 1 January in minutes, corrected in three tables or in none")
    console.print(shown)


def _delays(control: Control) -> list[str]:
    found = []
    for name, column, key, value in _DELAYS:
        cql = f"SELECT {column} FROM {table(KEYSPACE, name)} WHERE {key} = ?"
        [row] = control.execute(cql, (value,))
        found.append(f"{row[column]:,}")
    return found


def _state(control: Control, settings: Settings, file: Path) -> str:
    cql = f"SELECT state FROM {table(settings.keyspace, 'event_group')} WHERE stream = ? AND id = ?"
    [row] = control.execute(cql, (STREAM, file.stem))
    return str(row["state"])
