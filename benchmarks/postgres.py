"""Read models in PostgreSQL compared with a plain COPY of the same rows, and with Akka's handler.

A journal in Cassandra has `BENCH_POSTGRES_EVENTS` (default 20) events of 100 bytes of each of
`BENCH_POSTGRES_IDS` (10,000) persistence ids, in five Hour buckets that validate has passed. Of
each mode a projection that is new makes its read model of all of them, in turns with

- the plain path, which reads the same rows of `messages` with the same connector, makes the rows of
  the read model by one query over all events (in mode fold by the same function), and sends them by
  the same COPY of as many tasks into a table with the same columns and primary key. There is no
  acceptance of events, no staging table, no fence, no offset and no ledger;
- COPY alone: the rows of the plain path, on the local disk already, sent into another such table.

The time of a projection is that of the complete run, from its plan to the ledger. All of this
happens in one process with one session of Spark, and the first round counts for nothing: no start
of Python, Java or Spark is measured. `BENCH_ROUNDS` (3) rounds count, and their medians are
compared. After each round both tables must have the same rows. The CPU time is that of this process
with Spark, of PostgreSQL, and of Cassandra. Tables for COPY have a further column, the task that
sent the row, since the same code sends to staging tables.

Then a journal of akka-persistence-r2dbc in PostgreSQL, with events of the same size, is projected
into a table with the last event of each persistence id: by the real akka-projection-r2dbc
(`r2dbc_projection.py`), and by `project`, each a process of its own, start included.

`BENCH_PARTS` (`copy,handler`) chooses among the two. What is being done is printed to standard
error.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

import psutil
from pyspark import StorageLevel
from rich.console import Console
from rich.table import Table

from benchmarks import r2dbc_projection
from benchmarks.journals import Bench, fresh, fresh_server, settings_of, table_of, window
from benchmarks.measure import Cost, tree_cpu_seconds
from benchmarks.r2dbc_projection import Handling
from benchmarks.read_models import LATEST, READ_MODELS, ReadModel, plain_events
from benchmarks.synthetic import HISTORY_END, HOUR_MS, fill
from benchmarks.validate import Journal
from embedded.errors import EmbeddedError
from embedded.paths import STATE
from embedded.postgres.server import Postgres, PostgresEndpoint
from tidemark.cassandra.control import Control
from tidemark.context import RunContext, RunState
from tidemark.ledger.applications import PROJECT
from tidemark.postgres import copy
from tidemark.postgres.connections import connection
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.staged import ATTEMPT
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.planning.build import PlanOptions
from tidemark.project.running.run import run_window
from tidemark.validate.plan import ValidationScope
from tidemark.window import Window, from_millis

IDS = int(os.environ.get("BENCH_POSTGRES_IDS", "10000"))
EVENTS = int(os.environ.get("BENCH_POSTGRES_EVENTS", "20"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
HOURS = 5
HISTORY = (HISTORY_END - HOURS * HOUR_MS, HISTORY_END)
GOAL = 0.5
HOME = STATE / "bench" / "postgres"
DEFINITIONS = STATE / "bench" / "postgres_definitions"
SCHEMA = "bench"
PLAIN, COPIED, OURS = "plain path", "COPY alone", "Tidemark"
_STARTED = time.monotonic()


@dataclass(frozen=True)
class Taken:
    """What one way took."""

    wall_s: float
    cpu_s: float


@dataclass
class Compared:
    """What each way to make a read model took, by round."""

    rows: int = 0
    taken: dict[str, list[Taken]] = field(default_factory=dict)

    def median(self, way: str) -> Taken:
        """Return the medians of a way."""
        taken = self.taken[way]
        return Taken(
            statistics.median(each.wall_s for each in taken),
            statistics.median(each.cpu_s for each in taken),
        )


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    parts = os.environ.get("BENCH_PARTS", "copy,handler").split(",")
    with (
        fresh_server() as (endpoint, server),
        fresh("postgres", HOME, Postgres(HOME)) as (postgres, postgres_server),
    ):
        tables = []
        variables = {
            **postgres.environment(),
            "TIDEMARK_PROJECTIONS_DIR": str(DEFINITIONS),
        }
        if "copy" in parts:
            bench = Bench(endpoint, server, "copied")
            with patch.dict(os.environ, bench.environment(**variables)):
                tables.append(_compare_copies(bench, postgres, [server, postgres_server]))
        if "handler" in parts:
            bench = Bench(endpoint, postgres_server, "handled")
            tables += _compare_handlers(bench, postgres, variables)
    for table in tables:
        Console(width=120).print(table)


def _fill(journal: Journal) -> None:
    """Write the journal, and let validate pass it."""
    _say(f"writing {IDS * EVENTS:,} events")
    run = journal.run("bench")
    fill(run.spark, run.settings, journal.bench.keyspace, IDS, 1, EVENTS, HOURS)
    _say("writing their rows")
    journal.tag(journal.history)
    _say("validating them")
    journal.validate(journal.history, ValidationScope.ALL)


def _compare_copies(
    bench: Bench, postgres: PostgresEndpoint, servers: list[psutil.Process]
) -> Table:
    bench.create()
    with Control(settings_of(dict(os.environ))) as control:
        _fill(Journal(bench, control, EVENTS, HOURS))
        copying = Copying(control, postgres, servers)
        copying.execute(f"CREATE SCHEMA {SCHEMA}")
        compared = {model.mode: Compared() for model in READ_MODELS}
        for turn in range(ROUNDS + 1):
            for model in READ_MODELS:
                _say(f"round {turn} of {ROUNDS}: mode {model.mode}")
                compared[model.mode].rows, taken = copying.compare(model, turn)
                for way, each in taken.items():
                    if turn:
                        compared[model.mode].taken.setdefault(way, []).append(each)
        copying.run().spark.stop()
    return _copy_table(compared)


@dataclass(frozen=True)
class Copying:
    """One journal, and the servers whose CPU time counts."""

    control: Control
    postgres: PostgresEndpoint
    servers: list[psutil.Process]

    def run(self) -> RunContext:
        """Return the context of one more run; Spark's session is the one there is."""
        settings = settings_of(dict(os.environ))
        return RunContext(PROJECT, settings, self.control, f"bench-{time.monotonic_ns()}")

    def execute(self, statement: str) -> int:
        """Execute a statement of this program; return its first value, or 0."""
        with self.postgres.session() as session:
            cursor = session.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return int(row[0]) if row else 0

    def compare(self, model: ReadModel, turn: int) -> tuple[int, dict[str, Taken]]:
        """Make the read model in each way; return its rows, and what each way took."""
        names = {way: f"{model.mode}_{nr}_{turn}" for nr, way in enumerate((PLAIN, COPIED, OURS))}
        for way, name in names.items():
            column = "" if way == OURS else f"{ATTEMPT} bigint, "
            self.execute(f"CREATE TABLE {SCHEMA}.{name} ({column}{model.columns})")
        run = self.run()
        rows = model.plain_rows(plain_events(run.spark, run.settings))
        stored = rows.persist(StorageLevel.DISK_ONLY)
        number = stored.count()
        target = connection(run.settings, "embedded")

        def send(way: str) -> None:
            copy.send(rows, target, TableName(SCHEMA, names[way]))

        taken = {COPIED: self._took(lambda: send(COPIED))}
        stored.unpersist(blocking=True)
        taken[PLAIN] = self._took(lambda: send(PLAIN))
        model.define(DEFINITIONS, names[OURS], SCHEMA, "messages")
        taken[OURS] = self._took(lambda: self._project(run, names[OURS]))
        self._require_same(names)
        for name in names.values():
            self.execute(f"DROP TABLE {SCHEMA}.{name}")
        return number, taken

    def _project(self, run: RunContext, name: str) -> None:
        bounds = Window(*map(from_millis, HISTORY))
        policy = MissingEventPolicy()
        outcome = run_window(run, bounds, PlanOptions([name]), dry_run=False, policy=policy)
        if outcome.state is not RunState.DONE or outcome.counts["events_read"] != IDS * EVENTS:
            raise RuntimeError(f"a run ended as {outcome.state}: {outcome.lines}")

    def _require_same(self, names: dict[str, str]) -> None:
        ours = f"{SCHEMA}.{names[OURS]}"
        for way in (PLAIN, COPIED):
            other = f"{SCHEMA}.{names[way]}"
            self.execute(f"ALTER TABLE {other} DROP COLUMN {ATTEMPT}")
            for one, two in ((ours, other), (other, ours)):
                only = self.execute(
                    f"SELECT count(*) FROM (SELECT * FROM {one} EXCEPT SELECT * FROM {two}) only"
                )
                if only:
                    raise RuntimeError(f"{only} rows of {one} are not in {two}")

    def _took(self, work: Callable[[], None]) -> Taken:
        # Pages that others have changed are not written during the work.
        self.execute("CHECKPOINT")
        counted = [psutil.Process(), *self.servers]
        cpu_before = sum(map(tree_cpu_seconds, counted))
        started = time.monotonic()
        work()
        wall = time.monotonic() - started
        return Taken(wall, sum(map(tree_cpu_seconds, counted)) - cpu_before)


