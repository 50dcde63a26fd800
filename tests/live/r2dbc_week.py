"""A simulated journal in PostgreSQL: writers, commits that become visible late, and the runs.

The final tables are compared with loops over all that was written (`readmodels`). After each run
the folded numbers must be a prefix of what was written, so that a fault shows where it begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from unittest.mock import patch

from tests.faults.dying import Died
from tests.integration.postgres.r2dbc_journal import START, R2dbcEvent, R2dbcJournal
from tests.integration.project.projections import Projections
from tests.integration.support import Journal, Result
from tests.live.readmodels import READ_MODELS, ReadModel, Rows
from tests.live.truth import Event, by_id
from tests.live.world import KILLED, die, interrupted
from tidemark import clock
from tidemark.partitioning import keys

HOUR = 3600
HOUR_MS = 1000 * HOUR
DELAY = 10
IDS = ("Order|1", "Order|2", "Cart|1", "Cart|2", "no type", "Rep|1|A")
_SNAPSHOT_FOLD = """\
from tidemark.projection import projection


@projection(
    name="balances", version=1, source="messages", mode="fold", start="snapshot",
    target="{keyspace}.balances", event="kind STRING, amount INT", state="balance BIGINT",
    deleted_before_consumed="accept",
)
def balances(state, events):
    balance = state["balance"] if state else 0
    for event in events.itertuples():
        balance = int(event.amount) + (0 if event.is_snapshot else balance)
    return {"balance": balance}
