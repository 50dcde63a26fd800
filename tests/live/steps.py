"""The steps of a history, each printed as its Python code, so that a history can be cut down."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tests.live.world import A_START, World, die
from tidemark.partitioning import keys
from tidemark.validate.findings.checks import UNWRITABLE_EVENT

APPLICATIONS = ("tag_write", "validate", "project", "purge")
DAY = 86_400_000


class Step(Protocol):
    """A step of a history."""

    def __call__(self, world: World) -> None: ...


@dataclass(frozen=True)
class Persist:
    """An actor that persists `count` events at once, with a clock `skew` seconds ahead.

    With `crash` the actor dies before it has tagged the events. With `lag` its progress is not
    written yet.
    """

    persistence_id: str
    tags: tuple[str, ...] = ("red",)
    count: int = 1
    skew: float = 0
    crash: bool = False
    lag: bool = False

    def __call__(self, world: World) -> None:
        if self.persistence_id in world.actors.forgotten:
            return
        first = world.truth.last(self.persistence_id)
        skew = timedelta(seconds=self.skew)
        events = []
        for number in range(first + 1, first + self.count + 1):
            kind = "in" if number % 3 else "out"
            event = world.event(self.persistence_id, self.tags, skew, kind, number)
            events.append(event.numbered(number))
        world.actors.persist(events, crash=self.crash, lag=self.lag)


@dataclass(frozen=True)
class Recover:
    """A new start of an actor that is down."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        if self.persistence_id in world.actors.down:
            world.actors.recover(self.persistence_id)


@dataclass(frozen=True)
class Delete:
    """A deletion by an actor, after a snapshot, of all but its last `keep` messages.

    With `consumed` the actor also keeps messages that the chain has not yet tagged and projected.
    """

    persistence_id: str
    keep: int = 1
    consumed: bool = False

    def __call__(self, world: World) -> None:
        if self.persistence_id in world.actors.down | world.damaged:
            return
        to = world.truth.last(self.persistence_id) - self.keep
        if self.consumed:
            to = min(to, world.consumed(self.persistence_id))
        if to > world.truth.deleted_to.get(self.persistence_id, 0):
            world.actors.delete(self.persistence_id, to)


@dataclass(frozen=True)
class Pass:
    """The passing of time."""

    seconds: float

    def __call__(self, world: World) -> None:
        world.advance(timedelta(seconds=self.seconds))


@dataclass(frozen=True)
class Run:
    """The end of the next scheduled interval, whose chain runs as far as `until`."""

    until: str = "purge"

    def __call__(self, world: World) -> None:
        world.scheduled(self.until)


@dataclass(frozen=True)
class Miss:
    """The end of the next scheduled interval, with Airflow down nearly until the one after."""

    def __call__(self, world: World) -> None:
        world.missed()


@dataclass(frozen=True)
class Within:
    """A `step` within the next run of `application`, after so many of its reads and writes."""

    application: str
    after: int
    step: Step

    def __call__(self, world: World) -> None:
        def act() -> None:
            self.step(world)

        world.interrupts.append((self.application, self.after, act))


@dataclass(frozen=True)
class Kill:
    """A kill of the next run of `application`, after so many of its reads and writes."""

    application: str
    after: int

    def __call__(self, world: World) -> None:
        world.interrupts.append((self.application, self.after, die))


@dataclass(frozen=True)
class Refused:
    """The next interval, while somebody else holds the lock of the journal's tag views."""

    resource: str = "tag_views/{journal}"

    def __call__(self, world: World) -> None:
        if world.own_table_exists("lock"):
            with world.locked(self.resource.format(journal=world.journal.keyspace)):
                world.disturbed = True
                world.scheduled()


@dataclass(frozen=True)
class Away:
    """The next interval, in which so many runs do not reach Cassandra."""

    runs: int = 2

    def __call__(self, world: World) -> None:
        world.disturbed = True
        world.away = self.runs
        world.scheduled()
        world.away = 0


@dataclass(frozen=True)
class ByHand:
    """A DAG triggered by hand, with its form."""

    dag: str
    params: tuple[tuple[str, object], ...] = ()

    def __call__(self, world: World) -> None:
        world.seen.append(world.chain.by_hand(self.dag, **dict(self.params)))


@dataclass(frozen=True)
class ByWindow:
    """A DAG triggered by hand over `count` past time buckets, the last of them `back` ago."""

    dag: str
    back: int
    count: int
    params: tuple[tuple[str, object], ...] = ()

    def __call__(self, world: World) -> None:
        now_ms = round(world.now.timestamp() * 1000)
        end = now_ms - now_ms % world.bucket_ms - self.back * world.bucket_ms
        start = end - self.count * world.bucket_ms
        window = {"window_start": iso(start), "window_end": iso(end)}
        named = {name: list(v) if isinstance(v, tuple) else v for name, v in self.params}
        world.seen.append(world.chain.by_hand(self.dag, **window, **named))


