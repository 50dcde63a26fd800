"""The world of a history: a journal in a real Cassandra, its actors, a clock, and the chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pendulum
from airflow.timetables.base import DataInterval

from tests.faults.dying import Death, Died
from tests.integration.support import Journal, Result
from tests.live.actors import Actors
from tests.live.chain import Chain, Ended
from tests.live.readmodels import READ_MODELS, ReadModel
from tests.live.truth import Event, Truth
from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable
from tidemark.ledger.locks import Locks
from tidemark.validate.reading import incremental

START = datetime(2024, 3, 1, 0, 0, 0, tzinfo=UTC)
BUCKETS = {"Minute": 60_000, "Hour": 3_600_000, "Day": 86_400_000}
CADENCES = {"hourly": timedelta(hours=1), "daily": timedelta(days=1)}
A_START = timedelta(seconds=10)
"""The time that Airflow takes to start a run that is due."""
KILLED = 137


@dataclass(frozen=True)
class Profile:
    """The properties that do not change in a history.

    Attributes:
        tags_by_pekko: whether Pekko writes the tags, and Tidemark repairs; else Tidemark writes.
        bucket: Minute, Hour or Day.
        cadence: the cadence of the chain, hourly or daily.
        models: the names of the projections.
        settings: further TIDEMARK_ settings.
        retention_days: how long the scheduled purge keeps tag views; with 0 it only plans.
        is_indexed: messages has an index on its timestamp, and validate looks at what is new.
    """

    tags_by_pekko: bool
    bucket: str = "Hour"
    cadence: str = "daily"
    models: tuple[str, ...] = ("tag_sums",)
    settings: tuple[tuple[str, str], ...] = ()
    retention_days: int = 0
    is_indexed: bool = False


@dataclass
class World:
    """The state that the steps of a history act on.

    Attributes:
        now: the present of every application.
        interrupts: actions inside the next runs: the application, the number of its seams (places
           between two of its reads or writes) after which to act, and the action.
        away: the number of next runs that will not reach Cassandra.
        disturbed: whether somebody or something kept the present step's runs from their work.
        damaged: persistence ids with real damage.
        quiet_since: the first time bucket (epoch ms) in which nobody writes any more.
        visible_to_last_run: the place of the last event written before the last step began.
        placed: the number of events written.
        version: the version of the projections' definitions.
        seen: the ended runs, newest last.
        held_by_others: resources that somebody else has locked.
        poisoned: events that nobody can read and nobody has settled yet, by key.
        frozen: time buckets of read models that nobody can make again, by (projection, bucket).
        remade: the events left of each time bucket when an operator accepted them, by projection.
    """

    profile: Profile
    journal: Journal
    directory: Path
    now: datetime = START
    truth: Truth = field(default_factory=Truth)
    interrupts: list[tuple[str, int, Callable[[], None]]] = field(default_factory=list)
    away: int = 0
    disturbed: bool = False
    damaged: set[str] = field(default_factory=set)
    quiet_since: int = 0
    visible_to_last_run: int = 0
    placed: int = 0
    version: int = 1
    seen: list[Ended] = field(default_factory=list)
    held_by_others: set[str] = field(default_factory=set)
    poisoned: set[tuple[str, int]] = field(default_factory=set)
    frozen: set[tuple[str, int]] = field(default_factory=set)
    remade: dict[str, dict[int, list[Event]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bucket = self.profile.bucket
        self.bucket_ms = BUCKETS[self.bucket]
        self.tag_views = "tag_views"
        self.actors = Actors(self.journal, self.truth, self.bucket_ms, self.profile.tags_by_pekko)
        of_airflow = {
            "TIDEMARK_CADENCE": self.profile.cadence,
            "TIDEMARK_BUCKET_SIZE": self.profile.bucket,
            "TIDEMARK_PROJECTIONS_DIR": str(self.directory / "projections"),
            "TIDEMARK_SCHEDULED_PURGE": "apply" if self.profile.retention_days else "plan",
        }
        self.chain = Chain(of_airflow, self.run, lambda: self.now, self.advance)
        length = CADENCES[self.profile.cadence]
        self.chain.last = DataInterval(pendulum.instance(START - length), pendulum.instance(START))
        ttl = dict(self.profile.settings).get("EVENTS_BY_TAG_TIME_TO_LIVE")
        self.time_to_live = timedelta(seconds=int(ttl)) if ttl else None
        if self.profile.is_indexed:
            self.journal.index_timestamps()
        self.models: list[ReadModel] = [READ_MODELS[name] for name in self.profile.models]
        (self.directory / "projections").mkdir()
        for model in self.models:
            model.define(self.journal, self.directory / "projections")

    @property
    def last_end(self) -> int:
        """The end of the last scheduled interval in epoch ms."""
        return round(self.chain.last.end.timestamp() * 1000) if self.chain.last else 0

    @property
    def exports(self) -> Path:
        return self.directory / "export"

    def advance(self, time: timedelta) -> None:
        """Move the clock on, and let locks of dead runs and old rows expire."""
        self.now += time
        self._expire_locks()
        self._expire_rows()

    def event(
        self, pid: str, tags: Sequence[str], skew: timedelta, kind: str, amount: int
    ) -> Event:
        """Make the next event of a persistence id, timed by its writer's clock."""
        self.placed += 1
        micros = round((self.now + skew).timestamp() * 1_000_000) + self.placed
        number = self.truth.last(pid) + 1
        return Event(pid, number, micros, self.placed, frozenset(tags), kind, amount)

    def run(self, application: str, arguments: Sequence[str]) -> Result:
        """Run an application at this world's present, with the interrupts arranged for it."""
        interrupts = [interrupt for interrupt in self.interrupts if interrupt[0] == application]
        self.interrupts = [
            interrupt for interrupt in self.interrupts if interrupt[0] != application
        ]
        with ExitStack() as stack:
            stack.enter_context(patch.object(clock, "now", lambda: self.now))
            if self.profile.is_indexed:
                # Look only at what is new, however little is stored.
                stack.enter_context(patch.object(incremental, "FEW_EVENTS", 0))
                stack.enter_context(patch.object(incremental, "NEWS_SHARE", 0))
            if self.away:
                self.away -= 1
                stack.enter_context(patch.object(Control, "__init__", _unreachable))
            if interrupts:
                stack.enter_context(_interrupted(interrupts))
            try:
                return self.journal.run(
                    application,
                    *arguments,
                    BUCKET_SIZE=self.bucket,
                    EVENTS_BY_TAG_TABLE=self.tag_views,
                    PROJECTIONS_DIR=str(self.directory / "projections"),
                    EXPORT_DIR=str(self.exports),
                    DATA_DOCS_DIR=str(self.directory / "data_docs"),
                    EVENTS_BY_TAG_FIRST_TIME_BUCKET=f"{START - timedelta(days=5):%Y%m%d}",
                    RETENTION_DAYS=str(self.profile.retention_days or 30),
                    **dict(self.profile.settings),
                )
            except Died:
                return Result(KILLED, "", "killed")

    def scheduled(self, stop_after: str = "purge") -> list[Ended]:
        """Move on to the end of the next scheduled interval, and run the chain."""
        due, interval = self.chain.due()
        self.advance(max(due + A_START - self.now, timedelta(0)))
        ended = self.chain.scheduled(interval, stop_after=stop_after)
        self.seen.extend(ended)
        return ended

    def consumed(self, pid: str) -> int:
        """Return the sequence nr up to which the chain needs no event of an id any more."""
        own = [event for event in self.truth.all() if event.persistence_id == pid]
        reached = max((event.sequence_nr for event in own), default=0)
        for event in reversed(own):
            if any((pid, event.sequence_nr, tag) not in self.truth.tagged for tag in event.tags):
                reached = event.sequence_nr - 1
        offsets = {
            row["projection"].partition("/")[2]: row["sequence_nr"]
            for row in self.journal.own_rows("projection_offset")
            if row["persistence_id"] == pid and not row["tag"]
        }
        for model in self.models:
            if not model.tags:
                reached = min(reached, offsets.get(model.name, 0))
        return reached

    def consumed_by(self, model: ReadModel) -> list[Event]:
        """Return the events of a projection, in sequence nr order of each persistence id."""
        truth = self.truth
        if not model.tags:
            return [
                event
                for event in truth.all()
                if not event.is_poison
                and (event.persistence_id, event.sequence_nr) not in truth.lost
            ]
        return [
            event
            for event in truth.all()
            if any(
                (event.persistence_id, event.sequence_nr, tag) in truth.tagged for tag in model.tags
            )
        ]

    def left_of(self, model: ReadModel, events: Iterable[Event]) -> list[Event]:
        """Return the events that a projection still finds when it reads its source anew."""
        truth = self.truth
        gone = truth.gone | truth.lost
        if not model.tags:
            return [
                event for event in events if (event.persistence_id, event.sequence_nr) not in gone
            ]
        present = truth.tagged.keys() - truth.expired
        return [
            event
            for event in events
            if any((event.persistence_id, event.sequence_nr, tag) in present for tag in model.tags)
        ]

    def switch(self, bucket: str) -> None:
        """Make Pekko and Tidemark use the re-bucketed table from now on."""
        self.bucket, self.bucket_ms = bucket, BUCKETS[bucket]
        self.tag_views = f"tag_views_{bucket.lower()}"
        self.actors.bucket_ms, self.actors.tag_views = self.bucket_ms, self.tag_views
        self.chain.settings = {**self.chain.settings, "TIDEMARK_BUCKET_SIZE": bucket}

    def missed(self) -> None:
        """Let the next scheduled interval pass without a run."""
        due, _ = self.chain.due()
        length = CADENCES[self.profile.cadence]
        self.advance(max(due - self.now, timedelta(0)) + length - timedelta(minutes=1))

    def own_table_exists(self, name: str) -> bool:
        return self.journal.control.table_columns(self.journal.own_keyspace, name) is not None

    def pieces(self, application: str) -> dict[tuple[str, int], dict[str, object]]:
        """Return an application's pieces by the last part of the subject and time bucket."""
        return {
            (row["subject"].partition("/")[2], row["time_bucket"]): row
            for row in self.journal.own_rows("piece")
            if row["application"] == application and row["bucket_size"] == self.bucket
        }

    def _expire_locks(self) -> None:
        for row in self.journal.own_rows("lock"):
            if row["resource"] in self.held_by_others:
                continue
            self.journal.control.execute(
                f"DELETE FROM {self.journal.own_keyspace}.lock WHERE resource = ?",
                [row["resource"]],
            )

    def _expire_rows(self) -> None:
        """Delete the tag-view rows whose time to live has passed since they were first seen."""
        for key, number in self.truth.expire(self.now, self.time_to_live):
            event = self.truth.events[key[0]][key[1]]
            self.journal.control.execute(
                f"DELETE FROM {self.journal.keyspace}.{self.tag_views} WHERE tag_name = ? AND"
                " timebucket = ? AND timestamp = ? AND persistence_id = ?"
                " AND tag_pid_sequence_nr = ?",
                [key[2], event.time_bucket(self.bucket_ms), event.timestamp, key[0], number],
            )

    @contextmanager
    def locked(self, resource: str) -> Iterator[None]:
        """Hold the lock of a resource as somebody else."""
        self.held_by_others.add(resource)
        self.journal.control.execute(
            f"INSERT INTO {self.journal.own_keyspace}.lock"
            " (resource, owner, run_id, taken_at) VALUES (?, 'somebody', 'other', ?)",
            [resource, self.now],
        )
        try:
            yield
        finally:
            self.held_by_others.remove(resource)
            self._expire_locks()


def die() -> None:
    """Stand for the death of the run, among its interrupts."""


def _unreachable(self: Control, settings: object) -> None:
    raise CassandraUnavailable("no host answers", where="127.0.0.1:9042", do="start it")


@contextmanager
def _interrupted(arranged: Sequence[tuple[str, int, Callable[[], None]]]) -> Iterator[None]:
    """Act at the seams of a run: where it reports progress, and where it checks its locks."""
    passed, death = 0, Death()
    say, check = RunContext.say, Locks.check

    def seam() -> None:
        nonlocal passed
        passed += 1
        for _, after, action in arranged:
            if after == passed:
                death.come() if action is die else action()

    def said(run: RunContext, text: str) -> None:
        say(run, text)
        seam()

    def checked(locks: Locks) -> None:
        check(locks)
        seam()

    with (
        death.possible(),
        patch.object(RunContext, "say", said),
        patch.object(Locks, "check", checked),
    ):
        yield
