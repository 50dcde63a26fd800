"""Tag views beside Pekko's own tools, on one fresh Cassandra: rebuild, delete, increments, windows.

`BENCH_EVENTS_PER_ID` (default 500; with 1,000 persistence ids and two tags that is 1,000,000 tag
rows) chooses the size; increments and memory are also measured at a tenth of it. `BENCH_PARTS`
(default `rebuild,delete,increments,windows`) chooses what is measured; `repair` is the repair of
three persistence ids in a journal of that size, `ids` an increment in a journal of few and of many
persistence ids (`BENCH_IDS`, default `10000,300000`), and `fronts` one of persistence ids that have
lost their first events.
`BENCH_WINDOWS` (5) is into how many windows a history is cut.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Sequence

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import sstables
from benchmarks.journals import (
    BUCKETS,
    HISTORY,
    HOME,
    IDS,
    Bench,
    fresh_server,
    pekko_client,
    settings_of,
    table_of,
    window,
)
from benchmarks.measure import Cost
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.cassandra.server import Endpoint
from embedded.machine import ports
from embedded.paths import STATE
from tests.interop import build
from tidemark.cassandra import schema
from tidemark.cassandra.control import Control
from tidemark.partitioning.keys import TICKS_PER_MS, UUID_EPOCH_TICKS

TAGS = 2
LOST = ("p-1", "p-2", "p-3")
DELETED_TAG_ROWS = 100_000
EVENTS_OF_MANY, EVENTS_OF_EACH = 3, 50
BUCKETS_OF_MANY = 480
"""Twenty days: most persistence ids have no events in the day that the index is asked about."""
ROUNDS = 3
"""A machine is never quiet for a whole run: what is compared is measured in turns."""


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    events = int(os.environ.get("BENCH_EVENTS_PER_ID", "500"))
    parts = os.environ.get("BENCH_PARTS", "rebuild,delete,increments,windows").split(",")
    console = Console(width=120)
    jmx_port = ports.choose(HOME / "jmx.json", ("jmx",), {})["jmx"]
    with fresh_server(sstables.server_options(jmx_port)) as (endpoint, server):
        if "rebuild" in parts:
            console.print(_rebuild(Bench(endpoint, server, "rebuilt"), events, jmx_port))
        if "delete" in parts:
            console.print(_delete(Bench(endpoint, server, "deleted")))
        if "repair" in parts:
            console.print(_repair(Bench(endpoint, server, "repaired"), events))
        if "increments" in parts:
            console.print(_increments(endpoint, server, events))
        if "ids" in parts:
            numbers = map(int, os.environ.get("BENCH_IDS", "10000,300000").split(","))
            console.print(_many_ids(endpoint, server, list(numbers)))
        if "fronts" in parts:
            console.print(_fronts(endpoint, server))
        if "windows" in parts:
            console.print(_windows(endpoint, server, events))


def _rebuild(bench: Bench, events: int, jmx_port: int) -> Table:
    """Run Pekko's tool and Tidemark on one core and on two, in turns; show medians and ceiling."""
    rows = IDS * events * TAGS
    bench.create()
    bench.fill(1, events, BUCKETS)
    title = f"rebuild of all tag views: {rows:,} tag rows, medians of {ROUNDS} rounds"
    table = table_of(title, "s", "rows/s", "MiB", "ratio")
    by_pekko: list[float] = []
    costs: dict[str, list[Cost]] = {"local[1]": [], "local[2]": []}
    for _ in range(ROUNDS):
        by_pekko.append(_pekko_rebuild(bench))
        for master, of_master in costs.items():
            of_master.append(_rebuilt(bench, master, rows))
    pekko = statistics.median(by_pekko)
    table.add_row("Pekko Reconciliation, JVM included", *_figures(pekko, rows, None, 1.0))
    for master, of_master in costs.items():
        cost = sorted(of_master, key=lambda measured: measured.wall_s)[ROUNDS // 2]
        figures = _figures(cost.wall_s, rows, cost, pekko / cost.wall_s)
        table.add_row(f"Tidemark, {master}, start-up included", *figures)
        cpu = f"{cost.client_cpu_s:.0f} s Tidemark, {cost.server_cpu_s:.0f} s Cassandra"
        table.add_row(f"  CPU: {cpu}", "", "", "", "")
    turns = zip(by_pekko, costs["local[2]"], strict=True)
    ratios = ", ".join(f"{pekko_s / cost.wall_s:.2f}" for pekko_s, cost in turns)
    table.add_row(f"  ratio of local[2] in each round: {ratios}", "", "", "", "")
    ceiling = _ceiling(bench, events, jmx_port)
    seconds = ceiling.write_s + ceiling.import_s
    table.add_row(
        "ceiling: CQLSSTableWriter, import", *_figures(seconds, rows, None, pekko / seconds)
    )
    table.add_row(
        f"  {ceiling.write_s:.0f} s write, {ceiling.import_s:.1f} s import", "", "", "", ""
    )
    return table


def _rebuilt(bench: Bench, master: str, rows: int) -> Cost:
    command = ("spark_apps/reconcile.py", "rebuild", "--all", "--apply")
    cost = bench.run(*command, TIDEMARK_SPARK_MASTER=master)
    if cost.report["counts"]["tag_rows_written"] != rows:
        raise RuntimeError(f"rebuild wrote {cost.report['counts']} instead of {rows} rows")
    return cost


def _ceiling(bench: Bench, events: int, jmx_port: int) -> sstables.Ceiling:
    target = Bench(bench.endpoint, bench.server, "ceiling")
    target.create()
    measured = sstables.measure(HOME.parent, target.keyspace, jmx_port, IDS, events, BUCKETS)
    settings = settings_of(target.environment())
    with Control(settings) as control:
        first_row = control.execute("SELECT tag_name FROM ceiling.tag_views LIMIT 1")
    if not first_row:
        raise RuntimeError("nothing was imported")
    return measured


def _pekko_rebuild(bench: Bench) -> float:
    """Return the seconds of truncate and rebuild of one id after another, from the JVM's start."""
    build.PEKKO.command(STATE)
    started = time.monotonic()
    with pekko_client(bench.endpoint) as client:
        node = bench.pekko(client)
        node.reconcile("truncate", timeout_s=3600)
        node.reconcile("rebuild", timeout_s=3600)
        node.close()
    return time.monotonic() - started


def _delete(bench: Bench) -> Table:
    """Delete one persistence id of 500 events from one tag of 100,000 rows."""
    bench.create()
    bench.fill(1, DELETED_TAG_ROWS // IDS, BUCKETS)
    bench.run("spark_apps/reconcile.py", "rebuild", "--all", "--apply")
    with pekko_client(bench.endpoint) as client:
        node = bench.pekko(client)
        answer = node.timed("reconciliation", "delete", ids=["p-1"], tag="red", timeout_s=600)
        pekko = float(answer["seconds"])
        node.close()
    cost = bench.run(
        "spark_apps/reconcile.py", "delete", "--persistence-id", "p-2", "--tag", "red", "--apply"
    )
    call = float(cost.report["seconds"])
    table = table_of(f"delete of one id from one tag of {DELETED_TAG_ROWS:,} rows", "s", "ratio")
    table.add_row("Pekko Reconciliation, one call", f"{pekko:.2f}", "1.0")
    table.add_row("Tidemark, from connecting to the report", f"{call:.2f}", f"{pekko / call:.0f}")
    whole = f"{pekko / cost.wall_s:.0f}"
    table.add_row("Tidemark, the whole process", f"{cost.wall_s:.2f}", whole)
    return table


def _repair(bench: Bench, events: int) -> Table:
    """Repair one lost row of each of three persistence ids, named and then found."""
    bench.create()
    bench.fill(1, events, BUCKETS)
    bench.run("spark_apps/reconcile.py", "rebuild", "--all", "--apply")
    named = [word for name in LOST for word in ("--persistence-id", name)]
    table = table_of(f"repair of {len(LOST)} of {IDS:,} ids, {IDS * events:,} events", "s", "MiB")
    for what, options in (("named", named), ("all compared", [])):
        _lose_rows(bench)
        command = ("spark_apps/reconcile.py", "repair", *options, "--apply")
        cost = bench.run(*command)
        if cost.report["counts"]["tag_rows_written"] != len(LOST):
            raise RuntimeError(f"repair wrote {cost.report['counts']}")
        call = float(cost.report["seconds"])
        table.add_row(f"{what}, from connecting to the report", f"{call:.1f}", "")
        table.add_row(f"{what}, the whole process", f"{cost.wall_s:.1f}", f"{cost.peak_mib:,.0f}")
    return table


def _lose_rows(bench: Bench) -> None:
    """Delete the last red row of each of the persistence ids."""
    with Control(settings_of(bench.environment())) as control:
        for name in LOST:
            [last] = control.execute(
                "SELECT offset FROM repaired.tag_write_progress"
                " WHERE persistence_id = ? AND tag = 'red'",
                (name,),
            )
            ticks = last["offset"].time - UUID_EPOCH_TICKS
            bucket = ticks // TICKS_PER_MS // HOUR_MS * HOUR_MS
            control.execute(
                "DELETE FROM repaired.tag_views WHERE tag_name = 'red'"
                " AND timebucket = ? AND timestamp = ? AND persistence_id = ?",
                (bucket, last["offset"], name),
            )


def _increments(endpoint: Endpoint, server: psutil.Process, events: int) -> Table:
    """Add 1,000 events, one for each persistence id, after a tenth and after all of the history."""
    table = table_of("tag-write", "s", "MiB", "ratio")
    shorter: Cost | None = None
    first: Cost | None = None
    for size in (events // 10, events):
        bench = Bench(endpoint, server, f"grown_{size}")
        bench.create()
        bench.fill(1, size, BUCKETS)
        history = window(*HISTORY)
        whole = bench.run("spark_apps/tag_write.py", *history)
        bench.fill(size + 1, 1, 1)
        cost = _increment(bench)
        first, shorter = first or whole, shorter or cost
        _add(table, f"the whole history of {IDS * size:,} events", whole, first)
        _add(table, f"1,000 new events after {IDS * size:,}", cost, shorter)
    return table


def _many_ids(endpoint: Endpoint, server: psutil.Process, numbers: Sequence[int]) -> Table:
    """Add 1,000 events to journals of so many persistence ids, of three events each, by index."""
    table = table_of("tag-write", "s", "MiB", "ratio")
    base: Cost | None = None
    for ids in numbers:
        bench = Bench(endpoint, server, f"ids_{ids}")
        bench.create()
        bench.fill(1, EVENTS_OF_MANY, BUCKETS_OF_MANY, ids=ids)
        with Control(settings_of(bench.environment())) as control:
            control.execute_ddl(
                f"CREATE CUSTOM INDEX ON {schema.table(bench.keyspace, 'messages')}(timestamp)"
                " USING 'StorageAttachedIndex'"
            )
        start = HISTORY_END - BUCKETS_OF_MANY * HOUR_MS
        bench.run("spark_apps/tag_write.py", *window(start, HISTORY_END))
        bench.fill(EVENTS_OF_MANY + 1, 1, 1)
        cost = _increment(bench)
        base = base or cost
        strategy = cost.report["details"]["strategy"]
        _add(table, f"1,000 new events, {ids:,} ids, {strategy}", cost, base)
    return table


def _fronts(endpoint: Endpoint, server: psutil.Process) -> Table:
    """Add 1,000 events to persistence ids that are whole, and to ones without their front."""
    table = table_of("tag-write", "s", "MiB", "ratio")
    base: Cost | None = None
    for what, deleted_to in (("with their first events", 0), ("without", EVENTS_OF_EACH // 2)):
        bench = Bench(endpoint, server, f"front_{deleted_to}")
        bench.create()
        bench.fill(1, EVENTS_OF_EACH, BUCKETS)
        if deleted_to:
            _delete_fronts(bench, deleted_to)
        bench.run("spark_apps/tag_write.py", *window(*HISTORY))
        bench.fill(EVENTS_OF_EACH + 1, 1, 1)
        cost = _increment(bench)
        base = base or cost
        _add(table, f"1,000 new events of {IDS:,} ids {what}", cost, base)
    return table


def _increment(bench: Bench) -> Cost:
    cost = bench.run("spark_apps/tag_write.py", *window(HISTORY_END, HISTORY_END + HOUR_MS))
    if cost.report["counts"]["tag_rows_written"] != IDS * TAGS:
        raise RuntimeError(f"tag-write wrote {cost.report['counts']}")
    return cost


def _delete_fronts(bench: Bench, deleted_to: int) -> None:
    ids = [f"p-{number}" for number in range(IDS)]
    with Control(settings_of(bench.environment())) as control:
        control.execute_many(
            f"INSERT INTO {schema.table(bench.keyspace, 'metadata')}"
            " (persistence_id, deleted_to) VALUES (?, ?)",
            [(name, deleted_to) for name in ids],
        )
        control.execute_many(
            f"DELETE FROM {schema.table(bench.keyspace, 'messages')}"
            " WHERE persistence_id = ? AND partition_nr = 0 AND sequence_nr <= ?",
            [(name, deleted_to) for name in ids],
        )


def _windows(endpoint: Endpoint, server: psutil.Process, events: int) -> Table:
    """Write a history by one run, and an equal one by a run for each of some consecutive windows.

    Every run costs a start of Python, Java and Spark: what an empty window costs is taken off.
    """
    number = int(os.environ.get("BENCH_WINDOWS", "5"))
    bounds = [HISTORY[0] + BUCKETS * part // number * HOUR_MS for part in range(number + 1)]
    runs = {"at_once": [HISTORY], "cut": list(itertools.pairwise(bounds))}
    costs: dict[str, list[Cost]] = {}
    for name, windows in runs.items():
        bench = Bench(endpoint, server, f"windows_{name}")
        bench.create()
        bench.fill(1, events, BUCKETS)
        costs[name] = [bench.run("spark_apps/tag_write.py", *window(*part)) for part in windows]
        rows = sum(cost.report["counts"]["tag_rows_written"] for cost in costs[name])
        if rows != IDS * events * TAGS:
            raise RuntimeError(f"tag-write wrote {rows} rows")
    empty = bench.run("spark_apps/tag_write.py", *window(HISTORY_END, HISTORY_END + HOUR_MS))
    [once] = costs["at_once"]
    title = f"tag-write of {IDS * events:,} events"
    table = table_of(title, "s", "CPU s", "Cassandra CPU s", "ratio of s", "without starts")
    _add_runs(table, "an empty window", [empty], once, empty)
    _add_runs(table, "one window", [once], once, empty)
    for place, cost in enumerate(costs["cut"], start=1):
        strategy = cost.report["details"]["strategy"]
        _add_runs(table, f"window {place} of {number}, {strategy}", [cost], once, empty)
    _add_runs(table, f"{number} windows", costs["cut"], once, empty)
    return table


def _add_runs(table: Table, what: str, costs: list[Cost], once: Cost, empty: Cost) -> None:
    seconds = sum(cost.wall_s for cost in costs)
    net = (seconds - len(costs) * empty.wall_s) / (once.wall_s - empty.wall_s)
    client = sum(cost.client_cpu_s for cost in costs)
    server = sum(cost.server_cpu_s for cost in costs)
    figures = (f"{seconds:.1f}", f"{client:.1f}", f"{server:.1f}")
    table.add_row(what, *figures, f"{seconds / once.wall_s:.2f}", f"{net:.2f}")


def _add(table: Table, what: str, cost: Cost, base: Cost) -> None:
    ratio = f"{cost.wall_s / base.wall_s:.2f}"
    table.add_row(what, f"{cost.wall_s:.1f}", f"{cost.peak_mib:,.0f}", ratio)


def _figures(seconds: float, rows: int, cost: Cost | None, ratio: float) -> tuple[str, ...]:
    memory = f"{cost.peak_mib:,.0f}" if cost else ""
    return f"{seconds:.1f}", f"{rows / seconds:,.0f}", memory, f"{ratio:.1f}"


if __name__ == "__main__":
    main()
