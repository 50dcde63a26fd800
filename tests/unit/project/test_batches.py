"""Batches of a backlog: their bounds, and the equality of many batches and one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tidemark.ledger.piece import Piece, Reason
from tidemark.partitioning.slice_ranges import Slicing
from tidemark.project.planning.batch import Batch
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.running.batches import BatchBounds

Events = dict[int, int]
"""Time bucket by sequence nr, of a series."""


def batch_of(planned: Iterable[int], done: Iterable[int] = (), held: Iterable[int] = ()) -> Batch:
    definition = cast("Any", SimpleNamespace(name="totals"))
    pieces = [Piece(bucket, Reason.NEW) for bucket in sorted(planned)]
    return Batch.whole(
        ProjectionPlan(
            definition,
            pieces,
            frozenset(held),
            frozenset(done),
            first=0,
            truncated_from=None,
            end=100,
            slicing=Slicing(),
        )
    )


def fs(*buckets: int) -> frozenset[int]:
    return frozenset(buckets)


@given(
    rows=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    limit=st.integers(1, 60),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 200)),
)
def test_batches_hold_every_bucket_once_in_order_within_the_bounds(
    rows: list[int], limit: int, sizes: tuple[int, int]
) -> None:
    row_size, most_bytes = sizes
    bounds = BatchBounds(limit, most_bytes, dict(enumerate(rows)))
    bounds.measured(10, 10 * row_size)
    rest, batches = list(range(len(rows))), []
    while rest:
        batches.append(bounds.first(rest))
        rest = rest[len(batches[-1]) :]
    assert [bucket for batch in batches for bucket in batch] == list(range(len(rows)))
    assert bounds.batches(range(len(rows))) == len(batches)
    for batch in batches:
        expected = sum(rows[bucket] for bucket in batch)
        assert len(batch) == 1 or (expected <= limit and expected * row_size <= most_bytes)


def test_larger_events_than_before_make_the_next_batches_smaller() -> None:
    bounds = BatchBounds(1000, 1000, dict.fromkeys(range(10), 10))
    assert len(bounds.first(range(10))) == 10
    bounds.measured(10, 100)
    assert len(bounds.first(range(10))) == 10
    bounds.measured(10, 500)
    assert len(bounds.first(range(10))) == 2
    bounds.measured(10, 10)
    bounds.measured(0, 0)
    assert len(bounds.first(range(10))) == 2


def test_buckets_of_later_batches_are_not_there_even_if_they_were_done() -> None:
    run = batch_of([1, 2, 3, 4], done=[0, 2, 4, 9], held=[3])
    first = run.part([1], [2, 4], (), 2)
    assert (first.time_buckets, first.done, first.end) == ([1], fs(0, 9), 2)
    second = run.part([2], [4], {1}, 3)
    assert (second.time_buckets, second.done, second.unsettled) == ([2], fs(0, 1, 2, 9), fs(1))
    last = run.part([4], [], {1}, None)
    assert (last.time_buckets, last.done, last.end) == ([4], fs(0, 1, 2, 4, 9), None)


def accepted(events: Events, run: Batch, batches: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Return the events of each time bucket in the end, event by event, batch by batch."""
    frontier, made, unsettled = 0, dict[int, set[int]](), set[int]()
    for number, taken in enumerate(batches):
        rest = [bucket for batch in batches[number + 1 :] for bucket in batch]
        plan = run.part(taken, rest, unsettled, None)
        present = {nr for nr, bucket in events.items() if bucket in plan.planned | plan.done}
        before = frontier
        while frontier + 1 in present:
            frontier += 1
        late = {events[nr] for nr in range(before + 1, frontier + 1)} - plan.planned
        for bucket in plan.planned | late:
            inside = {nr for nr, place in events.items() if place == bucket}
            made[bucket] = {nr for nr in inside if nr <= frontier}
            (unsettled.discard if made[bucket] == inside else unsettled.add)(bucket)
    return made


@given(places=st.lists(st.integers(0, 6), max_size=12), cuts=st.sets(st.integers(1, 6)))
def test_batches_make_of_skewed_clocks_what_one_batch_makes(
    places: list[int], cuts: set[int]
) -> None:
    """A series has events in any bucket; bucket 6 is not planned, so later events are held."""
    events = dict(enumerate(places, start=1))
    run = batch_of(range(6))
    borders = [0, *sorted(cuts - {6}), 6]
    batches = [list(range(*pair)) for pair in pairwise(borders)]
    assert accepted(events, run, batches) == accepted(events, run, [list(range(6))])
