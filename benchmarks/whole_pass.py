"""A look of validate at everything, beside one plain pass of Spark over the same columns.

`whole_pass.py START END ROUNDS`: the history's window in epoch milliseconds. Both run in one
process with one session, in turns, after one round that counts for nothing: Java has compiled by
then, and Great Expectations has been imported. The last line of the output has the seconds of each
round.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.context import RunContext, RunState
from tidemark.continuity.plan import APPLICATION, ValidationScope
from tidemark.continuity.run import run_window
from tidemark.journal.frames import TAG_VIEW_KEY
from tidemark.settings import Settings
from tidemark.window import Window, from_millis

MESSAGES = ("persistence_id", "sequence_nr", "timestamp", "tags", "partition_nr")
TAG_VIEWS = (*TAG_VIEW_KEY, "sequence_nr")
"""What validate reads of the two large tables."""


def main(start: int, end: int, rounds: int) -> None:
    """Measure and print."""
    settings = Settings.load()
    window = Window(from_millis(start), from_millis(end))
    seconds: dict[str, list[float]] = {"plain": [], "validate": []}
    with Control(settings) as control:
        run = RunContext(APPLICATION, settings, control, "whole-pass")
        for _ in range(rounds + 1):
            seconds["plain"].append(_seconds(lambda: _plain(run)))
            seconds["validate"].append(_seconds(lambda: _validate(run, window)))
    print(json.dumps({name: taken[1:] for name, taken in seconds.items()}))


def _plain(run: RunContext) -> None:
    """Read every row, and do nothing with it."""
    settings = run.settings
    for name, columns in (
        (settings.journal_table, MESSAGES),
        (settings.events_by_tag_table, TAG_VIEWS),
    ):
        rows = connector.read(run.spark, settings.journal_keyspace, name, *columns)
        rows.write.format("noop").mode("overwrite").save()


def _validate(run: RunContext, window: Window) -> None:
    outcome = run_window(run, window, force=True, dry_run=False, scope=ValidationScope.ALL)
    if outcome.state is not RunState.DONE:
        raise RuntimeError(f"validate ended as {outcome.state}: {outcome.lines}")


def _seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
