"""Which events and snapshots go: the rules against loops, on random histories."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.purge.messages import rules
from tidemark.purge.needs.events import TAG_WRITE
from tidemark.purge.snapshots.rules import kept
from tidemark.spark.local_rows import local_rows

EXAMPLES = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SNAPSHOT = "persistence_id string, snapshot_nr bigint, epoch_ms bigint"
NEEDS = "persistence_id string, needed_from bigint, reader string"
PIDS = st.sampled_from(["a|1", "a|2", "ü|✓"])

CLEANUP_SPEC = {
    # name: (times by sequence nr, keep, keep after, sequence nrs that stay)
    "keep the correct number of snapshots": ({1: 1000, 2: 2000, 3: 3000}, 2, None, {2, 3}),
    "keep all snapshots if fewer than requested without timestamp": (
        {1: 1000, 2: 2000, 3: 3000},
        4,
        None,
        {1, 2, 3},
    ),
    "keep all snapshots if fewer than requested with timestamp": (
        {1: 1000, 2: 2000, 3: 3000},
        4,
        1500,
        {1, 2, 3},
    ),
    "work without timestamp when there are no snapshots": ({}, 2, None, set()),
    "work with timestamp when there are no snapshots": ({}, 2, 100, set()),
    "don't delete snapshots newer than the oldest date": (
        {1: 1000, 2: 2000, 3: 3000, 4: 4000},
        2,
        1500,
        {2, 3, 4},
    ),
    "keep snapshots older than the oldest date to meet snapshotsToKeep": (
        {1: 1000, 2: 2000, 3: 3000, 4: 4000},
        2,
        5000,
        {3, 4},
    ),
    "a date itself is not after it": ({1: 1000, 2: 2000, 3: 3000}, 1, 2000, {3}),
}


@pytest.mark.parametrize("name", CLEANUP_SPEC)
def test_cleanup_spec_of_snapshots(spark: SparkSession, name: str) -> None:
    taken, keep, keep_after, stay = CLEANUP_SPEC[name]
    rows = [("p", number, moment) for number, moment in taken.items()]
    needs = local_rows(spark, [], NEEDS)
    rows_of = local_rows(spark, rows, SNAPSHOT)
    [*found] = kept(rows_of, needs, keep=keep, keep_after=keep_after).collect()
    if not taken:
        assert found == []
        return
    assert [(row.first_kept, row.newest, row.snapshots) for row in found] == [
        (min(stay), max(taken), len(taken) - len(stay))
    ]


@EXAMPLES
@given(
    taken=st.dictionaries(st.tuples(PIDS, st.integers(1, 12)), st.integers(0, 9), max_size=20),
    keep=st.integers(1, 4),
    keep_after=st.none() | st.integers(0, 9),
    needed=st.dictionaries(PIDS, st.integers(1, 12), max_size=2),
)
def test_a_snapshot_goes_only_if_it_is_beyond_n_and_older_than_the_date(
    spark: SparkSession,
    partitions: None,
    taken: dict[tuple[str, int], int],
    keep: int,
    keep_after: int | None,
    needed: dict[str, int],
) -> None:
    by_id: dict[str, list[int]] = defaultdict(list)
    for pid, number in taken:
        by_id[pid].append(number)
    expected = set()
    for pid, numbers in by_id.items():
        numbers.sort()
        stay = [
            number
            for place, number in enumerate(reversed(numbers))
            if place < keep
            or (keep_after is not None and taken[pid, number] > keep_after)
            or number >= needed.get(pid, 13)
        ]
        before = sum(number < min(stay) for number in numbers)
        expected.add((pid, min(stay), numbers[-1], before))
    rows = local_rows(spark, [(*key, moment) for key, moment in taken.items()], SNAPSHOT)
    needs = local_rows(spark, [(*need, "reader") for need in needed.items()], NEEDS)
    found = kept(rows, needs, keep=keep, keep_after=keep_after)
    assert {tuple(row) for row in found.collect()} == expected


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int, str]]:
    """Draw events (id, partition, sequence nr, tags) as Pekko lays them: a group in one partition.

    A group lies in the partition of its last event; the first events may be gone.
    """
    rows = []
    for pid in draw(st.sets(PIDS)):
        number, partition = draw(st.integers(0, 9)), 0
        for group in draw(st.lists(st.integers(1, 4), max_size=6)):
            partition = (number + group - 1) // 4
            for nr in range(number + 1, number + group + 1):
                tags = draw(st.sampled_from(["", "red", "red,blue", "blue"]))
                rows.append((pid, partition, nr, tags))
            number += group
    return rows


EVENT = "persistence_id string, partition_nr bigint, sequence_nr bigint, tags string"
LIMIT = "persistence_id string, to bigint"
HELD = "persistence_id string, held_from bigint, reader string"
PROGRESS = "persistence_id string, tag string, progress_sequence_nr bigint, progress_number bigint"


def test_deletes_hit_exactly_what_goes_and_nothing_that_may_still_come(
    spark: SparkSession, partitions: None
) -> None:
    @EXAMPLES
    @given(rows=histories(), limits=st.dictionaries(PIDS, st.integers(0, 25)))
    def check(rows: list[tuple[str, int, int, str]], limits: dict[str, int]) -> None:
        events = local_rows(spark, rows, EVENT).withColumn("tags", F.split("tags", ","))
        made = rules.deletes(events, local_rows(spark, list(limits.items()), LIMIT)).collect()
        hit = set()
        for delete in made:
            inside = [
                (pid, nr)
                for pid, partition, nr, _ in rows
                if (pid, partition) == (delete.persistence_id, delete.partition_nr)
            ]
            last = max(partition for pid, partition, *_ in rows if pid == delete.persistence_id)
            # An event that comes now comes to the last partition or to a later one.
            assert not delete.is_whole or delete.partition_nr < last
            hits = {key for key in inside if delete.is_whole or key[1] <= delete.to}
            assert len(hits) == delete.events > 0
            may_be_whole = len(hits) == len(inside) and delete.partition_nr < last
            assert delete.is_whole == may_be_whole
            hit |= hits
        assert hit == {(pid, nr) for pid, _, nr, _ in rows if nr <= limits.get(pid, 0)}

    check()


def test_nothing_goes_that_a_reader_needs_or_that_follows_it(spark: SparkSession) -> None:
    @EXAMPLES
    @given(
        limits=st.dictionaries(PIDS, st.integers(0, 9)),
        held=st.lists(st.tuples(PIDS, st.integers(1, 9), st.sampled_from(["r1", "r2"]))),
    )
    def check(limits: dict[str, int], held: list[tuple[str, int, str]]) -> None:
        expected = {}
        for pid, to in limits.items():
            first = min(((nr, reader) for p, nr, reader in held if p == pid), default=None)
            is_held = first is not None and first[0] <= to
            expected[pid] = (first[0] - 1, *first) if first and is_held else (to, None, None)
        found = rules.bounded(
            local_rows(spark, list(limits.items()), LIMIT), local_rows(spark, held, HELD)
        )
        assert {
            r.persistence_id: (r.to, r.held_from, r.reader) for r in found.collect()
        } == expected

    check()


def test_what_goes_with_its_tag_views_goes_wholly_or_not_at_all(spark: SparkSession) -> None:
    """A need of an event that is yet to come holds nothing, and nor does tag-write."""
    held = [("a|1", 5, "r"), ("a|2", 10, "r"), ("a|3", 1, TAG_WRITE), ("a|4", 1, "r")]
    limits = [("a|1", 9), ("a|2", 9), ("a|3", 9)]
    found = rules.wholly(local_rows(spark, held, HELD), local_rows(spark, limits, LIMIT))
    assert [tuple(row) for row in found.collect()] == [("a|1", 1, "r")]


@pytest.mark.parametrize(
    ("has_rules", "expected"),
    [
        (False, {"behind": 3, "without progress": 2}),
        (True, {"behind": 3, "without progress": 2, "unseen": 4, "never seen": 1}),
    ],
)
def test_events_whose_tag_rows_are_owed(
    spark: SparkSession, has_rules: bool, expected: dict[str, int]
) -> None:
    """With tag rules, an event without tags may yet get one: tag-write must have seen it."""
    events = [
        *[("done", 0, nr, "red,blue") for nr in (1, 2, 3)],
        *[("behind", 0, nr, "red" if nr < 3 else "red,blue") for nr in (1, 2, 3)],
        *[("without progress", 0, nr, "" if nr == 1 else "red") for nr in (1, 2)],
        *[("unseen", 0, nr, "") for nr in (3, 4, 5)],
        ("never seen", 0, 1, ""),
    ]
    progress = [
        ("done", "red", 3, 3),
        ("done", "blue", 3, 3),
        ("behind", "red", 3, 3),
        ("behind", "blue", 2, 1),
    ]
    scanning = [("done", 3), ("behind", 3), ("without progress", 2), ("unseen", 3)]
    found = rules.without_rows(
        local_rows(spark, events, EVENT).withColumn(
            "tags", F.when(F.col("tags") != "", F.split("tags", ","))
        ),
        local_rows(spark, progress, PROGRESS),
        local_rows(spark, scanning, "persistence_id string, scanned_to bigint"),
        has_rules=has_rules,
    )
    rows = found.collect()
    assert {row.persistence_id: row.held_from for row in rows} == expected
    assert {row.reader for row in rows} == {TAG_WRITE}
