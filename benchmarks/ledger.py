"""Planning behind ten years of Minute pieces, beside planning behind a day of them.

What is planned is the last hour, by the functions that the applications plan with: tag-write,
validate (with what has passed and what tag-write owes), and a projection by tags. Spark is not
started. The ledgers of the three have `BENCH_YEARS` (default 10) of Minute pieces, 5,256,000 each
in ten years, and that of purge has those before the last month. They are planned in turns with
those of a journal that has a day, and once more when `plan_ledger` has deleted their rows.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.table import Table

from benchmarks.journals import Bench, fresh_server, settings_of, table_of
from benchmarks.synthetic import HISTORY_END, HOUR_MS
from embedded.paths import STATE
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.frontier.partition import Partition
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize
from tidemark.project.definition import catalog
from tidemark.project.planning.build import PlanOptions, build
from tidemark.purge.own_tables.ledger import plan_ledger
from tidemark.validate import plan as validate_plan
from tidemark.window import Window, from_millis

ROUNDS = 9
MOST = 1000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
IN_A_BATCH, TAKEN_UP_AT_ONCE = 400, 30 * 1440
SOURCES = STATE / "bench" / "ledger"
DEFINITION = """\
/*---
name: reds
version: 1
source: {{tags: [red]}}
mode: upsert
event: kind STRING
target: {keyspace}.reds
---*/

