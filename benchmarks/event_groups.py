"""Event groups together, one after the other, and beside the bare driver; a small group's process.

`BENCH_GROUPS` (default 10,000) groups of two updates are executed once with their rows declared,
none of which collide, and once without, so that each runs alone. The same statements are sent by
the bare driver, one at a time and concurrently. All of it is one process on one fresh Cassandra,
after a round that counts for nothing, and none of it is submitting.

Then a group of ten updates is executed by `run_event_groups.py` as a process of its own,
`BENCH_ROUNDS` (5) times, each a new group. Last, runs over streams in which `HELD` groups wait for
one that is not rolled back: the first, which reads them, the next, and those after a change.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import psutil
from cassandra.concurrent import execute_concurrent_with_args
from rich.console import Console
from rich.table import Table

from benchmarks.journals import Bench, fresh_server, settings_of, table_of
from benchmarks.measure import Cost, cpu_seconds
from tidemark.cassandra.cluster import cluster
from tidemark.cassandra.control import CONCURRENCY, Control
from tidemark.cassandra.schema import create_keyspace, create_own_tables, table
from tidemark.context import RunContext, RunState
from tidemark.event_groups.commands import run_cancel
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.execution.run import run_event_groups
from tidemark.event_groups.stream.states import GroupState
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger.applications import RUN_EVENT_GROUPS
from tidemark.write_times import WriteTimes

GROUPS = int(os.environ.get("BENCH_GROUPS", "10000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
WARM = 300
UPDATE = "UPDATE {name} SET value = {value} WHERE id = {id}"
UPDATES, IN_A_SMALL_GROUP = 2, 10
TOGETHER, ALONE = "groups with declared rows, together", "groups without, one after the other"
ONE_BY_ONE, AT_ONCE = "bare driver, one statement at a time", "bare driver, concurrent"
HELD = (10, 1000, 10_000)
STREAMS = ("together", "alone", "small", "held", "bare")
_STARTED = time.monotonic()


@dataclass(frozen=True)
class Spent:
    """Wall time, and CPU time of this process and of Cassandra, in seconds."""

    wall_s: float
    client_cpu_s: float
    server_cpu_s: float


@dataclass(frozen=True)
class Site:
    """The bench's server, with a table of cells for each stream: one belongs to one stream."""

    bench: Bench
    run: RunContext

    def create(self) -> None:
        """Make the tables."""
        settings = self.run.settings
        create_own_tables(self.run.control, settings)
        create_keyspace(self.run.control, self.bench.keyspace, settings.replication)
        for stream in STREAMS:
            cell = table(self.bench.keyspace, stream)
            self.run.control.execute_ddl(f"CREATE TABLE {cell} (id text PRIMARY KEY, value bigint)")

    def group(self, stream: str, name: str, updates: int, *, declares: bool) -> GroupDefinition:
        """Return a group that updates rows that no other group updates."""
        cell = f"{self.bench.keyspace}.{stream}"
        ids = [f"{name}-{number}" for number in range(updates)]
        return GroupDefinition(
            Group.model_validate(
                {
                    "group": name,
                    "rows": [{"table": cell, "key": {"id": one}} for one in ids if declares],
                    "events": [
                        {
                            "name": f"update-{number}",
                            "statement": UPDATE.format(name=cell, value=":value", id=":id"),
                            "values": {"id": one, "value": str(number)},
                        }
                        for number, one in enumerate(ids)
                    ],
                }
            )
        )

    def submit(self, stream: str, groups: int, updates: int, *, declares: bool) -> None:
        """Append new groups to a stream."""
        submitted = Stream(self.run, stream)
        first = submitted.next_sequence()
        for number in range(first, first + groups):
            submitted.submit(self.group(stream, f"g{number}", updates, declares=declares))

    def execute(self, stream: str, groups: int) -> None:
        """Execute the groups of a stream.

        Raises:
            RuntimeError: they are not that many, or one did not end as a whole.
        """
        outcome = run_event_groups(self.run, stream)
        if outcome.state is not RunState.DONE or outcome.counts["groups_done"] != groups:
            raise RuntimeError(f"{outcome.state}: {outcome.counts} {outcome.lines}")

    def spent(self, work: Callable[[], None]) -> Spent:
        """Measure work of this process."""
        own = psutil.Process()
        client, server, started = cpu_seconds(own), cpu_seconds(self.bench.server), time.monotonic()
        work()
        wall = time.monotonic() - started
        return Spent(wall, cpu_seconds(own) - client, cpu_seconds(self.bench.server) - server)


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    with fresh_server() as (endpoint, server):
        bench = Bench(endpoint, server, "groups")
        settings = settings_of(bench.environment())
        with Control(settings) as control:
            site = Site(bench, RunContext(RUN_EVENT_GROUPS, settings, control, "bench"))
            site.create()
            spent = _measure(site)
            processes = _processes(site)
            held = _held(site)
    console = Console(width=120)
    console.print(_speed_table(spent))
    console.print(_process_table(processes))
    console.print(_held_table(held))


