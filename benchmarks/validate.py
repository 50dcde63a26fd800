"""validate over one new time bucket, after a history and after ten times as much.

The journals have 1,000 persistence ids with two tags and the index on `messages(timestamp)`.
`BENCH_EVENTS_PER_ID` (default 50) is the size of the smaller history, `BENCH_BUCKETS` the number
of its Hour buckets. The new buckets have one event of each persistence id; they are validated one
by one, in turns with those of the other journal, and the medians are compared. Beside them stands
a look at everything.

A third journal of `BENCH_PASS_EVENTS_PER_ID` (default 1,000, so 1,000,000 events and 2,000,000
rows) tells what a look at everything costs beside one plain pass of Spark over the same columns,
without the start of either (`whole_pass.py`).
"""

from __future__ import annotations

import os
import statistics

from rich.console import Console
from rich.table import Table

from benchmarks.journals import BUCKETS, IDS, Bench, fresh_server, settings_of, table_of, window
from benchmarks.measure import Cost
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.paths import STATE
from tidemark.cassandra.control import Control

GOAL = 1.3
PASS_GOAL = 2
ROUNDS = 3
TIMES = (1, 10)


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    events = int(os.environ.get("BENCH_EVENTS_PER_ID", "50"))
    with fresh_server() as (endpoint, server):
        benches = {times: Bench(endpoint, server, f"validated_{times}") for times in TIMES}
        for times, bench in benches.items():
            _prepare(bench, events * times, BUCKETS * times)
        news: dict[int, list[Cost]] = {times: [] for times in TIMES}
        for turn in range(ROUNDS):
            for times, bench in benches.items():
                news[times].append(_validate(bench, turn, "new"))
        whole = {
            times: [_validate(bench, ROUNDS, "all", "--scope", "all")]
            for times, bench in benches.items()
        }
        passed = Bench(endpoint, server, "passed")
        in_pass = int(os.environ.get("BENCH_PASS_EVENTS_PER_ID", "1000"))
        beside = _beside_a_pass(passed, in_pass)
    console = Console(width=120)
    console.print(_table(events, news, whole))
    console.print(_pass_table(in_pass, beside))


def _prepare(bench: Bench, events: int, buckets: int) -> None:
    """Make a history that has passed, and a new time bucket for each round and one more."""
    bench.create()
    with Control(settings_of(bench.environment())) as control:
        control.execute_ddl(
            f"CREATE CUSTOM INDEX ON {bench.keyspace}.messages(timestamp)"
            " USING 'StorageAttachedIndex'"
        )
    bench.fill(1, events, buckets)
    history = window(HISTORY_END - buckets * HOUR_MS, HISTORY_END)
    bench.run("spark_apps/tag_write.py", *history)
    bench.run("spark_apps/validate.py", *history)
    new = ROUNDS + 1
    bench.fill(events + 1, new, new)
    bench.run("spark_apps/tag_write.py", *window(HISTORY_END, HISTORY_END + new * HOUR_MS))


def _beside_a_pass(bench: Bench, events: int) -> Cost:
    """Make a history, and take the seconds of `whole_pass.py` over it."""
    bench.create()
    bench.fill(1, events, BUCKETS)
    start = HISTORY_END - BUCKETS * HOUR_MS
    bench.run("spark_apps/tag_write.py", *window(start, HISTORY_END))
    docs = {"TIDEMARK_DATA_DOCS_DIR": str(STATE / "bench" / "data_docs")}
    moments = map(str, (start, HISTORY_END, ROUNDS))
    return bench.run("benchmarks/whole_pass.py", *moments, **docs)


def _pass_table(events: int, cost: Cost) -> Table:
    title = f"a look at {IDS * events:,} events, start-up excluded; goal: {PASS_GOAL}"
    table = table_of(title, "s", "ratio")
    medians = {name: statistics.median(taken) for name, taken in cost.report.items()}
    for name, seconds in medians.items():
        table.add_row(name, f"{seconds:.1f}", f"{seconds / medians['plain']:.2f}")
    return table


def _validate(bench: Bench, hour: int, scope: str, *options: str) -> Cost:
    start = HISTORY_END + hour * HOUR_MS
    cost = bench.run("spark_apps/validate.py", *window(start, start + HOUR_MS), *options)
    if cost.report["details"]["scope"] != scope:
        raise RuntimeError(f"validate looked at {cost.report['details']} instead of {scope}")
    return cost


def _table(events: int, *looks: dict[int, list[Cost]]) -> Table:
    title = f"validate, one new bucket of {IDS:,} events, start-up included; goal: {GOAL}"
    table = table_of(title, "after events", "s", "CPU s", "Cassandra CPU s", "MiB", "ratio")
    for what, costs in zip(("what is new", "everything"), looks, strict=True):
        base = statistics.median(cost.wall_s for cost in costs[TIMES[0]])
        for times in TIMES:
            cost = sorted(costs[times], key=lambda cost_of_round: cost_of_round.wall_s)[
                len(costs[times]) // 2
            ]
            figures = (cost.client_cpu_s, cost.server_cpu_s, cost.peak_mib)
            table.add_row(
                what,
                f"{IDS * events * times:,}",
                f"{cost.wall_s:.1f}",
                *(f"{figure:,.0f}" for figure in figures),
                f"{cost.wall_s / base:.2f}",
            )
    return table


if __name__ == "__main__":
    main()
