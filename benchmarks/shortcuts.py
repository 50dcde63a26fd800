"""What each shortcut saves that reaches behind Spark's or the JVM's public form.

The same applications run as they are, and without one shortcut after the other, in turns on one
fresh Cassandra: over a small journal, where the start counts, and over a large one, where the work
does. `BENCH_ROUNDS` (default 5) and `BENCH_EVENTS_PER_ID` (default 500, of the larger journal)
choose the sizes; `BENCH_PARTS` (default `small,large`) what is measured.
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
from embedded import class_archive, defaults
from embedded.cassandra import Endpoint
from embedded.spark import LATE_OPTIMIZING

SMALL = 20
"""Events of each persistence id of the smaller journal."""
AS_IT_IS = "as it is"
ARCHIVE, JIT = "without the class archive", "without the JIT thresholds"
SHUFFLE = "without shuffled_once"
WORTH_IT = 0.05
"""Of a whole run: a shortcut that saves less is not worth what it hides."""


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    rounds = int(os.environ.get("BENCH_ROUNDS", "5"))
    events = int(os.environ.get("BENCH_EVENTS_PER_ID", "500"))
    parts = os.environ.get("BENCH_PARTS", "small,large").split(",")
    with fresh_server() as (endpoint, server):
        if "small" in parts:
            script = ("spark_apps/tag_write.py", "--force", *window(*HISTORY))
            bench = _filled(endpoint, server, "small", SMALL)
            title = f"tag-write of {IDS * SMALL:,} events, {rounds} rounds"
            _print(_measured(bench, script, (ARCHIVE, JIT), rounds, title))
        if "large" in parts:
            script = ("spark_apps/reconcile.py", "rebuild", "--all", "--apply")
            bench = _filled(endpoint, server, "large", events)
            title = f"rebuild of {IDS * events * 2:,} tag rows, {rounds} rounds"
            _print(_measured(bench, script, (SHUFFLE,), rounds, title))


def _filled(endpoint: Endpoint, server: psutil.Process, keyspace: str, events: int) -> Bench:
    bench = Bench(endpoint, server, keyspace)
    bench.create()
    bench.fill(1, events, BUCKETS)
    # The first run makes tables, and what it writes is new to Cassandra.
    bench.run("spark_apps/tag_write.py", *window(*HISTORY))
    return bench


def _measured(
    bench: Bench, script: Sequence[str], without: Sequence[str], rounds: int, title: str
) -> Table:
    variants = {
        name: variant
        for name, variant in _variants(bench, script).items()
        if name in (AS_IT_IS, *without)
    }
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, (command, environment) in variants.items():
            cost = bench.run(*command, **environment)
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


def _variants(
    bench: Bench, script: Sequence[str]
) -> Mapping[str, tuple[Sequence[str], Mapping[str, str]]]:
    """Of each variant its command, and the variables that differ."""
    options = defaults.environment(bench.endpoint)["SPARK_SUBMIT_OPTS"]
    without_jit = " ".join(one for one in options.split() if one not in LATE_OPTIMIZING)
    without_archive = options.replace(class_archive.options(), "")
    return {
        AS_IT_IS: (script, {}),
        ARCHIVE: (script, {"SPARK_SUBMIT_OPTS": without_archive}),
        JIT: (script, {"SPARK_SUBMIT_OPTS": without_jit}),
        SHUFFLE: (("benchmarks/persisted.py", *script), {}),
    }


def _medians(whole: Sequence[float], without: Sequence[float]) -> tuple[float, float]:
    """The median without the shortcut, and the share of it that the shortcut saves.

    Of the differences of the same round: a machine is never quiet for all of them.
    """
    saved = statistics.median(1 - one / other for one, other in zip(whole, without, strict=True))
    return statistics.median(without), saved


def _cpu(cost: Cost) -> float:
    return cost.client_cpu_s + cost.server_cpu_s


def _print(table: Table) -> None:
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
