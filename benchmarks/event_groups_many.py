"""An event group over many rows beside the plain connector.

A group selects all rows of a table of `BENCH_ROWS` (200,000) and updates each of them; and once
more, where a check behind it fails, so that all is rolled back. Beside them the plain connector,
its defaults unchanged, reads the table and writes its rows into another keyspace. Each is a
process of its own on one fresh Cassandra.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.journals import Bench, fresh_server, settings_of, table_of
from benchmarks.measure import Cost, measure
from embedded.paths import STATE
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_keyspace

ROWS = int(os.environ.get("BENCH_ROWS", "200000"))
_PARTITION = 100
"""Rows of a partition."""
_COLUMNS = "p int, c int, name text, price decimal, seen timestamp, PRIMARY KEY (p, c)"
_GROUP = """
group: {name}
events:
  - {{name: read, many: true, statement: "SELECT p, c, price FROM {table}"}}
  - name: raise
    each: read
    after: [read]
    statement: UPDATE {table} SET price = :price WHERE p = :p AND c = :c
    needs:
      - {{event: read, as: p}}
      - {{event: read, as: c}}
      - {{event: read, as: price, sql: "cast(price + 1 as decimal(20, 2))"}}
"""
_CHECK = """
  - name: check
    statement: SELECT c FROM {table} WHERE p = 0
    expect: none
    after: [raise]
"""


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    shown = table_of(
        f"an update of {ROWS:,} rows",
        "s",
        "client CPU s",
        "Cassandra CPU s",
        "CPU ratio",
        "peak MiB",
    )
    with fresh_server() as (endpoint, server):
        bench = Bench(endpoint, server, "many")
        _fill(bench)
        plain = ["-m", "benchmarks.plain_copy", "many", "item", "many_copy"]
        yardstick = measure([sys.executable, *plain], bench.environment(), server)
        _add(shown, "plain connector: reads and writes the same rows", yardstick, yardstick)
        directory = STATE / "bench"
        for name, what, check in (
            ("done", "event group: select, before-images, update", ""),
            ("undone", "the same and its rollback", _CHECK),
        ):
            file = directory / f"{name}.yaml"
            file.write_text((_GROUP + check).format(name=name, table="many.item"))
            _add(shown, what, _executed(bench, file, name), yardstick)
    Console(width=120).print(shown)


def _fill(bench: Bench) -> None:
    with Control(settings_of(bench.environment())) as control:
        for keyspace in ("many", "many_copy"):
            create_keyspace(
                control, keyspace, {"class": "SimpleStrategy", "replication_factor": "1"}
            )
            control.execute_ddl(f"CREATE TABLE {keyspace}.item ({_COLUMNS})")
        control.execute_batches(
            "INSERT INTO many.item (p, c, name, price, seen) VALUES (?, ?, ?, ?, ?)",
            (
                [
                    (first // _PARTITION, place, f"item {first + place}", "1.50", first)
                    for place in range(_PARTITION)
                ]
                for first in range(0, ROWS, _PARTITION)
            ),
        )


def _executed(bench: Bench, file: Path, name: str) -> Cost:
    """Submit a group, and return the cost of the run that executes it."""
    bench.run("spark_apps/run_event_groups.py", "submit", str(file))
    # A group that is rolled back ends its run with status 3.
    script = "import runpy, sys; sys.argv[:] = ['run_event_groups.py']\n"
    script += "try: runpy.run_path('spark_apps/run_event_groups.py', run_name='__main__')\n"
    script += "except SystemExit as end: sys.exit(end.code not in (0, 3))"
    cost = measure([sys.executable, "-c", script], bench.environment(), bench.server)
    wanted = "groups_done" if name == "done" else "groups_rolled_back"
    if not cost.report["counts"].get(wanted):
        raise RuntimeError(f"the group {name} ended otherwise: {cost.report}")
    return cost


def _add(shown: Table, what: str, cost: Cost, yardstick: Cost) -> None:
    shown.add_row(
        what,
        f"{cost.wall_s:.1f}",
        f"{cost.client_cpu_s:.0f}",
        f"{cost.server_cpu_s:.0f}",
        f"{yardstick.per_cpu_second(ROWS) / cost.per_cpu_second(ROWS):.1f}",
        f"{cost.peak_mib:,.0f}",
    )


if __name__ == "__main__":
    main()
