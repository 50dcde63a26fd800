"""load, tag-write and project beside the plain connector, on one fresh Cassandra.

`BENCH_MONTHS` (default 3) chooses how many months of flights.
"""

from __future__ import annotations

import os
import shutil
import sys
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Cost, measure
from embedded import applications
from embedded.cassandra.server import Cassandra, Endpoint
from embedded.machine import processes
from embedded.paths import ROOT, STATE
from examples.flights.plan import load_window
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables
from tidemark.settings import Settings
from tidemark.window import iso

HOME = STATE / "bench" / "cassandra"
PLAIN = "plain"


def main() -> None:
    """Measure and print the table of README.md."""
    months = int(os.environ.get("BENCH_MONTHS", "3"))
    shutil.rmtree(HOME, ignore_errors=True)
    node = Cassandra(HOME)
    try:
        Console(width=120).print(_run(months, node.start()))
    finally:
        node.stop()


def _run(months: int, endpoint: Endpoint) -> Table:
    environment = {
        **applications.environment(endpoint),
        "TIDEMARK_SPARK_MASTER": "local[2]",
        "TIDEMARK_DATA_DOCS_DIR": str(STATE / "bench" / "data_docs"),
    }
    with patch.dict(os.environ, environment):
        settings = Settings.load()
    with Control(settings) as control:
        _create_targets(control, settings)
    server = processes.running("cassandra", HOME / "run")
    if server is None:
        raise RuntimeError("the embedded Cassandra ended right after its start")
    window = load_window(months)
    bounds = ["--window-start", iso(window.start), "--window-end", iso(window.end)]
    rows = Table(
        title=f"{months} months of flights, local[2], start-up included", title_justify="left"
    )
    for heading in ("what", "rows", "s", "rows/s", "rows/CPU-s", "Cassandra CPU s", "peak MiB"):
        rows.add_column(heading, justify="left" if heading == "what" else "right")

    def application(name: str, *options: str, directory: str = "spark_apps") -> Cost:
        script = str(ROOT / directory / f"{name}.py")
        variables = {**environment, "PYTHONPATH": str(ROOT)}
        return measure([sys.executable, script, *options], variables, server)

    def plain(keyspace: str, table: str) -> Cost:
        module = ("-m", "benchmarks.plain_copy")
        command = [sys.executable, *module, keyspace, table, PLAIN]
        return measure(command, {**environment, "PYTHONPATH": str(ROOT)}, server)

    load = application("load_flights", "--months", str(months), directory="examples")
    _add(rows, "load-flights: messages", load, load.report["counts"]["events_written"])
    copied = plain(settings.journal_keyspace, "messages")
    _add(rows, "plain connector: messages", copied, copied.report["rows"])
    tagged = application("tag_write", *bounds)
    _add(rows, "tag-write: tag_views", tagged, tagged.report["counts"]["tag_rows_written"])
    copied = plain(settings.journal_keyspace, "tag_views")
    _add(rows, "plain connector: tag_views", copied, copied.report["rows"])
    application("validate", *bounds)
    projected = application("project", "--projection", "daily_punctuality", *bounds)
    _add(rows, "project daily_punctuality: events", projected, _events(projected))
    projected = application("project", "--projection", "aircraft_state", *bounds)
    _add(rows, "project aircraft_state: events", projected, _events(projected))
    return rows


def _events(cost: Cost) -> int:
    return int(cost.report["counts"]["events_read"])


def _create_targets(control: Control, settings: Settings) -> None:
    create_keyspace(control, PLAIN, settings.replication)
    create_tables(control, SCHEMA_DIR / "pekko.cql", PLAIN)
    create_keyspace(control, applications.READ_MODEL_KEYSPACE, settings.replication)
    create_tables(control, SCHEMA_DIR / "flights.cql", applications.READ_MODEL_KEYSPACE)


def _add(rows: Table, what: str, cost: Cost, count: int) -> None:
    rows.add_row(
        what,
        f"{count:,}",
        f"{cost.wall_s:.0f}",
        f"{cost.per_second(count):,.0f}",
        f"{cost.per_cpu_second(count):,.0f}",
        f"{cost.server_cpu_s:.0f}",
        f"{cost.peak_mib:,.0f}",
    )


if __name__ == "__main__":
    main()
