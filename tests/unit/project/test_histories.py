"""Random histories over several runs, against a reader that takes one event after the other.

Events are late, doubled, skewed and lost; slices are cut anew in each run; runs crash between any
two writes. A run of many worlds side by side is one Spark job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.unit.project.acceptance_model import Series, reached, seen
from tests.unit.project.projection_model import DONE, HELD, RUNS, Event, Job, World, slice_of
from tidemark.journals.pekko.series import NO_TAG
from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import Portion
from tidemark.project.acceptance import rule
from tidemark.project.offset_store import slice_records
from tidemark.project.offset_store.slice_records import SlicePart
from tidemark.spark.local_rows import local_rows

VERSION = "1-hash"
WORLDS = 300
SEEDS = 20
"""Seeds of the soak: 6,000 worlds, of up to 8 runs each."""
SEEN = (
    "persistence_id string, tag string, number bigint, sequence_nr bigint, event_timeuuid string,"
    " is_there boolean, is_before boolean, is_back boolean, time_bucket bigint, row int"
)
STORED = "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint"
DELETED = "persistence_id string, deleted_to bigint"


@pytest.mark.parametrize(
    "seed", [pytest.param(one, marks=[pytest.mark.soak] if one else []) for one in range(SEEDS)]
)
def test_random_histories_end_as_one_event_after_the_other(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    worlds = [World.make(f"w{number}", random) for number in range(WORLDS)]
    for run in range(RUNS):
        run_all(spark, worlds, run)
        for world in worlds:
            assert_nothing_is_lost_doubled_or_early(world, run)
    # By this run all is written and validated, and runs do not crash any more.
    run_all(spark, worlds, RUNS)
    run_all(spark, worlds, RUNS + 1)
    for world in worlds:
        assert_all_is_there(world)
    # Enough runs crashed, and enough worlds are sliced, for the test to mean something.
    assert sum(world.crashes for world in worlds) > WORLDS
    assert sum(world.is_sliced for world in worlds) > WORLDS / 2


def run_all(spark: SparkSession, worlds: Sequence[World], run: int) -> None:
    """Run each world once, and compare each decision with Tidemark's.

    Two Spark jobs for all worlds decide which events may be consumed.
    """
    for world in worlds:
        world.begin(run)
        if world.is_sliced:
            assert_same_portions(world)
    assert_same_acceptance(spark, worlds)
    for world in worlds:
        if world.finish():
            states = standing(world)
            world.settle()
            assert states == {bucket: world.entries[bucket].state for bucket in states}, world


def assert_same_portions(world: World) -> None:
    """Check the slices of time buckets that are left to do, and those that are done."""
    done = slice_records.done(counting(world))
    for job in world.jobs:
        own = _slices(job.slices)
        for bucket in filter(world.is_open, world.entries):
            is_done = not slice_ranges.missing(own, done.get(bucket, []))
            assert is_done == (bucket in job.done), world
    planned = {bucket for job in world.jobs for bucket in job.planned}
    portions = slice_ranges.portions(
        map(_slices, world.ranges), {bucket: done.get(bucket, []) for bucket in planned}
    )
    assert portions == [Portion(_slices(job.slices), job.planned) for job in world.jobs], world


def counting(world: World) -> dict[int, list[SlicePart]]:
    """Return the parts that Tidemark counts of the model's records, by time bucket."""
    entries = {
        bucket: PieceRow(bucket, State(entry.state), entry.attempt, definition_version=VERSION)
        for bucket, entry in world.entries.items()
    }
    now = slice_records.now()
    parts = [
        SlicePart(
            bucket, _slices(slices), record.attempt, VERSION, State(record.state), {}, None, now
        )
        for (bucket, slices), record in world.records.items()
    ]
    return slice_records.counting(parts, entries, VERSION)


def standing(world: World) -> dict[int, str]:
    """Return the states that Tidemark gives to the open time buckets."""
    parts = counting(world)
    return {
        bucket: slice_records.rolled_up_state(
            Piece(bucket, Reason.NEW, world.entries[bucket].attempt), parts.get(bucket, ())
        ).state
        for bucket in filter(world.is_open, world.entries)
    }


