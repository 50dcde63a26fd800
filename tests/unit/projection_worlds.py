"""A projection over several runs in memory: its stored rows, with crashes between any two writes.

Tidemark's own functions decide here about slice ranges and their unfinished portions. The test
decides with them, in Spark and for many worlds at once, which events may be consumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tidemark.ledger.pieces import Piece, PieceRow, Reason, State
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.keys import SliceRange, slice_of
from tidemark.partitioning.slice_ranges import BLOCK, Portion
from tidemark.projection.acceptance.rule import REJECTIONS, Validation
from tidemark.projection.offset_store import slice_records
from tidemark.projection.offset_store.slice_records import Part

RUNS = 6
VERSION = "1-hash"
_CRASHES = 0.6
_LAST_BOUNDARY = 12


@dataclass(frozen=True)
class Event:
    """A row of the journal; `seen_by` is the number of the first run that can see the row."""

    persistence_id: str
    number: int
    bucket: int
    seen_by: int


Judged = tuple[Event, Validation]


class Crash(Exception):
    """The end of a run between two writes."""


@dataclass
class Job:
    """Work that a run does at once: slices with their time buckets, the done buckets, the rows."""

    portion: Portion
    done: frozenset[int]
    rows: list[Event]

    def is_there(self, event: Event) -> bool:
        """Return whether the event may be consumed."""
        return event.bucket in self.portion.time_buckets | self.done


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
        parts: the rows of projection_slices.
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
    entries: dict[int, PieceRow] = field(default_factory=dict)
    parts: dict[tuple[int, SliceRange], Part] = field(default_factory=dict)
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

    def begin(self, run: int) -> list[Job]:
        """Plan a run and cut it into jobs; a fuse may end the run between any two writes."""
        ends = run < RUNS and self.random.random() < _CRASHES
        self.fuse = self.random.randint(0, _LAST_BOUNDARY) if ends else -1
        ready = [bucket for bucket in range(min(run, RUNS) + 1) if self.ready_by[bucket] <= run]
        buckets = [one for one in ready if not self._is_done(one)]
        for bucket in buckets:
            entry = self.entries.get(bucket)
            if not (self.is_sliced and entry and slice_records.is_open(entry, VERSION)):
                self._start(bucket)
        done = frozenset(bucket for bucket in self.entries if self._is_done(bucket))
        visible = [one for one in self.events if one.seen_by <= run]
        self.jobs = [
            Job(
                one,
                done | self._finished(one.slices),
                [event for event in visible if _inside(event.persistence_id, one.slices)],
            )
            for one in self._portions(run, buckets, visible)
        ]
        return self.jobs

    def _is_done(self, bucket: int) -> bool:
        return bucket in self.entries and self.entries[bucket].is_done(VERSION)

    def _start(self, bucket: int) -> None:
        attempt = self.entries[bucket].attempt if bucket in self.entries else 0
        running = PieceRow(bucket, State.RUNNING, attempt + 1, definition_version=VERSION)
        self.entries[bucket] = running

    def _counting(self) -> dict[int, list[Part]]:
        return slice_records.counting(self.parts.values(), self.entries, VERSION)

    def _finished(self, own: SliceRange) -> frozenset[int]:
        done = slice_records.done(self._counting())
        return frozenset(
            bucket for bucket, ranges in done.items() if not slice_ranges.missing(own, ranges)
        )

    def _portions(self, run: int, buckets: list[int], visible: list[Event]) -> list[Portion]:
        """Cut the slices, or perhaps only some of them, anew in each run."""
        if not self.is_sliced:
            return [Portion(slice_ranges.ALL, frozenset(buckets))] if buckets else []
        done = slice_records.done(self._counting())
        own, counted = slice_ranges.ALL, dict[int, int]()
        if run < RUNS and self.random.random() < 0.4:
            first = self.random.randint(0, 31)
            last = self.random.randint(first, 31)
            own = SliceRange(first * BLOCK, (last + 1) * BLOCK - 1)
        for event in visible:
            place = slice_of(event.persistence_id)
            counted[place] = counted.get(place, 0) + 1
        ranges = slice_ranges.cut(counted, own, self.random.randint(1, 8))
        return slice_ranges.portions(ranges, {bucket: done.get(bucket, []) for bucket in buckets})

    def finish(self, judged: Sequence[Sequence[Judged]], moved: dict[str, int]) -> None:
        """Write the result of each job, up to the crash if the run crashes."""
        if not self.jobs:
            return
        with suppress(Crash):
            for job, rows in zip(self.jobs, judged, strict=True):
                self._write(job, rows, moved)
            self.fuse = -1
        self.crashes += self.fuse == 0
        is_killed = self.fuse == 0 and self.random.random() < 0.5
        if self.is_sliced and not is_killed:
            self._settle()

    def _boundary(self) -> None:
        if self.fuse == 0:
            raise Crash
        self.fuse -= 1

    def _write(self, job: Job, judged: Sequence[Judged], moved: dict[str, int]) -> None:
        """Write the result, then the offsets, then the cursors, then the ledger."""
        planned = job.portion.time_buckets
        late = {event.bucket for event, result in judged if result is Validation.ACCEPTED} - planned
        if not self.is_sliced:
            for bucket in late:
                self._start(bucket)
        inside = [(event, result) for event, result in judged if event.bucket in planned | late]
        kept = [event for event, result in inside if result not in REJECTIONS]
        held = {event.bucket for event, result in inside if result in REJECTIONS}
        self._write_result(kept, planned | late)
        for persistence_id in sorted({event.persistence_id for event in job.rows} & moved.keys()):
            self._boundary()
            assert moved[persistence_id] > self.offsets.get(persistence_id, 0)
            self.offsets[persistence_id] = moved[persistence_id]
        self._boundary()
        for event in kept:
            place = slice_of(event.persistence_id)
            self.cursors[place] = max(self.cursors.get(place, 0), event.bucket)
        for bucket in sorted(planned | late):
            self._boundary()
            self._end(bucket, job.portion.slices, State.HELD if bucket in held else State.DONE)

    def _write_result(self, kept: Sequence[Event], processed: Iterable[int]) -> None:
        for persistence_id in sorted({event.persistence_id for event in kept}):
            numbers = {event.number for event in kept if event.persistence_id == persistence_id}
            self._boundary()
            before = self.states.get(persistence_id, [])
            more = sorted(number for number in numbers if number > len(before))
            self.states[persistence_id] = [*before, *more]
            self._boundary()
            self.rows |= {(persistence_id, number) for number in numbers}
        for bucket in [] if self.is_sliced else sorted(processed):
            self._boundary()
            inside = [(row.persistence_id, row.number) for row in kept if row.bucket == bucket]
            self.buckets[bucket] = frozenset(inside)

    def _end(self, bucket: int, own: SliceRange, state: State) -> None:
        entry = self.entries[bucket]
        if not self.is_sliced:
            self.entries[bucket] = PieceRow(
                bucket, state, entry.attempt, definition_version=VERSION
            )
        elif slice_records.is_open(entry, VERSION):
            now = slice_records.now()
            part = Part(bucket, own, entry.attempt, VERSION, state, {}, None, now)
            self.parts[bucket, own] = part

    def _settle(self) -> None:
        counting = self._counting()
        for bucket, entry in list(self.entries.items()):
            if slice_records.is_open(entry, VERSION):
                piece = Piece(bucket, Reason.NEW, entry.attempt)
                stands = slice_records.standing(piece, counting.get(bucket, ()))
                attempt = entry.attempt + (stands.state is State.DONE)
                self.entries[bucket] = PieceRow(
                    bucket, stands.state, attempt, definition_version=VERSION
                )


def _inside(persistence_id: str, own: SliceRange) -> bool:
    return own.first <= slice_of(persistence_id) <= own.last
