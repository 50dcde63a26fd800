"""Events of a megabyte: does the memory of a projection stay within its bound?

Journals of 100 persistence ids on one fresh Cassandra, each in 20 Hour buckets, projected in mode
upsert with `TIDEMARK_PROJECT_MAX_BYTES` at BOUND. `BENCH_PAYLOADS` (`2,20`) chooses the events of
each persistence id.
"""

from __future__ import annotations

import os

from rich.console import Console

from benchmarks.journals import BUCKETS, HISTORY, Bench, fresh_server, table_of, window
from benchmarks.slices import define
from embedded.paths import STATE

IDS = 100
MEGABYTE = 1_000_000
BOUND = 256 << 20


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    table = table_of("events of 1 MB", "events", "GB", "s", "MB/s", "peak MiB")
    with fresh_server() as (endpoint, server):
        for text in os.environ.get("BENCH_PAYLOADS", "2,20").split(","):
            events = int(text)
            bench = Bench(endpoint, server, f"payloads_{events}")
            bench.create()
            bench.fill(1, events, BUCKETS, ids=IDS, size=MEGABYTE)
            directory = STATE / "bench" / bench.keyspace
            define(bench, directory, "sizes")
            cost = bench.run(
                "spark_apps/project.py",
                *window(*HISTORY),
                "--force",
                TIDEMARK_PROJECTIONS_DIR=str(directory),
                TIDEMARK_PROJECT_MAX_BYTES=str(BOUND),
            )
            number = IDS * events
            if (read := cost.report["counts"]["events_read"]) != number:
                raise RuntimeError(f"{read} events were read instead of {number}")
            table.add_row(
                "project, mode upsert",
                f"{number:,}",
                f"{number * MEGABYTE / 1e9:.1f}",
                f"{cost.wall_s:.1f}",
                f"{number * MEGABYTE / 1e6 / cost.wall_s:.0f}",
                f"{cost.peak_mib:,.0f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
