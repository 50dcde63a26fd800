"""A bucket projection beside Pekko's reader and Pekko's own projections, on one fresh Cassandra.

The plugin's `currentEventsByTag` reads the events of a tag into nothing; so does Spark with the
plain connector, which is the floor of whatever Spark does with them. Pekko's own projection, which
is what one would write otherwise, and Tidemark read the same events and write a result by
persistence id and time bucket. `BENCH_EVENTS_PER_ID` (default `100,1000`) chooses the sizes, for
1,000 persistence ids each. Of the largest there is another journal, whose persistence ids are
spread over eight tags: eight of Pekko's projections in one JVM, and one run of Tidemark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks import pekko_projection
from benchmarks.journals import (
    BUCKETS,
    HISTORY,
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
from embedded.paths import STATE
from tests.interop import build
from tidemark.cassandra.control import Control

DEFINITIONS = STATE / "bench" / "projections"
SIZES = """\
/*---
name: sizes
version: 1
source:
  tags: [{tags}]
mode: bucket
target: {keyspace}.sizes
event: body BINARY
decoders: [bytes]
---*/

SELECT time_bucket, persistence_id, count(*) AS events, sum(length(body)) AS bytes
FROM events
GROUP BY time_bucket, persistence_id
"""
SHARD_TAGS = [f"shard-{number}" for number in range(8)]
SIZES_TABLE = """\
CREATE TABLE {keyspace}.sizes (time_bucket bigint, persistence_id text, events bigint, bytes bigint,
    PRIMARY KEY ((time_bucket), persistence_id))"""


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    sizes = [int(n) for n in os.environ.get("BENCH_EVENTS_PER_ID", "100,1000").split(",")]
    columns = ("events", "s", "events/s", "MiB", "CPU s", "Cassandra CPU s")
    table = table_of("a projection, start-up included", *columns)
    increments = table_of("1,000 new events", "s", "MiB", "ratio")
    base: Cost | None = None
    with fresh_server() as (endpoint, server):
        for events in sizes:
            bench = Bench(endpoint, server, f"projected_{events}")
            _compare(bench, events, table)
            cost = _increment(bench, events)
            base = base or cost
            figures = (f"{cost.wall_s:.1f}", f"{cost.peak_mib:,.0f}")
            ratio = f"{cost.wall_s / base.wall_s:.2f}"
            increments.add_row(f"after {IDS * events:,}", *figures, ratio)
        _compare_shards(Bench(endpoint, server, "sharded"), max(sizes), table)
    console = Console(width=120)
    console.print(table)
    console.print(increments)


def _compare(bench: Bench, events: int, table: Table) -> None:
    """Run Pekko's reader and projections, then Tidemark's on one core and on two; check results."""
    total = IDS * events
    make(bench, events, ["red"])
    table.add_row("Pekko currentEventsByTag", *_figures(total, _read_by_pekko(bench, total), None))
    floor = _read_by_spark(bench, total)
    table.add_row("plain Spark, into nothing", *_figures(total, floor.wall_s, floor))
    _compare_projections(bench, total, ["red"], "", table)


def _compare_shards(bench: Bench, events: int, table: Table) -> None:
    """Run one of Pekko's projections for each tag in one JVM, then Tidemark's of all tags."""
    make(bench, events, SHARD_TAGS, shards=len(SHARD_TAGS))
    _compare_projections(bench, IDS * events, SHARD_TAGS, f", {len(SHARD_TAGS)} tags", table)


def make(bench: Bench, events: int, tags: Sequence[str], shards: int = 0) -> None:
    """Write a journal with tag views, validate it, and define the projection `sizes` over it."""
    bench.create()
    _define(bench, tags)
    bench.fill(1, events, BUCKETS, shards=shards)
    bench.run("spark_apps/reconcile.py", "rebuild", "--all", "--apply")
    bench.run("spark_apps/validate.py", *window(*HISTORY))


def _compare_projections(
    bench: Bench, total: int, tags: Sequence[str], what: str, table: Table
) -> None:
    pekko_projection.prepare(bench)
    for kind in pekko_projection.KINDS:
        cost = pekko_projection.project(bench, kind, tags, total)
        table.add_row(f"Pekko's projection, {kind}{what}", *_figures(total, cost.wall_s, cost))
    for master in ("local[1]", "local[2]"):
        cost = _project(bench, *HISTORY, "--force", TIDEMARK_SPARK_MASTER=master)
        if cost.report["counts"]["events_read"] != total:
            raise RuntimeError(f"project read {cost.report['counts']} instead of {total} events")
        table.add_row(f"Tidemark, {master}{what}", *_figures(total, cost.wall_s, cost))


def _increment(bench: Bench, events: int) -> Cost:
    """Add one event to each persistence id, in the next hour."""
    end = HISTORY_END + HOUR_MS
    bench.fill(events + 1, 1, 1)
    bench.run("spark_apps/tag_write.py", *window(HISTORY_END, end))
    cost = _project(bench, HISTORY_END, end, "--force")
    if cost.report["counts"]["events_read"] != IDS:
        raise RuntimeError(f"project read {cost.report['counts']}")
    return cost


def _define(bench: Bench, tags: Sequence[str]) -> None:
    DEFINITIONS.mkdir(parents=True, exist_ok=True)
    text = SIZES.format(keyspace=bench.keyspace, tags=", ".join(tags))
    (DEFINITIONS / "sizes.sql").write_text(text)
    with Control(settings_of(bench.environment())) as control:
        control.execute_ddl(SIZES_TABLE.format(keyspace=bench.keyspace))


def _project(bench: Bench, start: int, end: int, *options: str, **more: str) -> Cost:
    definitions = {"TIDEMARK_PROJECTIONS_DIR": str(DEFINITIONS)}
    return bench.run("spark_apps/project.py", *window(start, end), *options, **definitions, **more)


def _read_by_pekko(bench: Bench, total: int) -> float:
    """Return the seconds of one query, from the JVM's start to its end."""
    build.PEKKO.command(STATE)
    started = time.monotonic()
    with pekko_client(bench.endpoint) as client:
        node = bench.pekko(client)
        counted = node.count("red", timeout_s=3600)
        node.close()
    seconds = time.monotonic() - started
    if counted.failure or counted.events != total:
        raise RuntimeError(f"Pekko read {counted} instead of {total} events")
    return seconds


def _read_by_spark(bench: Bench, total: int) -> Cost:
    bounds = map(str, (*HISTORY, HOUR_MS))
    cost = bench.run("benchmarks/plain_read.py", bench.keyspace, "red", *bounds)
    if cost.report["rows"] != total:
        raise RuntimeError(f"Spark read {cost.report} instead of {total} events")
    return cost


def _figures(total: int, seconds: float, cost: Cost | None) -> tuple[str, ...]:
    speed = (f"{total:,}", f"{seconds:.1f}", f"{total / seconds:,.0f}")
    if cost is None:
        return (*speed, "", "", "")
    cpu = (f"{cost.client_cpu_s:.0f}", f"{cost.server_cpu_s:.0f}")
    return (*speed, f"{cost.peak_mib:,.0f}", *cpu)


if __name__ == "__main__":
    main()