def _copy_table(compared: dict[str, Compared]) -> Table:
    title = f"{IDS * EVENTS:,} events of {IDS:,} ids, local[2], start-up excluded"
    columns = ("rows", "s", "events/s", "of plain", "of COPY alone", "CPU s", "CPU, of plain")
    table = table_of(title, *columns)
    for mode, each in compared.items():
        medians = {way: each.median(way) for way in (PLAIN, COPIED, OURS)}
        for way, taken in medians.items():
            table.add_row(
                f"{mode}: {way}",
                f"{each.rows:,}",
                f"{taken.wall_s:.1f}",
                f"{IDS * EVENTS / taken.wall_s:,.0f}",
                f"{medians[PLAIN].wall_s / taken.wall_s:.2f}",
                f"{medians[COPIED].wall_s / taken.wall_s:.2f}",
                f"{taken.cpu_s:.1f}",
                f"{medians[PLAIN].cpu_s / taken.cpu_s:.2f}",
            )
    table.caption = f"the goal of Tidemark is {GOAL} of plain"
    return table


def _compare_handlers(
    bench: Bench, postgres: PostgresEndpoint, variables: dict[str, str]
) -> list[Table]:
    try:
        r2dbc_projection.command()
    except EmbeddedError as error:
        _say(f"akka-projection-r2dbc is left out: {error}")
        return []
    handling = Handling(bench, postgres)
    _say(f"writing {IDS * EVENTS:,} events into PostgreSQL")
    handling.make_journal(IDS, EVENTS, HISTORY)
    costs = {}
    for kind in r2dbc_projection.KINDS:
        _say(f"akka-projection-r2dbc, {kind}")
        costs[f"akka-projection-r2dbc, {kind}"] = handling.project(kind, IDS, EVENTS)
    _say("validate, project")
    costs["Tidemark, mode upsert"] = _project_r2dbc(bench, handling, variables)
    first = next(iter(costs.values()))
    title = f"{IDS * EVENTS:,} events of {IDS:,} ids in PostgreSQL, start-up included"
    table = table_of(title, "s", "events/s", "ratio", "CPU s", "PostgreSQL CPU s", "MiB")
    for what, cost in costs.items():
        table.add_row(
            what,
            f"{cost.wall_s:.1f}",
            f"{cost.per_second(IDS * EVENTS):,.0f}",
            f"{first.wall_s / cost.wall_s:.1f}",
            f"{cost.client_cpu_s:.0f}",
            f"{cost.server_cpu_s:.0f}",
            f"{cost.peak_mib:,.0f}",
        )
    return [table]


def _project_r2dbc(bench: Bench, handling: Handling, variables: dict[str, str]) -> Cost:
    own = {**variables, **handling.journal.variables()}
    source = "{entity-types: [Order]}"
    LATEST.define(DEFINITIONS, "latest_by_tidemark", handling.schema, source)
    handling.make_read_model("latest_by_tidemark")
    bench.create()
    bench.run("spark_apps/validate.py", *window(*HISTORY), **own)
    cost = bench.run("spark_apps/project.py", *window(*HISTORY), **own)
    handling.require_complete("latest_by_tidemark", IDS, EVENTS)
    return cost


def _say(text: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
