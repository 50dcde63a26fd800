"""A projection over several runs, one event after the other, with crashes between any two writes.

No code is shared with the product: the model has slices, acceptance and records of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from random import Random
from typing import NamedTuple

from tests.java_hash import java_hash
from tests.unit.project import acceptance_model
from tests.unit.project.acceptance_model import (
    ACCEPTED,
    REJECTED,
    REJECTED_BACKTRACKING,
    Seen,
    Series,
)

RUNS = 6
SLICES, BLOCK = 1024, 32
"""Ranges of slices consist of whole blocks."""
ORDER = ("result", "offsets", "cursors", "ledger")
"""The writes of a batch, in an order in which a crash loses no event."""
PLANNED, RUNNING, HELD, DONE = "planned", "running", "held", "done"
_CRASHES = 0.6
_LAST_BOUNDARY = 12


def slice_of(persistence_id: str) -> int:
    """Return the slice of a persistence id."""
    return abs(java_hash(persistence_id)) % SLICES


@dataclass(frozen=True)
class Event:
    """A row of the journal; `seen_by` is the number of the first run that can see the row."""

    persistence_id: str
    number: int
    bucket: int
    seen_by: int


class Entry(NamedTuple):
    """A row of the ledger."""

    state: str
    attempt: int


class Crash(Exception):
    """The end of a run between two writes."""


@dataclass(frozen=True)
class Job:
    """Work that a run does at once, and which of its events may be consumed.

    Attributes:
        slices: the slices, all others are left alone.
        planned: the time buckets to do.
        done: the time buckets that are done in these slices.
        events: the events of these slices.
        offsets: the offsets before the run.
    """

    slices: range
    planned: frozenset[int]
    done: frozenset[int]
    events: tuple[Event, ...]
    offsets: dict[str, int]

    def is_there(self, event: Event) -> bool:
        """Return whether the event may be consumed."""
        return event.bucket in self.planned | self.done

    @cached_property
    def series(self) -> dict[str, Series]:
        """The events that are seen of each persistence id."""
        seen: dict[str, list[Seen]] = defaultdict(list)
        for event in self.events:
            back = event.bucket in self.done
            seen[event.persistence_id].append(Seen(event.number, self.is_there(event), back=back))
        return {
            persistence_id: Series(self.offsets.get(persistence_id), 0, tuple(events))
            for persistence_id, events in seen.items()
        }

    @cached_property
    def judged(self) -> list[tuple[Event, str]]:
        """Each event that may be consumed, with its result."""
        results = {pid: iter(acceptance_model.judge(one)) for pid, one in self.series.items()}
        there = [event for event in self.events if self.is_there(event)]
        return [(event, next(results[event.persistence_id])) for event in there]

    @cached_property
    def moved(self) -> dict[str, int]:
        """The offsets that move forward."""
        reached = {pid: acceptance_model.reached(one) for pid, one in self.series.items()}
        return {pid: number for pid, number in reached.items() if number > self.offsets.get(pid, 0)}


@dataclass
class World:
    """A journal and a projection on it, with the stored rows that survive every crash.

    Attributes:
        events: the rows of the journal.
        ready_by: the run by which validate has passed each time bucket.
        is_sliced: whether runs are cut by slices; then there is no result by time bucket.
        random: the source of ranges and crashes.
        states: the result of mode fold: the folded numbers by persistence id.
        rows: the result of mode append.
        buckets: the result of mode bucket.
        offsets: the rows of projection_offset.
        cursors: the rows of projection_cursor; times are time buckets here.
        entries: the rows of the ledger, by time bucket.
        records: the rows of projection_slices: state and attempt by time bucket and slices.
        ranges: the slices of the present run, as it cuts them.
        jobs: the jobs of the present run.
        fuse: the number of writes left before the run crashes; negative if it does not crash.
        crashes: the number of crashes so far.
    """

    events: Sequence[Event]
    ready_by: Sequence[int]
    is_sliced: bool
    random: Random
    states: dict[str, list[int]] = field(default_factory=dict)
    rows: set[tuple[str, int]] = field(default_factory=set)
    buckets: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    cursors: dict[int, int] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    records: dict[tuple[int, range], Entry] = field(default_factory=dict)
    ranges: list[range] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    fuse: int = -1
    crashes: int = 0

    @classmethod
    def make(cls, name: str, random: Random) -> World:
        """Make a world with late, doubled, skewed and lost events of a few persistence ids."""
        is_sliced, events = random.random() < 0.7, list[Event]()
        for number in range(random.randint(1, 4)):
            pid = f"{name}|{number}"
            skew, bucket = random.choice([0, 0, 1, 3]), 0.0
            for sequence_nr in range(1, random.randint(2, 9)):
                bucket = min(bucket + random.choice([0, 0.5, 1]), RUNS - 1)
                place = min(max(int(bucket) + random.randint(-skew, skew), 0), RUNS - 1)
                late = random.choice([0, 0, 0, 1, 3])
                if random.random() > 0.03:
                    events.append(Event(pid, sequence_nr, place, min(place + late, RUNS)))
                if random.random() < 0.2:
                    again = random.randint(0, RUNS - 1) if is_sliced else place
                    events.append(Event(pid, sequence_nr, again, random.randint(again, RUNS)))
        ready_by = [random.choice([run, run, random.randint(run, RUNS)]) for run in range(RUNS)]
        return cls(events, [*ready_by, RUNS], is_sliced, random)

    def seen(self, run: int) -> list[Event]:
        """Return the events that are written and validated by the time of a run."""
        return [
            event for event in self.events if event.seen_by <= run >= self.ready_by[event.bucket]
        ]

    def begin(self, run: int) -> None:
        """Plan a run and cut it into jobs; a fuse may end the run between any two writes."""
        ends = run < RUNS and self.random.random() < _CRASHES
        self.fuse = self.random.randint(0, _LAST_BOUNDARY) if ends else -1
        buckets = [
            bucket
            for bucket in range(min(run, RUNS) + 1)
            if self.ready_by[bucket] <= run and not self._is_done(bucket)
        ]
        for bucket in buckets:
            if not (self.is_sliced and self.is_open(bucket)):
                self._start(bucket)
        visible = [event for event in self.events if event.seen_by <= run]
        done = {bucket for bucket in self.entries if self._is_done(bucket)}
        done_slices = {bucket: self.done_slices(bucket) for bucket in self.entries}
        self.jobs = [
            Job(
                slices,
                planned,
                frozenset(done | {b for b, part in done_slices.items() if part.issuperset(slices)}),
                tuple(event for event in visible if slice_of(event.persistence_id) in slices),
                dict(self.offsets),
            )
            for slices, planned in self._portions(run, buckets)
        ]

    def is_open(self, bucket: int) -> bool:
        """Return whether parts of a time bucket can be done."""
        return bucket in self.entries and not self._is_done(bucket)

    def done_slices(self, bucket: int) -> set[int]:
        """Return the slices of an open time bucket that are done."""
        return self._slices_of(bucket, DONE)

    def _slices_of(self, bucket: int, state: str) -> set[int]:
        if not self.is_open(bucket):
            return set()
        counting = Entry(state, self.entries[bucket].attempt)
        ranges = [
            slices
            for (at, slices), record in self.records.items()
            if (at, record) == (bucket, counting)
        ]
        return {number for slices in ranges for number in slices}

    def _is_done(self, bucket: int) -> bool:
        return bucket in self.entries and self.entries[bucket].state == DONE

    def _start(self, bucket: int) -> None:
        attempt = self.entries[bucket].attempt if bucket in self.entries else 0
        self.entries[bucket] = Entry(RUNNING, attempt + 1)

    def _portions(self, run: int, buckets: list[int]) -> list[tuple[range, frozenset[int]]]:
        """Cut the slices, or perhaps only some of them, anew in each run."""
        if not self.is_sliced:
            return [(range(SLICES), frozenset(buckets))] if buckets else []
        first, last = 0, SLICES // BLOCK
        if run < RUNS and self.random.random() < 0.4:
            first = self.random.randint(0, last - 1)
            last = self.random.randint(first + 1, last)
        cuts = {self.random.randint(first, last) for _ in range(self.random.randint(0, 7))}
        self.ranges = [
            range(start * BLOCK, end * BLOCK)
            for start, end in pairwise(sorted({first, last, *cuts}))
        ]
        done = {bucket: self.done_slices(bucket) for bucket in buckets}
        portions = []
        for slices in self.ranges:
            # All cuts were between blocks, so a block is done as a whole.
            blocks = range(slices.start, slices.stop, BLOCK)
            left = {
                first: frozenset(b for b in buckets if first not in done[b]) for first in blocks
            }
            for planned, same in groupby(blocks, left.__getitem__):
                own = [*same]
                if planned:
                    portions.append((range(own[0], own[-1] + BLOCK), planned))
        return portions

    def finish(self) -> bool:
        """Write what comes of each job, up to the crash; return whether the run ends as it should.

        A run that fails settles what it has done, and one that is killed does not.
        """
        if not self.jobs:
            return False
        with suppress(Crash):
            for job in self.jobs:
                self._write(job)
            self.fuse = -1
        self.crashes += self.fuse == 0
        is_killed = self.fuse == 0 and self.random.random() < 0.5
        return self.is_sliced and not is_killed

    def settle(self) -> None:
        """Write to the ledger how time buckets stand whose slices are done one by one."""
        for bucket, entry in list(self.entries.items()):
            if self.is_open(bucket):
                done = self.done_slices(bucket)
                state = HELD if self._slices_of(bucket, HELD) - done else PLANNED
                if len(done) == SLICES:
                    self.entries[bucket] = Entry(DONE, entry.attempt + 1)
                else:
                    self.entries[bucket] = Entry(state, entry.attempt)

    def _boundary(self) -> None:
        if self.fuse == 0:
            raise Crash
        self.fuse -= 1

    def _write(self, job: Job) -> None:
        rejections = (REJECTED, REJECTED_BACKTRACKING)
        late = {event.bucket for event, result in job.judged if result == ACCEPTED} - job.planned
        if not self.is_sliced:
            for bucket in late:
                self._start(bucket)
        processed = sorted(job.planned | late)
        inside = [(event, result) for event, result in job.judged if event.bucket in processed]
        kept = [event for event, result in inside if result not in rejections]
        held = {event.bucket for event, result in inside if result in rejections}
        write = {
            "result": lambda: self._write_result(kept, processed),
            "offsets": lambda: self._write_offsets(job),
            "cursors": lambda: self._write_cursors(kept),
            "ledger": lambda: self._write_ledger(job.slices, processed, held),
        }
        for name in ORDER:
            write[name]()

    def _write_result(self, kept: Sequence[Event], processed: Iterable[int]) -> None:
        for persistence_id in sorted({event.persistence_id for event in kept}):
            numbers = {event.number for event in kept if event.persistence_id == persistence_id}
            self._boundary()
            before = self.states.get(persistence_id, [])
            more = sorted(number for number in numbers if number > len(before))
            self.states[persistence_id] = [*before, *more]
            self._boundary()
            self.rows |= {(persistence_id, number) for number in numbers}
        for bucket in [] if self.is_sliced else processed:
            self._boundary()
            inside = [(row.persistence_id, row.number) for row in kept if row.bucket == bucket]
            self.buckets[bucket] = frozenset(inside)

    def _write_offsets(self, job: Job) -> None:
        for persistence_id, number in sorted(job.moved.items()):
            self._boundary()
            assert number > self.offsets.get(persistence_id, 0)
            self.offsets[persistence_id] = number

    def _write_cursors(self, kept: Sequence[Event]) -> None:
        self._boundary()
        for event in kept:
            place = slice_of(event.persistence_id)
            self.cursors[place] = max(self.cursors.get(place, 0), event.bucket)

    def _write_ledger(self, slices: range, processed: Iterable[int], held: set[int]) -> None:
        for bucket in processed:
            self._boundary()
            ended = self.entries[bucket]._replace(state=HELD if bucket in held else DONE)
            if not self.is_sliced:
                self.entries[bucket] = ended
            elif self.is_open(bucket):
                self.records[bucket, slices] = ended