"""


def _balances(events: Iterable[Event], bucket_ms: int) -> Rows:
    return {
        (pid, own[-1].sequence_nr, sum(event.amount for event in own))
        for pid, own in by_id(events).items()
    }


BALANCES = ReadModel(
    "balances",
    _SNAPSHOT_FOLD,
    "(persistence_id text PRIMARY KEY, sequence_nr bigint, balance bigint)",
    ("persistence_id", "sequence_nr", "balance"),
    _balances,
    file="balances.py",
)
"""A fold whose result is the same with whichever snapshot it begins."""


@dataclass
class Writer:
    """A persistent actor.

    Attributes:
        skew: seconds by which the clock of its server is ahead.
        has_snapshots: then it deletes only events that were consumed.
        last: the time of its last event in µs since START.
    """

    pid: str
    skew: float
    has_snapshots: bool
    last: int = -(10**15)
    deleted_to: int = 0
    events: list[Event] = field(default_factory=list)


@dataclass
class Week:
    """A history, generated from a seed, with all that was written in it.

    Attributes:
        now: seconds since START.
        pending: commits under way, with the second in which each becomes visible.
        never_read: keys of events that were deleted before any run could read them.
        planned_end: the end of the newest window of any run, in seconds since START.
        complete_end: that of the newest run that ended well.
    """

    seed: int
    plugin: R2dbcJournal
    journal: Journal
    directory: Path
    now: float = HOUR
    placed: int = 0
    pending: list[tuple[float, list[Event]]] = field(default_factory=list)
    never_read: set[tuple[str, int]] = field(default_factory=set)
    planned_end: int = 0
    complete_end: int = 0
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(f"week {self.seed}")
        self.deletes, self.validates, self.is_disordered = (
            self.chance.random() < share for share in (0.6, 0.4, 0.5)
        )
        # A time bucket with deleted events cannot be made again for an event that comes much later.
        self.is_deep = not self.deletes
        skews = (0.0, 0.0, 0.0, -300.0, 3600.0)
        self.writers = [
            Writer(pid, self.chance.choice(skews), self.chance.random() < 0.5) for pid in IDS
        ]
        self.projections = Projections(self.journal, self.directory)
        self.models = [READ_MODELS["sums"], READ_MODELS["books"], BALANCES]
        for model in self.models:
            model.define(self.journal, self.directory)
        for name in ("sums.sql", "books.py"):
            file = self.directory / name
            accepted = file.read_text().replace("on-error: skip", _ACCEPT_SQL)
            file.write_text(accepted.replace('on_error="skip"', _ACCEPT_PYTHON))

    def play(self, runs: int) -> None:
        """Let time pass and run, then end quietly, and compare."""
        for _ in range(runs):
            for _ in range(self.chance.randint(4, 20)):
                self.advance(self.chance.uniform(0, 900))
                self.act()
            self.advance(self.chance.choice((0, HOUR - self.now % HOUR + DELAY + 1)))
            if self.chance.random() < 0.25:
                self._run_by_slices()
            self.run(self._interrupts())
        self._end_quietly()

    def advance(self, seconds: float) -> None:
        """Let time pass, in which commits become visible."""
        self.now += seconds
        due = [rows for at, rows in self.pending if at <= self.now]
        self.pending = [(at, rows) for at, rows in self.pending if at > self.now]
        for rows in due:
            self.plugin.insert(*(_row(event) for event in rows))

    def act(self) -> None:
        """Let a writer do something."""
        writer, what = self.chance.choice(self.writers), self.chance.random()
        if what < 0.55:
            self._persist(writer)
        elif what < 0.85 and self.deletes:
            self._delete(writer)
        elif writer.has_snapshots:
            self._snapshot(writer)

    def run(self, interrupts: list[tuple[str, int, Callable[[], None]]]) -> bool:
        """Run the applications over all past hours; return whether all is done."""
        end = int(self.now - DELAY) // HOUR
        self.planned_end = max(self.planned_end, end * HOUR)
        statuses = []
        with ExitStack() as stack:
            stack.enter_context(patch.object(clock, "now", self._moment))
            if interrupts:
                stack.enter_context(interrupted(interrupts))
            if self.validates:
                statuses.append(self._application("validate", end).status)
            else:
                self.projections.validated(*range(end))
            statuses.append(self._application("project", end).status)
        self.journal.control.execute_ddl(f"TRUNCATE {self.journal.own_keyspace}.lock")
        self._require_prefixes()
        if statuses[-1] == 0:
            self.complete_end = end * HOUR
        return not any(statuses)

    def _application(self, name: str, end: int, *options: str) -> Result:
        bounds = [(START + timedelta(hours=hour)).isoformat() for hour in (0, end)]
        window = ("--window-start", bounds[0], "--window-end", bounds[1])
        try:
            result = self.journal.run(
                name, *window, *options, PROJECTIONS_DIR=str(self.directory), BUCKET_SIZE="Hour"
            )
        except Died:
            result = Result(KILLED, "", "killed")
        said = " ".join(result.error_lines)
        self.seen.append(f"{self.now:.0f} {name} {' '.join(options)} {result.status} {said}")
        assert "Traceback" not in result.stderr, result.stderr
        assert result.status in (0, 3, KILLED), result.stderr
        return result

    def _run_by_slices(self) -> None:
        """Run ranges of slices, between which writers write."""
        end = int(self.now - DELAY) // HOUR
        self.planned_end = max(self.planned_end, end * HOUR)
        names = ("--projection", "books", "--projection", "balances")
        ranges = self.chance.choice((2, 4, 8))
        parts = self.chance.sample(keys.slice_ranges(ranges), min(ranges, 3))
        if not self.validates:
            self.projections.validated(*range(end))
        for part in parts:
            with patch.object(clock, "now", self._moment):
                self._application("project", end, *names, "--slices", f"{part.first}-{part.last}")
            self._require_prefixes()
            self.advance(60)

    def _interrupts(self) -> list[tuple[str, int, Callable[[], None]]]:
        what, seam = self.chance.random(), self.chance.randint(1, 8)
        if what < 0.15:
            return [("project", seam, die)]
        if what < 0.4:
            return [("project", seam, self._write_meanwhile)]
        return []

    def _write_meanwhile(self) -> None:
        self.advance(5)
        self.act()

    def _persist(self, writer: Writer) -> None:
        is_waiting = any(rows[0].persistence_id == writer.pid for _, rows in self.pending)
        if is_waiting and not self.is_disordered:
            return
        micros = round((self.now + writer.skew) * 1_000_000)
        if self.is_disordered and self.chance.random() < 0.2:
            # Stamped by another clock, which did not see the row before.
            micros -= self.chance.randint(0, 200_000_000)
        else:
            micros = max(micros, writer.last + 1)
        writer.last = max(micros, writer.last)
        first = len(writer.events) + 1
        events = []
        for number in range(first, first + self.chance.choice((1, 1, 2, 5, 12))):
            self.placed += 1
            since_1970 = micros + round(START.timestamp()) * 1_000_000
            kind = self.chance.choice(("in", "out"))
            event = Event(writer.pid, number, since_1970, self.placed, frozenset(), kind, number)
            events.append(event)
        writer.events += events
        delay = self.chance.choice((0, 0, 0, 1, 12, 60))
        if self.is_deep and self.chance.random() < 0.15:
            # Beyond the look-back: only the next event shows it.
            delay = self.chance.randint(700, 5000)
        if delay:
            self.pending.append((self.now + delay, events))
        else:
            self.plugin.insert(*map(_row, events))

    def _delete(self, writer: Writer) -> None:
        """Delete events that are consumed and in no time bucket that a late event can change.

        Or such as no run could have read, which no result has.
        """
        waiting = [event for _, rows in self.pending for event in rows]
        first_waiting = min(
            (event.sequence_nr for event in waiting if event.persistence_id == writer.pid),
            default=len(writer.events) + 1,
        )
        consumed = self._consumed(writer.pid)
        deletable = []
        for event in writer.events[writer.deleted_to : first_waiting - 1]:
            at = event.micros / 1_000_000 - START.timestamp()
            is_settled = event.sequence_nr <= consumed and at < self.complete_end - 2 * HOUR
            is_unread = at >= self.planned_end and not writer.has_snapshots
            if not (is_settled or is_unread):
                break
            deletable.append((event.sequence_nr, is_unread))
        deletable = deletable[: self.chance.randint(1, 12)]
        if not deletable:
            return
        self.never_read |= {(writer.pid, number) for number, is_unread in deletable if is_unread}
        writer.deleted_to = deletable[-1][0]
        self.plugin.delete_to(writer.pid, writer.deleted_to, self.now)

    def _consumed(self, pid: str) -> int:
        """Return the sequence nr up to which all projections have consumed a persistence id."""
        if not self.complete_end:
            return 0
        own = [row for row in self.journal.own_rows("projection_offset") if not row["tag"]]
        reached = [row["sequence_nr"] for row in own if row["persistence_id"] == pid]
        return min(reached) if len(reached) == len(self.models) else 0

    def _snapshot(self, writer: Writer) -> None:
        is_waiting = any(rows[0].persistence_id == writer.pid for _, rows in self.pending)
        number = len(writer.events)
        if number and not is_waiting:
            state = sum(event.amount for event in writer.events)
            payload = json.dumps({"kind": "in", "amount": state}).encode()
            self.plugin.insert_snapshot(writer.pid, number, self.now, payload)

    def _moment(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def _require_prefixes(self) -> None:
        written = {writer.pid: writer.events for writer in self.writers}
        for row in self.journal.rows("books"):
            pid, last = row["persistence_id"], row["sequence_nr"]
            wanted = [
                event.sequence_nr
                for event in written[pid][:last]
                if (pid, event.sequence_nr) not in self.never_read
            ]
            assert json.loads(row["folded"]) == wanted, (pid, row["folded"], wanted)

    def _end_quietly(self) -> None:
        """Let all commits end and each writer write once more, then run until all is done."""
        self.advance(max([0.0, *(at - self.now for at, _ in self.pending)]))
        self.is_disordered = self.is_deep = False
        for writer in self.writers:
            self._persist(writer)
        newest = max(writer.last for writer in self.writers) / 1_000_000
        self.advance(max(60, newest + HOUR + DELAY + 1 - self.now))
        for _ in range(3):
            self.advance(HOUR)
            if self.run([]):
                break
        self._require_equal()

    def _require_equal(self) -> None:
        events = [
            event
            for writer in self.writers
            for event in writer.events
            if (writer.pid, event.sequence_nr) not in self.never_read
        ]
        for model in self.models:
            rows, wanted = (
                model.rows(self.journal, self.directory),
                model.expected(events, HOUR_MS),
            )
            assert rows == wanted, (model.name, rows - wanted, wanted - rows)
        last = {writer.pid: len(writer.events) for writer in self.writers}
        for row in self.journal.own_rows("projection_offset"):
            assert row["sequence_nr"] == last[row["persistence_id"]], row
        for row in self.journal.own_rows("piece"):
            assert row["state"] == "done", row


_ACCEPT_SQL = "on-error: skip\ndeleted-before-consumed: accept"
_ACCEPT_PYTHON = 'on_error="skip", deleted_before_consumed="accept"'


def _row(event: Event) -> R2dbcEvent:
    seconds = (event.micros - round(START.timestamp()) * 1_000_000) / 1_000_000
    return R2dbcEvent(event.persistence_id, event.sequence_nr, seconds, event.payload)
