"""What an upsert projection costs: by persistence ids that have nothing new, and by projections.

Journals of some numbers of persistence ids (`BENCH_IDS`, default `10000,300000`), of three events
each, get 1,000 events more, one for each of 1,000 ids. tag-write and validate have passed them;
then one projection takes them in, and last eight of them in one run.
"""

from __future__ import annotations

import os

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.journals import IDS, Bench, fresh_server, table_of, window
from benchmarks.measure import Cost
from benchmarks.slices import define
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.cassandra.server import Endpoint
from embedded.paths import STATE

DEFINITIONS = STATE / "bench" / "upserts"
EVENTS = 3
BUCKETS = 3
PROJECTIONS = 8


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    numbers = [int(text) for text in os.environ.get("BENCH_IDS", "10000,300000").split(",")]
    table = table_of("project, mode upsert", "s", "CPU s", "Cassandra CPU s", "ratio")
    with fresh_server() as (endpoint, server):
        base: Cost | None = None
        for ids in numbers:
            cost = _increment(endpoint, server, ids)
            base = base or cost
            _add(table, f"1,000 new events of {ids:,} ids", cost, base)
        _compare_projections(Bench(endpoint, server, "upserts"), table)
    Console(width=120).print(table)


def _increment(endpoint: Endpoint, server: psutil.Process, ids: int) -> Cost:
    bench = Bench(endpoint, server, f"upserts_{ids}")
    _make(bench, ids, "latest")
    _project(bench, HISTORY_END - BUCKETS * HOUR_MS, HISTORY_END, ids * EVENTS)
    bench.fill(EVENTS + 1, 1, 1)
    end = HISTORY_END + HOUR_MS
    _validate(bench, HISTORY_END, end)
    return _project(bench, HISTORY_END, end, IDS)


def _compare_projections(bench: Bench, table: Table) -> None:
    names = [f"latest_{number}" for number in range(PROJECTIONS)]
    _make(bench, 10 * IDS, *names)
    start, events = HISTORY_END - BUCKETS * HOUR_MS, 10 * IDS * EVENTS
    _project(bench, start, HISTORY_END, events * PROJECTIONS)
    base: Cost | None = None
    for step, chosen in enumerate((names[:1], names), start=1):
        begin = HISTORY_END + (step - 1) * HOUR_MS
        bench.fill(EVENTS + step, 1, 1)
        _validate(bench, begin, begin + HOUR_MS)
        events = IDS * (len(chosen) if step == 1 else 2 * PROJECTIONS - 1)
        cost = _project(bench, begin, begin + HOUR_MS, events, *chosen)
        base = base or cost
        _add(table, f"1,000 new events by {len(chosen)} of {PROJECTIONS} projections", cost, base)


def _make(bench: Bench, ids: int, *names: str) -> None:
    bench.create()
    for file in DEFINITIONS.glob("*.sql"):
        file.unlink()
    define(bench, DEFINITIONS, *names)
    bench.fill(1, EVENTS, BUCKETS, ids=ids)
    _validate(bench, HISTORY_END - BUCKETS * HOUR_MS, HISTORY_END)


def _validate(bench: Bench, start: int, end: int) -> None:
    bench.run("spark_apps/tag_write.py", *window(start, end))
    bench.run("spark_apps/validate.py", *window(start, end))


def _project(bench: Bench, start: int, end: int, events: int, *names: str) -> Cost:
    chosen = [option for name in names for option in ("--projection", name)]
    cost = bench.run(
        "spark_apps/project.py",
        *window(start, end),
        *chosen,
        TIDEMARK_PROJECTIONS_DIR=str(DEFINITIONS),
    )
    if cost.report["counts"]["events_read"] != events:
        raise RuntimeError(f"project read {cost.report['counts']} instead of {events} events")
    return cost


def _add(table: Table, what: str, cost: Cost, base: Cost) -> None:
    figures = (cost.wall_s, cost.client_cpu_s, cost.server_cpu_s)
    ratio = f"{cost.wall_s / base.wall_s:.2f}"
    table.add_row(what, *(f"{figure:.1f}" for figure in figures), ratio)


if __name__ == "__main__":
    main()
