"""validate over one new time bucket, after a history and after more of it; then over everything.

The journals have two tags and the index on `messages(timestamp)`. `BENCH_IDS` (default 1000) is the
number of persistence ids, `BENCH_EVENTS_PER_ID` (50) and `BENCH_BUCKETS` (20 Hours) the size of the
smaller history, `BENCH_TIMES` (10) how many times as large the other is, `BENCH_ROUNDS` (3) the
rounds that count. The new buckets have one event of each persistence id; they are validated one by
one, in turns with those of the other journal, and the medians are compared.

Then the larger journal is looked at as a whole, all checks together, in turns with one plain pass
of Spark over the same columns.

All of it runs in one process with one session, and the first round of each counts for nothing: no
start of Python, Java or Spark is measured. What is being done is told on standard error.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.journals import BUCKETS, IDS, Bench, fresh_server, settings_of, table_of
from benchmarks.synthetic import HISTORY_END, HOUR_MS, fill
from embedded.paths import STATE
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.context import Outcome, RunContext, RunState
from tidemark.journals.pekko.tag_view_rows import TAG_VIEW_KEY
from tidemark.ledger import applications
from tidemark.tag_write import run as tag_write
from tidemark.validate import run as validate
from tidemark.validate.plan import ValidationScope
from tidemark.window import Window, from_millis

GOAL = 1.3
PASS_GOAL = 2
EVENTS = int(os.environ.get("BENCH_EVENTS_PER_ID", "50"))
TIMES = (1, int(os.environ.get("BENCH_TIMES", "10")))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
MESSAGES = ("persistence_id", "sequence_nr", "timestamp", "tags", "partition_nr", "ser_id")
TAG_VIEWS = (*TAG_VIEW_KEY, "sequence_nr")
"""What validate reads of the two large tables, beside the write time of an event's payload."""
DOCS = str(STATE / "bench" / "data_docs")
_STARTED = time.monotonic()


@dataclass(frozen=True)
class Journal:
    """A journal whose history has passed.

    Attributes:
        bench: its keyspace.
        control: the session.
        events: events of each persistence id in its history.
        buckets: Hours of its history.
    """

    bench: Bench
    control: Control
    events: int
    buckets: int

    @property
    def history(self) -> Window:
        """The window of the history."""
        return _window(-self.buckets, 0)

    def run(self, application: str) -> RunContext:
        """Return the context of one more run; Spark's session is the one there is."""
        settings = settings_of(self.bench.environment(TIDEMARK_DATA_DOCS_DIR=DOCS))
        return RunContext(application, settings, self.control, f"bench-{time.monotonic_ns()}")

    def tag(self, window: Window) -> None:
        """Write the rows of a window."""
        run = self.run(applications.TAG_WRITE)
        _done(tag_write.run_window(run, window, force=False, dry_run=False))

    def validate(self, window: Window, scope: ValidationScope, *, force: bool = False) -> None:
        """Judge a window, and say if everything was looked at although it was not asked for.

        Raises:
            RuntimeError: it did not pass.
        """
        run = self.run(applications.VALIDATE)
        outcome = validate.run_window(run, window, force=force, dry_run=False, scope=scope)
        _done(outcome)
        if outcome.details["scope"] != scope:
            _say(f"looked at everything: {outcome.details['scope_reason']}")


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    with fresh_server() as (endpoint, server), ExitStack() as stack:
        benches = {times: Bench(endpoint, server, f"validated_{times}") for times in TIMES}
        stack.enter_context(_environment(benches[1]))
        journals = {
            times: _prepared(bench, times, stack.enter_context) for times, bench in benches.items()
        }
        first = journals[1].run("bench")
        stack.callback(first.spark.stop)
        news: dict[int, list[float]] = {times: [] for times in TIMES}
        for turn in range(ROUNDS + 1):
            for times, journal in journals.items():
                _say(f"round {turn} of {ROUNDS}: one new time bucket behind {times} times")
                look = partial(journal.validate, _window(turn, turn + 1), ValidationScope.NEW)
                news[times].append(_seconds(look))
        beside = _beside_a_pass(journals[TIMES[-1]])
    console = Console(width=120)
    console.print(_new_table({times: taken[1:] for times, taken in news.items()}))
    console.print(_pass_table({name: taken[1:] for name, taken in beside.items()}))


