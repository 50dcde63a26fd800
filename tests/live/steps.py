"""The steps of a history. Each prints as the Python that makes it, so that one can be cut down."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tests.live.world import A_START, World, die
from tidemark.partitioning import keys

APPLICATIONS = ("tag_write", "validate", "project", "purge")
DAY = 86_400_000


class Step(Protocol):
    """Something that happens."""

    def __call__(self, world: World) -> None: ...


@dataclass(frozen=True)
class Persist:
    """An actor persists `count` events at once; its clock is `skew` seconds ahead.

    With `crash` it dies before it has tagged them, with `lag` its progress is not written yet.
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
    """An actor that is down starts again."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        if self.persistence_id in world.actors.down:
            world.actors.recover(self.persistence_id)


@dataclass(frozen=True)
class Delete:
    """An actor has taken a snapshot, and deletes all but its last `keep` messages.

    With `consumed` it keeps besides what the chain has not tagged and projected yet.
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
    """Time passes."""

    seconds: float

    def __call__(self, world: World) -> None:
        world.advance(timedelta(seconds=self.seconds))


@dataclass(frozen=True)
class Run:
    """The next scheduled interval ends, and its chain runs, as far as `until`."""

    until: str = "purge"

    def __call__(self, world: World) -> None:
        world.scheduled(self.until)


@dataclass(frozen=True)
class Miss:
    """The next scheduled interval ends, and Airflow is down until shortly before the one after."""

    def __call__(self, world: World) -> None:
        world.missed()


@dataclass(frozen=True)
class Within:
    """In the next run of `application`, after so many of its reads and writes, `step` happens."""

    application: str
    after: int
    step: Step

    def __call__(self, world: World) -> None:
        def act() -> None:
            self.step(world)

        world.interrupts.append((self.application, self.after, act))


@dataclass(frozen=True)
class Kill:
    """The next run of `application` is killed after so many of its reads and writes."""

    application: str
    after: int

    def __call__(self, world: World) -> None:
        world.interrupts.append((self.application, self.after, die))


@dataclass(frozen=True)
class Refused:
    """The next interval comes while somebody else holds the journal's tag views."""

    resource: str = "tag_views/{journal}"

    def __call__(self, world: World) -> None:
        if world.own_table_exists("lock"):
            with world.locked(self.resource.format(journal=world.journal.keyspace)):
                world.disturbed = True
                world.scheduled()


@dataclass(frozen=True)
class Away:
    """The next interval comes while Cassandra does not answer, for so many runs."""

    runs: int = 2

    def __call__(self, world: World) -> None:
        world.disturbed = True
        world.away = self.runs
        world.scheduled()
        world.away = 0


@dataclass(frozen=True)
class ByHand:
    """Somebody triggers a DAG with its form."""

    dag: str
    params: tuple[tuple[str, object], ...] = ()

    def __call__(self, world: World) -> None:
        world.seen.append(world.chain.by_hand(self.dag, **dict(self.params)))


@dataclass(frozen=True)
class ByWindow:
    """Somebody triggers a DAG over past time buckets: `count` of them, the last one `back` ago."""

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
    """Somebody brings the projections up to date that can be cut into slices."""

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
    """Somebody raises the version of every projection."""

    def __call__(self, world: World) -> None:
        world.version += 1
        for model in world.models:
            model.write(world.journal, world.directory / "projections", world.version)


@dataclass(frozen=True)
class Lose:
    """An actor's next event is in no read: damage, until `Appear`, and `Mend` if it is tagged."""

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
    """An actor's next event is one that nobody can read: a finding of validate, until `Settle`."""

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
    """An operator settles every event that nobody can read."""

    def __call__(self, world: World) -> None:
        for pid, number in sorted(world.poisoned - world.truth.gone):
            event = (("persistence_ids", [pid]), ("sequence_nr", number))
            how = (("operation", "settle"), ("reason", "poison"), ("dry_run", False))
            ByHand("reconcile", (*how, *event))(world)
        world.poisoned.clear()


@dataclass(frozen=True)
class Appear:
    """What was lost of a persistence id is there again."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        world.actors.find(self.persistence_id)


@dataclass(frozen=True)
class Mend:
    """An operator lets `reconcile repair` put everything right; what appeared gets its number."""

    def __call__(self, world: World) -> None:
        ByHand("reconcile", (("operation", "repair"), ("all", True), ("dry_run", False)))(world)
        is_still_lost = {pid for pid, _ in world.truth.lost}
        for pid in world.damaged - is_still_lost:
            for key in [key for key in world.truth.tagged if key[0] == pid]:
                del world.truth.tagged[key]
            world.damaged.discard(pid)


@dataclass(frozen=True)
class Cleanup:
    """Pekko's Cleanup deletes an actor for good (neverUsePersistenceIdAgain)."""

    persistence_id: str

    def __call__(self, world: World) -> None:
        pid = self.persistence_id
        last = world.truth.last(pid)
        if pid not in world.actors.down and last and world.consumed(pid) == last:
            world.actors.forget(pid)


@dataclass(frozen=True)
class Rebucket:
    """Actors stop, an operator has the tag views copied into another bucket size, all goes on."""

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
    """The chain is set up: a backfill of the day before, in which clocks that lag write."""

    def __call__(self, world: World) -> None:
        world.advance(A_START)
        for dag in ("tag_write", "validate", "project"):
            ByWindow(dag, back=0, count=DAY // world.bucket_ms)(world)


@dataclass(frozen=True)
class Accept:
    """An operator has the buckets that cannot be made again made of what is left of them."""

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
    """Epoch milliseconds as the form takes them."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


History = tuple[Step, ...]