@dataclass(frozen=True)
class BySlices:
    """A run by hand, in ranges of slices, of the projections that can be cut so."""

    ranges: int

    def __call__(self, world: World) -> None:
        names = tuple(model.name for model in world.models if not model.is_by_bucket)
        if names:
            for part in keys.slice_ranges(self.ranges):
                slices = ("slices", f"{part.first}-{part.last}")
                params = (slices, ("projections", names))
                ByWindow("project", back=0, count=1, params=params)(world)


@dataclass(frozen=True)
class Redefine:
    """A raised version of every projection."""

    def __call__(self, world: World) -> None:
        world.version += 1
        for model in world.models:
            model.write(world.journal, world.directory / "projections", world.version)


@dataclass(frozen=True)
class Lose:
    """A next event that no read returns: damage until `Appear`, and `Mend` if it is tagged."""

    persistence_id: str
    tags: tuple[str, ...] = ("red",)

    def __call__(self, world: World) -> None:
        pid = self.persistence_id
        if pid in world.actors.down or world.truth.last(pid) == 0:
            return
        event = world.event(pid, self.tags, timedelta(0), "lost", 1)
        world.truth.add(event)
        world.truth.lost.add((pid, event.sequence_nr))
        world.damaged.add(pid)


@dataclass(frozen=True)
class Poison:
    """A next event that nobody can read: a finding of validate until `Settle`."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        pid = self.persistence_id
        if pid in world.actors.down | world.actors.forgotten:
            return
        event = world.event(pid, (), timedelta(0), "poison", 1)
        world.actors.persist([replace(event, is_poison=True)])
        world.poisoned.add((pid, event.sequence_nr))


@dataclass(frozen=True)
class Settle:
    """A settlement, by an operator, of every event that validate says nobody can read."""

    def __call__(self, world: World) -> None:
        accused = {
            (row["persistence_id"], row["number"])
            for row in world.journal.own_rows("finding")
            if row["check_name"] == UNWRITABLE_EVENT.name and row["state"] == "open"
        }
        for pid, number in sorted((world.poisoned & accused) - world.truth.gone):
            event = (
                ("persistence_ids", [pid]),
                ("check", UNWRITABLE_EVENT.name),
                ("number", number),
            )
            how = (("operation", "settle"), ("reason", "poison"), ("dry_run", False))
            ByHand("reconcile", (*how, *event))(world)
            world.poisoned.discard((pid, number))
        world.poisoned -= world.truth.gone


@dataclass(frozen=True)
class Appear:
    """The return of the lost events of a persistence id."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        world.actors.find(self.persistence_id)


@dataclass(frozen=True)
class Mend:
    """A `reconcile repair` of everything by an operator, which numbers the events that appeared."""

    def __call__(self, world: World) -> None:
        ByHand("reconcile", (("operation", "repair"), ("all", True), ("dry_run", False)))(world)
        is_still_lost = {pid for pid, _ in world.truth.lost}
        for pid in world.damaged - is_still_lost:
            for key in [key for key in world.truth.tagged if key[0] == pid]:
                del world.truth.tagged[key]
            world.damaged.discard(pid)


@dataclass(frozen=True)
class Cleanup:
    """A final deletion of an actor by Pekko's Cleanup (neverUsePersistenceIdAgain)."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        pid = self.persistence_id
        last = world.truth.last(pid)
        if pid not in world.actors.down and last and world.consumed(pid) == last:
            world.actors.forget(pid)


@dataclass(frozen=True)
class Rebucket:
    """A copy of the tag views into another bucket size, for which the actors stop."""

    to: str

    def __call__(self, world: World) -> None:
        world.advance(timedelta(minutes=1))
        for pid in sorted(world.truth.events):
            world.actors.save(pid)
        how = (("operation", "rebucket"), ("to", self.to), ("dry_run", False))
        ByHand("reconcile", how)(world)
        world.switch(self.to)


@dataclass(frozen=True)
class Begin:
    """The set-up of the chain: a backfill of the day before, in which lagging clocks write."""

    def __call__(self, world: World) -> None:
        world.advance(A_START)
        for dag in ("tag_write", "validate", "project"):
            ByWindow(dag, back=0, count=DAY // world.bucket_ms)(world)


@dataclass(frozen=True)
class Accept:
    """An operator's order to make the frozen buckets of the events that are left of them."""

    def __call__(self, world: World) -> None:
        for model in world.models:
            if model.is_by_bucket:
                events = defaultdict(list)
                for event in world.consumed_by(model):
                    events[event.time_bucket(world.bucket_ms)].append(event)
                left = {bucket: world.left_of(model, own) for bucket, own in events.items()}
                world.remade[model.name] = {
                    bucket: own for bucket, own in left.items() if len(own) < len(events[bucket])
                }
        back = (round(world.now.timestamp() * 1000) - world.last_end) // world.bucket_ms
        ByWindow("project", back, count=1, params=(("accept_purged", True),))(world)
        world.frozen.clear()


def iso(ms: int) -> str:
    """Return epoch milliseconds as the form takes them."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


History = tuple[Step, ...]