@contextmanager
def _environment(bench: Bench) -> Iterator[None]:
    """Set what the start of Java reads."""
    with patch.dict(os.environ, bench.environment()):
        yield


def _prepared(bench: Bench, times: int, entered: Callable[[Control], Control]) -> Journal:
    """Make a history that has passed, and behind it a new time bucket for each round."""
    settings = settings_of(bench.environment())
    bench.create()
    journal = Journal(bench, entered(Control(settings)), EVENTS * times, BUCKETS * times)
    journal.control.execute_ddl(
        f"CREATE CUSTOM INDEX ON {bench.keyspace}.messages(timestamp) USING 'StorageAttachedIndex'"
    )
    spark = journal.run("bench").spark
    _say(f"writing {IDS * journal.events:,} events")
    fill(spark, settings, bench.keyspace, IDS, 1, journal.events, journal.buckets)
    _say("writing their rows")
    journal.tag(journal.history)
    _say("validating them")
    journal.validate(journal.history, ValidationScope.ALL)
    new = ROUNDS + 1
    fill(spark, settings, bench.keyspace, IDS, journal.events + 1, new, new)
    journal.tag(_window(0, new))
    return journal


def _beside_a_pass(journal: Journal) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"plain": [], "validate": []}
    look = partial(journal.validate, journal.history, ValidationScope.ALL, force=True)
    for turn in range(ROUNDS + 1):
        _say(f"round {turn} of {ROUNDS}: everything, beside a plain pass")
        seconds["plain"].append(_seconds(lambda: _plain(journal.run("bench"))))
        seconds["validate"].append(_seconds(look))
    return seconds


def _plain(run: RunContext) -> None:
    """Read every row, and do nothing with it."""
    settings = run.settings
    for name, columns in (
        (settings.journal_table, MESSAGES),
        (settings.events_by_tag_table, TAG_VIEWS),
    ):
        is_messages = name == settings.journal_table
        rows = connector.read(
            run.spark,
            settings.journal_keyspace,
            name,
            *columns,
            write_time_of="event" if is_messages else None,
        )
        rows.write.format("noop").mode("overwrite").save()


def _window(first: int, end: int) -> Window:
    """Return the window of some Hours, counted from the end of the history."""
    return Window(*(from_millis(HISTORY_END + hour * HOUR_MS) for hour in (first, end)))


def _done(outcome: Outcome) -> None:
    if outcome.state is not RunState.DONE:
        raise RuntimeError(f"a run ended as {outcome.state}: {outcome.lines}")


def _seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _say(text: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


def _new_table(news: dict[int, list[float]]) -> Table:
    title = f"validate, one new bucket of {IDS:,} events, start-up excluded; goal: {GOAL}"
    table = table_of(title, "after events", "s", "ratio")
    base = statistics.median(news[1])
    for times, taken in news.items():
        seconds = statistics.median(taken)
        events = f"{IDS * EVENTS * times:,}"
        table.add_row("what is new", events, f"{seconds:.1f}", f"{seconds / base:.2f}")
    return table


def _pass_table(taken: dict[str, list[float]]) -> Table:
    number = IDS * (EVENTS * TIMES[-1] + ROUNDS + 1)
    title = f"all checks over {number:,} events and {2 * number:,} rows; goal: {PASS_GOAL}"
    table = table_of(title, "s", "ratio")
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    for name, seconds in medians.items():
        table.add_row(name, f"{seconds:.1f}", f"{seconds / medians['plain']:.2f}")
    return table


if __name__ == "__main__":
    main()
