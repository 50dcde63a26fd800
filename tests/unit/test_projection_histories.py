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

from tests.unit.acceptance_model import Series, reached, seen
from tests.unit.projection_worlds import RUNS, Event, Job, Judged, World
from tidemark.journal.series import NO_TAG
from tidemark.ledger.pieces import State
from tidemark.partitioning.keys import slice_of
from tidemark.projection.acceptance import rule
from tidemark.projection.acceptance.rule import Validation
from tidemark.spark.local_rows import local_rows

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
    """Run each world once; two Spark jobs for all worlds decide which events may be consumed."""
    jobs = [(world, job) for world in worlds for job in world.begin(run)]
    rows = [(world, job, event) for world, job in jobs for event in job.rows]
    if not rows:
        return
    events = local_rows(
        spark, [_row(job, event, number) for number, (_, job, event) in enumerate(rows)], SEEN
    ).localCheckpoint()
    offsets = [
        (pid, NO_TAG, number, number) for world in worlds for pid, number in world.offsets.items()
    ]
    stored = local_rows(spark, offsets, STORED)
    deleted = local_rows(spark, [], DELETED)
    frontiers = rule.advance_frontiers(events, stored, deleted).localCheckpoint()
    judged = rule.validate_events(events.where("is_there"), frontiers, events.is_back)
    by_job: dict[int, list[Judged]] = defaultdict(list)
    for row in judged.select("row", "result").collect():
        _, job, event = rows[row.row]
        by_job[id(job)].append((event, Validation(row.result)))
    moved = {row.persistence_id: row.sequence_nr for row in rule.offset_rows(frontiers).collect()}
    for world in worlds:
        world.finish([by_job[id(job)] for job in world.jobs], moved)


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
        assert state is State.DONE or (bucket in behind and state is State.HELD), world