def _measure(site: Site) -> dict[str, Spent]:
    streams = {TOGETHER: ("together", True), ALONE: ("alone", False)}
    for groups in (WARM, GROUPS):
        found = {}
        for what, (stream, declares) in streams.items():
            _say(f"submitting {groups:,} {what}")
            site.submit(stream, groups, UPDATES, declares=declares)
        for what, (stream, _) in streams.items():
            _say(what)
            found[what] = site.spent(partial(site.execute, stream, groups))
        found |= _bare(site, groups * UPDATES)
    return found


def _bare(site: Site, statements: int) -> dict[str, Spent]:
    """Send the statements of all groups by the driver itself."""
    with cluster(site.run.settings, WriteTimes()) as connected:
        session = connected.connect()
        cell = table(site.bench.keyspace, "bare")
        prepared = session.prepare(UPDATE.format(name=cell, value="?", id="?"))

        def values(what: str) -> Iterator[tuple[int, str]]:
            return ((number, f"{what}-{number}") for number in range(statements))

        def one_by_one() -> None:
            for one in values("one"):
                session.execute(prepared, one)

        def at_once() -> None:
            execute_concurrent_with_args(session, prepared, values("many"), CONCURRENCY)

        _say("the bare driver")
        return {ONE_BY_ONE: site.spent(one_by_one), AT_ONCE: site.spent(at_once)}


def _processes(site: Site) -> list[Cost]:
    costs = []
    for number in range(ROUNDS):
        _say(f"a group of {IN_A_SMALL_GROUP} updates, {number + 1} of {ROUNDS}")
        site.submit("small", 1, IN_A_SMALL_GROUP, declares=True)
        cost = site.bench.run("spark_apps/run_event_groups.py", "--stream", "small")
        if cost.report["counts"]["groups_done"] != 1:
            raise RuntimeError(f"the small group did not end as a whole: {cost.report}")
        costs.append(cost)
    return costs


@dataclass(frozen=True)
class HeldRuns:
    """Seconds of runs over groups that wait, and execute nothing.

    Attributes:
        first: of the run that reads them.
        later: of those after it.
        changed: of those after one of the groups was cancelled.
    """

    first: float
    later: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)


def _held(site: Site) -> dict[int, HeldRuns]:
    """Return the seconds of runs that execute nothing, by the number of groups that wait."""
    group = site.group("held", "held", UPDATES, declares=True).group
    for number in HELD:
        _say(f"submitting {number:,} groups that wait")
        stream = Stream(site.run, f"held-{number}")
        for place in range(number + 1):
            stream.submit(GroupDefinition(group.model_copy(update={"group": f"g{place}"})))
        stream.set_state("g0", GroupState.SUBMITTED, GroupState.ROLLBACK_FAILED)
    found = {number: HeldRuns(_held_run(site, number, number)) for number in HELD}
    for done in range(1, ROUNDS + 1):
        for number, runs in found.items():
            runs.later.append(_held_run(site, number, number - done + 1))
            run_cancel(site.run, f"held-{number}", f"g{done}", apply=True)
            runs.changed.append(_held_run(site, number, number - done))
    return found


def _held_run(site: Site, number: int, waiting: int) -> float:
    started = time.monotonic()
    outcome = run_event_groups(site.run, f"held-{number}")
    taken = time.monotonic() - started
    if outcome.counts != {"groups_held": waiting}:
        raise RuntimeError(f"{waiting} groups should wait: {outcome.counts}")
    return taken


def _held_table(held: dict[int, HeldRuns]) -> Table:
    columns = ("first, s", "later, median s", "after a change by hand, median s")
    shown = table_of("runs over groups that must wait", *columns)
    for number, runs in held.items():
        medians = (f"{statistics.median(walls):.3f}" for walls in (runs.later, runs.changed))
        shown.add_row(f"{number:,} groups", f"{runs.first:.3f}", *medians)
    return shown


def _speed_table(spent: dict[str, Spent]) -> Table:
    title = f"{GROUPS:,} groups of {UPDATES} updates"
    columns = ("s", "groups/s", "CPU s", "Cassandra CPU s", "times one by one", "times concurrent")
    shown = table_of(title, *columns)
    for what, one in spent.items():
        shown.add_row(
            what,
            f"{one.wall_s:.1f}",
            f"{GROUPS / one.wall_s:,.0f}",
            f"{one.client_cpu_s:.0f}",
            f"{one.server_cpu_s:.0f}",
            f"{one.wall_s / spent[ONE_BY_ONE].wall_s:.2f}",
            f"{one.wall_s / spent[AT_ONCE].wall_s:.2f}",
        )
    ratio = spent[ALONE].wall_s / spent[TOGETHER].wall_s
    shown.caption = f"together they are {ratio:.2f} times as fast as one after the other"
    return shown


def _process_table(costs: list[Cost]) -> Table:
    title = f"a group of {IN_A_SMALL_GROUP} updates, whole process, {ROUNDS} rounds"
    shown = table_of(title, "median s", "least s", "CPU s", "peak MiB", "JVMs started")
    walls = [cost.wall_s for cost in costs]
    shown.add_row(
        "run_event_groups.py",
        f"{statistics.median(walls):.2f}",
        f"{min(walls):.2f}",
        f"{statistics.median(cost.client_cpu_s for cost in costs):.1f}",
        f"{max(cost.peak_mib for cost in costs):,.0f}",
        str(sum("java" in cost.programs for cost in costs)),
    )
    return shown


def _say(text: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