def _slices(slices: range) -> SliceRange:
    return SliceRange(slices.start, slices.stop - 1)


def assert_same_acceptance(spark: SparkSession, worlds: Sequence[World]) -> None:
    """Check the result of each event, and the offsets that move."""
    jobs = [job for world in worlds for job in world.jobs]
    rows = [(job, event) for job in jobs for event in job.events]
    if not rows:
        return
    events = local_rows(
        spark, [_row(job, event, number) for number, (job, event) in enumerate(rows)], SEEN
    ).localCheckpoint()
    offsets = [
        (pid, NO_TAG, number, number) for world in worlds for pid, number in world.offsets.items()
    ]
    stored = local_rows(spark, offsets, STORED)
    deleted = local_rows(spark, [], DELETED)
    frontiers = rule.advance_frontiers(events, stored, deleted).localCheckpoint()
    judged = rule.validate_events(events.where("is_there"), frontiers, events.is_back)
    results = [(rows[row.row][1], row.result) for row in judged.orderBy("row").collect()]
    assert results == [fact for job in jobs for fact in job.judged]
    moved = {
        row.persistence_id: (row.slice, row.sequence_nr)
        for row in rule.offset_rows(frontiers).collect()
    }
    assert moved == {
        pid: (slice_of(pid), number) for job in jobs for pid, number in job.moved.items()
    }


def _row(job: Job, event: Event, number: int) -> tuple[object, ...]:
    nr, bucket = event.number, event.bucket
    is_there, back = job.is_there(event), bucket in job.done
    return event.persistence_id, NO_TAG, nr, nr, f"t-{nr}", is_there, False, back, bucket, number


def sequential(events: Iterable[Event]) -> dict[str, int]:
    """Return how far a reader of one event after the other comes, by persistence id."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for event in events:
        numbers[event.persistence_id].add(event.number)
    return {pid: reached(Series(None, 0, seen(of_id))) for pid, of_id in numbers.items()}


def assert_nothing_is_lost_doubled_or_early(world: World, run: int) -> None:
    """Check all that was stored when a run ended or crashed."""
    model = sequential(world.seen(run))
    for pid, state in world.states.items():
        assert state == list(range(1, len(state) + 1)), world
        assert len(state) <= model.get(pid, 0), world
        assert world.offsets.get(pid, 0) <= len(state), world
    for pid, number in world.offsets.items():
        assert {(pid, seq_nr) for seq_nr in range(1, number + 1)} <= world.rows, world
    assert all(number <= model.get(pid, 0) for pid, number in world.rows), world


def assert_all_is_there(world: World) -> None:
    """Check the results of every mode, the offsets, the cursors and the ledger."""
    model = {pid: end for pid, end in sequential(world.events).items() if end}
    taken = [event for event in world.events if event.number <= model.get(event.persistence_id, 0)]
    assert {pid: len(state) for pid, state in world.states.items()} == model, world
    assert world.offsets == model, world
    assert world.rows == {(event.persistence_id, event.number) for event in taken}, world
    newest: dict[int, int] = {}
    by_bucket: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for event in taken:
        place = slice_of(event.persistence_id)
        newest[place] = max(newest.get(place, 0), event.bucket)
        by_bucket[event.bucket].add((event.persistence_id, event.number))
    # A range that dies before its cursors does not open the bucket of a late event again, as the
    # event's result and offset are stored. Only the lag is then shown from an older event.
    assert all(at <= newest[place] for place, at in world.cursors.items()), world
    if not world.is_sliced:
        assert world.cursors == newest, world
        assert {bucket: set(rows) for bucket, rows in world.buckets.items() if rows} == by_bucket
    behind = {event.bucket for event in world.events if event not in taken}
    states = {bucket: entry.state for bucket, entry in world.entries.items()}
    assert set(states) == set(range(RUNS + 1))
    for bucket, state in states.items():
        # A late event behind a gap does not open a done bucket.
        assert state == DONE or (bucket in behind and state == HELD), world
