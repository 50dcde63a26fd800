"""Synthetic journals on one fresh Cassandra, and what the programs that measure them share.

`BENCH_BUCKETS` (default 20) is the number of Hour buckets that a history lies in; 8760 are a year.
`BENCH_IDS` (default 1000) is the number of persistence ids.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar
from unittest.mock import patch

import psutil
from rich.table import Table

from benchmarks.measure import Cost, measure
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded import applications
from embedded.cassandra.server import Cassandra, Endpoint
from embedded.machine import processes
from embedded.paths import ROOT, STATE
from tests.interop import build
from tests.interop.client import Client, Node, plugin_settings
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables
from tidemark.settings import Settings
from tidemark.window import from_millis, iso

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
HOME = STATE / "bench" / "cassandra"
IDS = int(os.environ.get("BENCH_IDS", "1000"))
BUCKETS = int(os.environ.get("BENCH_BUCKETS", "20"))
HISTORY = (HISTORY_END - BUCKETS * HOUR_MS, HISTORY_END)
"""From where to where the first events lie, epoch milliseconds."""


class _Node(Protocol[E_co]):
    """A server of `embedded`."""

    def start(self) -> E_co:
        """Start it, and return where it is."""

    def stop(self) -> object:
        """Stop it."""


@contextmanager
def fresh(name: str, home: Path, node: _Node[E]) -> Iterator[tuple[E, psutil.Process]]:
    """Yield a server without data, and its process of that name; stop it at the end."""
    shutil.rmtree(home, ignore_errors=True)
    try:
        endpoint = node.start()
        server = processes.running(name, home / "run")
        if server is None:
            raise RuntimeError(f"the embedded {name} ended right after its start")
        yield endpoint, server
    finally:
        node.stop()


@contextmanager
def fresh_server(java_options: str = "") -> Iterator[tuple[Endpoint, psutil.Process]]:
    """Yield a Cassandra without data, and its process; stop it at the end."""
    with ExitStack() as started:
        with patch.dict(os.environ, JAVA_TOOL_OPTIONS=java_options):
            pair = started.enter_context(fresh("cassandra", HOME, Cassandra(HOME)))
        yield pair


@dataclass
class Bench:
    """One journal on the bench's server."""

    endpoint: Endpoint
    server: psutil.Process
    keyspace: str

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment variables of the applications."""
        return {
            **applications.environment(self.endpoint),
            "TIDEMARK_SPARK_MASTER": "local[2]",
            "TIDEMARK_JOURNAL_KEYSPACE": self.keyspace,
            "TIDEMARK_KEYSPACE": f"{self.keyspace}_own",
            "TIDEMARK_BUCKET_SIZE": "Hour",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spark_apps'}",
            **more,
        }

    def create(self) -> None:
        """Make the keyspace with Pekko's tables."""
        settings = settings_of(self.environment())
        with Control(settings) as control:
            create_keyspace(control, self.keyspace, settings.replication)
            create_tables(control, SCHEMA_DIR / "pekko.cql", self.keyspace)

    def run(self, script: str, *options: str, **more: str) -> Cost:
        """Run a script as a process of its own."""
        command = [sys.executable, str(ROOT / script), *options]
        return measure(command, self.environment(**more), self.server)

    def fill(
        self,
        first: int,
        events: int,
        buckets: int,
        *,
        ids: int = IDS,
        size: int = 100,
        shards: int = 0,
        hours: int = 0,
    ) -> None:
        """Write events first..first+events-1 of `size` bytes of every persistence id.

        Each has the tags red and blue; with `shards` the one of its persistence id's shard. Events
        after the first lie `hours` after the history.
        """
        numbers = map(str, (ids, first, events, buckets, size, shards, hours))
        self.run("benchmarks/synthetic.py", self.keyspace, *numbers)

    def pekko(self, client: Client) -> Node:
        """Open a node of the real plugin on this journal."""
        first = from_millis(HISTORY[0])
        return client.open(plugin_settings(self.keyspace, "Hour", first))


@contextmanager
def pekko_client(endpoint: Endpoint) -> Iterator[Client]:
    """Yield the process of the real plugin; it has ended afterwards."""
    log = STATE / "bench" / "pekko.log"
    with Client.start(build.PEKKO.command(STATE), endpoint.environment(), log) as client:
        yield client


def window(start: int, end: int) -> list[str]:
    """Return the options of an application that name a window; epoch milliseconds."""
    return ["--window-start", iso(from_millis(start)), "--window-end", iso(from_millis(end))]


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an application would read from this environment."""
    values = {
        key.removeprefix("TIDEMARK_").lower(): value
        for key, value in environment.items()
        if key.removeprefix("TIDEMARK_").lower() in Settings.model_fields
    }
    return Settings(**values)  # type: ignore[arg-type]


def table_of(what: str, *columns: str) -> Table:
    """Return an empty table of figures, with a date."""
    title = f"{what} ({datetime.now(UTC):%Y-%m-%d})"
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    for column in columns:
        table.add_column(column, justify="right")
    return table
