"""Measures three starts of Spark, one for each step, compared with one run of the chain.

Two equal journals get 1,000 new events each round; tag-write, validate and project run over them as
three applications on the one journal and as `chain` on the other, in turns. `BENCH_ROUNDS` (default
3) sets the rounds.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console

from benchmarks.journals import IDS, Bench, fresh_server, table_of, window
from benchmarks.slices import define
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.paths import STATE

STEPS = ("tag_write", "validate", "project")
THREE_STARTS, ONE_CHAIN = "three starts", "one chain"


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    rounds = int(os.environ.get("BENCH_ROUNDS", "3"))
    costs: Mapping[str, list[tuple[float, float]]] = {THREE_STARTS: [], ONE_CHAIN: []}
    with fresh_server() as (endpoint, server):
        benches = {
            THREE_STARTS: Bench(endpoint, server, "three_starts"),
            ONE_CHAIN: Bench(endpoint, server, "one_chain"),
        }
        for bench in benches.values():
            bench.create()
            define(bench, STATE / "bench" / bench.keyspace, "latest")
        # The first round makes tables, and its times do not count.
        for number in range(rounds + 1):
            for name, bench in benches.items():
                bench.fill(number + 1, 1, 1, hours=max(number - 1, 0))
                applications = STEPS if name == THREE_STARTS else ("chain",)
                cost = _run(bench, applications, number)
                print(f"round {number}, {name}: {cost[0]:.1f} s, CPU {cost[1]:.1f} s", flush=True)
                if number:
                    costs[name].append(cost)
    table = table_of(
        f"{IDS:,} new events, {rounds} rounds; medians", "s", "ratio", "CPU s", "ratio"
    )
    base_wall, base_cpu = _medians(costs[THREE_STARTS])
    for name, of_rounds in costs.items():
        wall, cpu = _medians(of_rounds)
        table.add_row(
            name, f"{wall:.1f}", f"{base_wall / wall:.2f}", f"{cpu:.1f}", f"{base_cpu / cpu:.2f}"
        )
    Console(width=120).print(table)


def _run(bench: Bench, applications: Sequence[str], number: int) -> tuple[float, float]:
    """Run over the events of a round; return seconds, and seconds of CPU with Cassandra's."""
    begin = HISTORY_END + (number - 1) * HOUR_MS
    directory = {"TIDEMARK_PROJECTIONS_DIR": str(STATE / "bench" / bench.keyspace)}
    costs = [
        bench.run(f"spark_apps/{name}.py", *window(begin, begin + HOUR_MS), **directory)
        for name in applications
    ]
    report = costs[-1].report
    projected = report if len(costs) > 1 else report["details"]["steps"]["project"]
    if projected["counts"]["events_read"] != IDS:
        raise RuntimeError(f"project read {projected} instead of {IDS} events")
    cpu = sum(cost.client_cpu_s + cost.server_cpu_s for cost in costs)
    return sum(cost.wall_s for cost in costs), cpu


def _medians(costs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    walls, cpus = zip(*costs, strict=True)
    return statistics.median(walls), statistics.median(cpus)


if __name__ == "__main__":
    main()
