"""Measures what each shortcut saves that reaches behind the JVM's public form.

The same application runs as it is, and without one shortcut after the other, in turns on one fresh
Cassandra, over a small journal, where the start counts. `BENCH_ROUNDS` (default 5) sets the rounds.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.journals import BUCKETS, HISTORY, IDS, Bench, fresh_server, table_of, window
from benchmarks.measure import Cost
from embedded import applications
from embedded.cassandra.server import Endpoint
from embedded.spark import class_archive
from embedded.spark.environment import LATE_OPTIMIZING

EVENTS = 20
"""Events of each persistence id."""
AS_IT_IS = "as it is"
ARCHIVE, JIT = "without the class archive", "without the JIT thresholds"
WORTH_IT = 0.05
"""Of a whole run: a shortcut that saves less is not worth what it hides."""


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    rounds = int(os.environ.get("BENCH_ROUNDS", "5"))
    with fresh_server() as (endpoint, server):
        script = ("spark_apps/tag_write.py", "--force", *window(*HISTORY))
        title = f"tag-write of {IDS * EVENTS:,} events, {rounds} rounds"
        _print(_measured(_filled(endpoint, server), script, rounds, title))


def _filled(endpoint: Endpoint, server: psutil.Process) -> Bench:
    bench = Bench(endpoint, server, "small")
    bench.create()
    bench.fill(1, EVENTS, BUCKETS)
    # The first run makes tables, and what it writes is new to Cassandra.
    bench.run("spark_apps/tag_write.py", *window(*HISTORY))
    return bench


def _measured(bench: Bench, script: Sequence[str], rounds: int, title: str) -> Table:
    variants = _variants(bench)
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, environment in variants.items():
            cost = bench.run(*script, **environment)
            costs[name].append(cost)
            print(f"{name}: {cost.wall_s:.1f} s, CPU {_cpu(cost):.1f} s", flush=True)
    table = table_of(f"{title}; medians", "s", "s saved", "CPU s", "CPU saved", "worth it")
    whole = costs[AS_IT_IS]
    for name, of_it in costs.items():
        wall, wall_saved = _medians([cost.wall_s for cost in whole], [c.wall_s for c in of_it])
        cpu, cpu_saved = _medians([_cpu(cost) for cost in whole], [_cpu(c) for c in of_it])
        figures = [f"{wall:.1f}", f"{wall_saved:.0%}", f"{cpu:.1f}", f"{cpu_saved:.0%}"]
        is_worth_it = "yes" if max(wall_saved, cpu_saved) >= WORTH_IT else "no"
        table.add_row(name, *figures, "" if name == AS_IT_IS else is_worth_it)
    return table


def _variants(bench: Bench) -> Mapping[str, Mapping[str, str]]:
    """Return the environment variables in which each variant differs."""
    options = applications.environment(bench.endpoint)["SPARK_SUBMIT_OPTS"]
    without_jit = " ".join(option for option in options.split() if option not in LATE_OPTIMIZING)
    return {
        AS_IT_IS: {},
        ARCHIVE: {"SPARK_SUBMIT_OPTS": options.replace(class_archive.options(), "")},
        JIT: {"SPARK_SUBMIT_OPTS": without_jit},
    }


def _medians(whole: Sequence[float], without: Sequence[float]) -> tuple[float, float]:
    """Return the median without the shortcut, and the share of it that the shortcut saves.

    The share is the median over the rounds, since a machine is never quiet for all of them.
    """
    saved = statistics.median(
        1 - with_it / other for with_it, other in zip(whole, without, strict=True)
    )
    return statistics.median(without), saved


def _cpu(cost: Cost) -> float:
    return cost.client_cpu_s + cost.server_cpu_s


def _print(table: Table) -> None:
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