SELECT persistence_id, sequence_nr FROM events
"""
Plans = dict[str, Callable[[], int]]


def main() -> None:
    """Measure and print the table of benchmarks/README.md."""
    years = float(os.environ.get("BENCH_YEARS", "10"))
    spans = {"a day": DAY_MS, "years": int(years * 365 * DAY_MS)}
    shutil.rmtree(SOURCES, ignore_errors=True)
    with fresh_server() as (endpoint, server):
        benches = {
            what: Bench(endpoint, server, f"ledger_{number}") for number, what in enumerate(spans)
        }
        environments = {what: _environment(bench) for what, bench in benches.items()}
        with Control(settings_of(environments["a day"])) as control:
            runs = {
                what: RunContext("bench", settings_of(environment), control, "bench")
                for what, environment in environments.items()
            }
            pieces = {what: _prepare(benches[what], run, spans[what]) for what, run in runs.items()}
            plans = {what: _plans(run) for what, run in runs.items()}
            with_rows = _measure(plans)
            started = time.perf_counter()
            deleted = _delete_rows(runs["years"])
            took = time.perf_counter() - started
            without = _measure(plans)
    number = f"{pieces['years']:,}"
    table_shown = table_of(
        f"plan of the last hour (60 Minute pieces), ms, {pieces['a day']:,} pieces and {number}",
        "a day",
        "ratio",
        f"{number}",
        "their rows deleted",
        "ratio",
    )
    for name in plans["a day"]:
        _add(table_shown, name, with_rows, without)
    Console(width=120).print(table_shown)
    print(f"{deleted:,} rows of the ledger deleted in {took:.1f} s, planning it included")


def _environment(bench: Bench) -> dict[str, str]:
    definitions = SOURCES / bench.keyspace
    definitions.mkdir(parents=True)
    (definitions / "reds.sql").write_text(DEFINITION.format(keyspace=bench.keyspace))
    return bench.environment(
        TIDEMARK_BUCKET_SIZE="Minute", TIDEMARK_PROJECTIONS_DIR=str(definitions)
    )


def _prepare(bench: Bench, run: RunContext, length: int) -> int:
    """Write the ledgers; return the pieces of the largest."""
    bench.create()
    create_own_tables(run.control, run.settings)
    run.control.execute_ddl(
        f"CREATE TABLE {table(bench.keyspace, 'reds')}"
        " (persistence_id text, sequence_nr bigint, PRIMARY KEY (persistence_id, sequence_nr))"
    )
    [definition] = catalog.load(run.settings.projections_dir)
    first, last_hour = HISTORY_END - length, HISTORY_END - HOUR_MS
    journal = run.settings.journal_keyspace
    subject = definition.subject(journal)
    _fill(run, applications.TAG_WRITE, journal, first, HISTORY_END)
    _fill(run, applications.VALIDATE, journal, first, HISTORY_END)
    _fill(run, applications.PROJECT, subject, first, last_hour, version=definition.fingerprint)
    if length > 30 * DAY_MS:
        _fill(run, applications.PURGE, journal, first, HISTORY_END - 30 * DAY_MS, later_days=30)
    return length // MINUTE_MS


def _fill(
    run: RunContext,
    application: str,
    subject: str,
    first: int,
    end: int,
    *,
    version: str = "",
    later_days: int = 0,
) -> None:
    """Write done pieces, and let the frontier advance as it does while they are done."""
    size = BucketSize.MINUTE
    partition = Partition(run.control, run.settings.keyspace, application, subject, size)
    columns = (
        "application, subject, bucket_size, time_bucket, counts, definition_version, started_at,"
        " finished_at, state, reason, attempt, owner, run_id"
    )
    values = "?, ?, ?, ?, ?, ?, ?, ?, 'done', 'new', 1, 'bench', 'bench'"
    name = table(run.settings.keyspace, "piece")
    insert = " ".join(["INSERT INTO", name, f"({columns}) VALUES ({values})"])
    step = IN_A_BATCH * MINUTE_MS
    for part in range(first, end, TAKEN_UP_AT_ONCE * MINUTE_MS):
        part_end = min(part + TAKEN_UP_AT_ONCE * MINUTE_MS, end)
        run.control.execute_batches(
            insert,
            (
                [
                    (*partition.key, bucket, {"events_read": 1}, version, ended, ended)
                    for bucket in range(start, min(start + step, part_end), MINUTE_MS)
                    for ended in [from_millis(bucket) + timedelta(days=later_days, minutes=5)]
                ]
                for start in range(part, part_end, step)
            ),
        )
        partition.advance()


def _plans(run: RunContext) -> Plans:
    """Return what is measured, by name; each returns the number of its pieces."""
    at = [from_millis(HISTORY_END + hours * HOUR_MS) for hours in (-1, 0, 1)]
    window, projected = Window(at[1], at[2]), Window(at[0], at[1])

    def tag_write() -> int:
        ledger = Pieces.of(run.control, run.settings, applications.TAG_WRITE)
        return len(ledger.schedule(window, most=MOST).pieces)

    def validate() -> int:
        ledger = validate_plan.ledger(run)
        pieces = ledger.schedule(window, most=MOST).pieces
        pending = validate_plan.pending_tag_writes(run)
        validate_plan.passed(ledger, pieces, pending.buckets)
        return len(pieces)

    def project() -> int:
        [plan] = build(run, projected, PlanOptions()).projections
        return len(plan.pieces)

    return {"tag-write": tag_write, "validate": validate, "project, one projection": project}


def _measure(plans: dict[str, Plans]) -> dict[tuple[str, str], float]:
    """Return the median milliseconds of each plan of each journal, measured in turns."""
    took: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for what, of_journal in plans.items():
            for name, plan in of_journal.items():
                started = time.perf_counter()
                planned = plan()
                took.setdefault((name, what), []).append((time.perf_counter() - started) * 1000)
                if planned != HOUR_MS // MINUTE_MS:
                    raise RuntimeError(f"{name} planned {planned} pieces behind {what}")
    return {key: statistics.median(values) for key, values in took.items()}


def _delete_rows(run: RunContext) -> int:
    plan = plan_ledger(run, 1)
    if plan.apply is None:
        raise RuntimeError(f"nothing is deleted: {plan.lines}")
    return plan.apply(lambda: None)["ledger_rows_deleted"]


def _add(
    shown: Table,
    name: str,
    with_rows: dict[tuple[str, str], float],
    without: dict[tuple[str, str], float],
) -> None:
    figures = []
    for took in (with_rows, without):
        day, years = took[name, "a day"], took[name, "years"]
        figures += [f"{day:.1f}", f"{years / day:.2f}", f"{years:.1f}"]
    shown.add_row(name, figures[0], figures[1], figures[2], figures[5], figures[4])


if __name__ == "__main__":
    main()
