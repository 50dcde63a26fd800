"""All slices in one process beside ranges of them in a process each, on one fresh Cassandra.

An upsert projection of a journal of 1,000 persistence ids: all slices at once, and in ranges, one
process after the other. `BENCH_SLICE_RANGES` (default 32) and `BENCH_SLICE_EVENTS_PER_ID` (default
20) choose the sizes.
"""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from benchmarks.journals import (
    BUCKETS,
    HISTORY,
    IDS,
    Bench,
    fresh_server,
    settings_of,
    table_of,
    window,
)
from benchmarks.measure import Cost
from embedded.paths import STATE
from tidemark.cassandra.control import Control
from tidemark.partitioning import keys, slice_ranges

DEFINITIONS = STATE / "bench" / "slices"
LATEST = """\
/*---
name: {name}
version: 1
source: messages
mode: upsert
target: {keyspace}.{name}
event: body BINARY
decoders: [bytes]
---*/

SELECT persistence_id, sequence_nr, length(body) AS bytes FROM events
"""
LATEST_TABLE = """\
CREATE TABLE {keyspace}.{name} (persistence_id text PRIMARY KEY, sequence_nr bigint, bytes int)"""
WHOLE, SESSIONS = "whole", "sessions"


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    events = int(os.environ.get("BENCH_SLICE_EVENTS_PER_ID", "20"))
    number = int(os.environ.get("BENCH_SLICE_RANGES", "32"))
    table = table_of(f"{IDS * events:,} events by slices", "s", "CPU s", "Cassandra CPU s", "ratio")
    with fresh_server() as (endpoint, server):
        bench = Bench(endpoint, server, "sliced")
        bench.create()
        bench.fill(1, events, BUCKETS)
        define(bench, DEFINITIONS, WHOLE, SESSIONS)
        whole = [_project(bench, WHOLE)]
        ranges = [slice_ranges.text(slice_range) for slice_range in keys.slice_ranges(number)]
        many = [_project(bench, SESSIONS, "--slices", slice_range) for slice_range in ranges]
    for what, costs in (
        ("all slices at once, one process", whole),
        (f"{number} ranges, {number} processes", many),
    ):
        read = sum(cost.report["counts"]["events_read"] for cost in costs)
        if read != IDS * events:
            raise RuntimeError(f"{what}: {read} events were read instead of {IDS * events}")
        wall = sum(cost.wall_s for cost in costs)
        table.add_row(
            what,
            f"{wall:.1f}",
            f"{sum(cost.client_cpu_s for cost in costs):.0f}",
            f"{sum(cost.server_cpu_s for cost in costs):.0f}",
            f"{sum(cost.wall_s for cost in many) / wall:.1f}",
        )
    Console(width=120).print(table)


def define(bench: Bench, directory: Path, *names: str) -> None:
    """Upsert projections of the bench's journal, and their tables."""
    directory.mkdir(parents=True, exist_ok=True)
    with Control(settings_of(bench.environment())) as control:
        for name in names:
            given = {"keyspace": bench.keyspace, "name": name}
            (directory / f"{name}.sql").write_text(LATEST.format(**given))
            control.execute_ddl(LATEST_TABLE.format(**given))


def _project(bench: Bench, name: str, *options: str) -> Cost:
    """Run a projection with --force, since validate has not run before it."""
    arguments = (*window(*HISTORY), "--force", "--projection", name, *options)
    definitions = {"TIDEMARK_PROJECTIONS_DIR": str(DEFINITIONS)}
    return bench.run("spark_apps/project.py", *arguments, **definitions)


if __name__ == "__main__":
    main()
