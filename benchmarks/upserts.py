"""What an upsert projection costs: by persistence ids that have nothing new, and by projections.

Journals of some numbers of persistence ids (`BENCH_MANY_IDS`, default `10000,300000`), of three
events each, get 1,000 events more, one for each of 1,000 ids, in the first hour of a day and in the
next one. tag-write and validate pass them, and one projection takes them in; last, eight
projections in one run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.journals import IDS, Bench, fresh_server, table_of, window
from benchmarks.measure import Cost
from benchmarks.slices import define
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.paths import STATE

DEFINITIONS = STATE / "bench" / "upserts"
EVENTS = 3
BUCKETS = 3
PROJECTIONS = 8


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    numbers = [int(text) for text in os.environ.get("BENCH_MANY_IDS", "10000,300000").split(",")]
    table = table_of("project, mode upsert", "s", "CPU s", "Cassandra CPU s", "ratio")
    with fresh_server() as (endpoint, server):
        bases: dict[int, Cost] = {}
        for ids in numbers:
            bench = Bench(endpoint, server, f"upserts_{ids}")
            _make(bench, ids, ["latest"])
            for hour in (0, 1):
                cost = _increment(bench, hour, IDS)
                what = f"1,000 new events of {ids:,} ids, hour {hour} of a day"
                _add(table, what, cost, bases.setdefault(hour, cost))
        bench = Bench(endpoint, server, "upserts_of_many")
        names = [f"latest_{number}" for number in range(PROJECTIONS)]
        _make(bench, 10 * IDS, names)
        for hour in (0, 1):
            cost = _increment(bench, hour, PROJECTIONS * IDS)
            _add(table, f"{PROJECTIONS} projections, hour {hour} of a day", cost, bases[hour])
    Console(width=120).print(table)


def _increment(bench: Bench, hour: int, events: int) -> Cost:
    bench.fill(EVENTS + hour + 1, 1, 1, hours=hour)
    begin = HISTORY_END + hour * HOUR_MS
    _validate(bench, begin, begin + HOUR_MS)
    return _project(bench, begin, begin + HOUR_MS, events)


def _make(bench: Bench, ids: int, names: Sequence[str]) -> None:
    bench.create()
    for file in DEFINITIONS.glob("*.sql"):
        file.unlink()
    define(bench, DEFINITIONS, *names)
    bench.fill(1, EVENTS, BUCKETS, ids=ids)
    start = HISTORY_END - BUCKETS * HOUR_MS
    _validate(bench, start, HISTORY_END)
    _project(bench, start, HISTORY_END, len(names) * ids * EVENTS)


def _validate(bench: Bench, start: int, end: int) -> None:
    bench.run("spark_apps/tag_write.py", *window(start, end))
    bench.run("spark_apps/validate.py", *window(start, end))


def _project(bench: Bench, start: int, end: int, events: int) -> Cost:
    definitions = {"TIDEMARK_PROJECTIONS_DIR": str(DEFINITIONS)}
    cost = bench.run("spark_apps/project.py", *window(start, end), **definitions)
    if cost.report["counts"]["events_read"] != events:
        raise RuntimeError(f"project read {cost.report} instead of {events} events")
    return cost


def _add(table: Table, what: str, cost: Cost, base: Cost) -> None:
    figures = (cost.wall_s, cost.client_cpu_s, cost.server_cpu_s)
    ratio = f"{cost.wall_s / base.wall_s:.2f}"
    table.add_row(what, *(f"{figure:.1f}" for figure in figures), ratio)


if __name__ == "__main__":
    main()
