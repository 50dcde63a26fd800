"""What a second core of Spark's workers gains: rebuild and project on a cluster with one and two.

`BENCH_EVENTS_PER_ID` (default 5000; with 1,000 persistence ids and one tag each that is 5,000,000
tag rows) chooses the size. Each worker is kept on a CPU of its own, since an executor with one core
uses more of a machine than that: its compiler, its collector and the connector have threads beside
the one of the task. Master, driver and Cassandra are not, and share the two CPUs with the workers.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.journals import HISTORY, HOME, IDS, Bench, fresh_server, table_of, window
from benchmarks.measure import Cost
from benchmarks.projections import DEFINITIONS, SHARD_TAGS, make
from embedded.spark.cluster import WORKERS, SparkCluster


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    events = int(os.environ.get("BENCH_EVENTS_PER_ID", "5000"))
    cluster = SparkCluster(HOME.parent / "spark", cores=1)
    with fresh_server() as (endpoint, server):
        bench = Bench(endpoint, server, "cores")
        make(bench, events, SHARD_TAGS, shards=len(SHARD_TAGS))
        try:
            cluster.start()
            for cpu, worker in enumerate(WORKERS):
                cluster.pin(worker, cpu)
            table = _compare(bench, cluster.url, IDS * events)
        finally:
            cluster.stop()
    Console(width=120).print(table)


def _compare(bench: Bench, master: str, rows: int) -> Table:
    """Run each application with one core of the cluster and with two."""
    commands = {
        ("rebuild of all tag views", "tag_rows_written"): (
            "reconcile.py",
            "rebuild",
            "--all",
            "--apply",
        ),
        ("project", "events_read"): ("project.py", *window(*HISTORY), "--force"),
    }
    columns = ("s", "rows/s", "Cassandra CPU s", "busy CPUs", "ratio")
    table = table_of(f"{rows:,} tag rows, a cluster of Spark", *columns)
    for (what, counted), (script, *options) in commands.items():
        first: Cost | None = None
        for cores in (1, 2):
            before = _busy_seconds()
            cost = bench.run(
                f"spark_apps/{script}",
                *options,
                SPARK_CONF_DIR=str(_at_most(cores)),
                TIDEMARK_SPARK_MASTER=master,
                TIDEMARK_PROJECTIONS_DIR=str(DEFINITIONS),
            )
            if cost.report["counts"][counted] != rows:
                raise RuntimeError(f"{what} counted {cost.report['counts']} instead of {rows}")
            first = first or cost
            speed = (f"{cost.wall_s:.1f}", f"{cost.per_second(rows):,.0f}")
            busy = f"{(_busy_seconds() - before) / cost.wall_s:.2f}"
            ratio = f"{first.wall_s / cost.wall_s:.2f}"
            figures = (*speed, f"{cost.server_cpu_s:.0f}", busy, ratio)
            table.add_row(f"{what}, cores: {cores}", *figures)
    return table


def _busy_seconds() -> float:
    """Return the seconds that all CPUs of the machine have worked."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait


def _at_most(cores: int) -> Path:
    """Return a directory of Spark's configuration that takes so many cores of a cluster."""
    directory = HOME.parent / f"conf-{cores}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spark-defaults.conf").write_text(f"spark.cores.max {cores}\n")
    return directory


if __name__ == "__main__":
    main()
