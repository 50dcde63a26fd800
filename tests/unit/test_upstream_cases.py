"""Named cases of Akka's and Pekko's projections by slices, replayed as runs of a batch.

Each line of a case lists what a run sees: `pid#nr` or `pid#from..to`, perhaps `@second`, perhaps

* `BT`: in a time bucket that is done, where a backtracking query finds it,
* `old`: in a time bucket before the projection's first,
* `later`: in a time bucket that may not be consumed yet,

and the result: A accepted, D duplicate, R and RB rejected, - not looked at. The events that a run
accepts are stored when it ends, and the next line begins behind them. `tests/CASES.md` lists all
cases, including cases that are tested elsewhere or do not apply to a batch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from tidemark.journals.pekko.series import NO_TAG
from tidemark.partitioning.keys import slice_of
from tidemark.project.acceptance import rule
from tidemark.project.acceptance.rule import Validation
from tidemark.spark.local_rows import local_rows

RESULTS = {
    "A": Validation.ACCEPTED,
    "D": Validation.DUPLICATE,
    "R": Validation.REJECTED,
    "RB": Validation.REJECTED_BACKTRACKING,
    "-": None,
}
SIGHTING = re.compile(
    r"(?P<pid>\w+)#(?P<first>\d+)(?:\.\.(?P<last>\d+))?(?:@(?P<at>\d+))?"
    r"(?: (?P<flag>BT|old|later))? (?P<result>A|D|RB|R|-)"
)
SEEN = (
    "persistence_id string, tag string, number bigint, sequence_nr bigint, event_timeuuid string,"
    " is_there boolean, is_before boolean, is_back boolean, time_bucket bigint, row int"
)
STORED = "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint"
DELETED = "persistence_id string, deleted_to bigint"


@dataclass(frozen=True)
class Case:
    """The runs of a projection, and the rows stored before them.

    Attributes:
        runs: the events that each run sees, with their results.
        stored: the stored sequence nrs by persistence id, before the first run.
        deleted: the sequence nrs up to which messages were deleted, by persistence id.
        failed: the number of a run that stores nothing, because it fails after it has judged.
        set_before: further offsets stored before a run, by hand or by another run, by run number.
    """

    runs: tuple[str, ...]
    stored: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)
    failed: int | None = None
    set_before: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


STORE = {"p1": 3, "p2": 1, "p3": 5}
CASES: dict[str, Case] = {
    # The compact table: first each group, then all groups as one script.
    "accept known, reject unknown: 1": Case(("p4#1 A, q4#1 BT A", "p4#1 D, q4#1 BT D")),
    "accept known, reject unknown: 2": Case(("p4#2 A",), {"p4": 1}),
    "accept known, reject unknown: 3": Case(
        ("p4#4 R, q4#4 BT RB", "p4#1 D"), {"p4": 2, "q4": 2}
    ),
    "accept known, reject unknown: 4": Case(("p1#4 A", "p1#4 D, p1#4 BT D"), STORE),
    "accept known, reject unknown: 5": Case(("p3#5 D, p2#1 D, p3#4 D",), STORE),
    "accept known, reject unknown: 6": Case(("p4#1..2 A", "p4#2 D, p4#2 BT D")),
    "accept known, reject unknown: 7": Case(("p3#6 A", "p3#7 A", "p3#8 A"), STORE),
    "accept known, reject unknown: 8": Case(
        ("p5#7 R, q5#7 BT RB", "p5#6 old D, p5#7 A, q5#6 old D, q5#7 BT A", "p5#8 A, q5#8 BT A")
    ),
    "accept known, reject unknown: 9": Case(("p6#7 R", "p6#7 BT RB"), STORE),
    # Events are in flight from their acceptance by a run until it has stored its offsets.
    "accept known, reject unknown: 10": Case(
        (
            "p4#1..2 A, p4#4 R, p1#4 A, p3#5 D, p3#6..8 A, p2#1 D, p5#6 old D, p5#7..8 A, p6#7 R",
            "p4#1..2 D, p4#4 BT RB, p1#4 A, p3#5 D, p3#6..8 A, p2#1 D, p5#7..8 D, p6#7 BT RB",
        ),
        STORE,
        failed=0,
        set_before={1: {"p4": 2, "p5": 8}},
    ),
    "validateAll": Case(("p4#1..2 A, p4#4 R, p1#4 A, p3#7 R",), STORE),
    "lazy": Case(
        ("p1#7 R", "p1#7 BT RB", "p1#7 A", "p1#4 D, p1#6 D"), set_before={2: {"p1": 6}}
    ),
    "slice bound": Case(
        (
            "p1#1 D, p2#3 later -, p2#4 BT RB, p3#3 later -, p3#4 R",
            "p2#3 old D, p2#4 BT A, p3#3 BT RB, p3#4 BT RB",
        ),
        {"p1": 1},
    ),
    # EventsBySliceSpec
    "EventsBySliceSpec: all 20 events for NoOffset": Case(("p1#1..20 A",)),
    "EventsBySliceSpec: only 11..20 after offset of #10": Case(
        ("p1#1..10 D, p1#11..20 A",), {"p1": 10}
    ),
    "EventsBySliceSpec: 10 events on one timestamp": Case(("p1#1..10@5 A",)),
    "EventsBySliceSpec: 9 events on t1 from 3 persistence ids and 3 on t2": Case(
        ("A#1..6@1 A, B#3..4@1 A, C#3@1 A, D#1..3@2 A",), {"B": 2, "C": 2}
    ),
    "EventsBySliceSpec: seen suppresses an event of the same timestamp": Case(
        ("p1#1@1 D, p2#1@1 A",), {"p1": 1}
    ),
    "EventsBySliceSpec: empty seen emits it again": Case(
        ("p1#1@1 A, p2#1@1 A", "p1#1@1 A, p2#1@1 A"), failed=0
    ),
    "EventsBySliceSpec: finds new events 21..40": Case(
        ("p1#1..20 A", "p1#1..20 BT D, p1#21..40 A")
    ),
    # EventsBySliceBacktrackingSpec
    "EventsBySliceBacktrackingSpec: an event with an earlier timestamp is found later": Case(
        ("p1#1@1 A, p1#2@3 A", "p1#1..2 BT D, p2#1@2 BT A")
    ),
    "EventsBySliceBacktrackingSpec: backtracking after a restart from an offset": Case(
        ("p1#1@1 A, p2#1@2 A, p1#2@3 A, p2#2@4 A, p1#3@5 A",
         "p1#1@1 BT D, p2#1@2 BT D, p1#2@3 BT D, p2#2@4 BT D, p1#3@5 BT D, p2#3@6 A")
    ),
    "EventsBySliceBacktrackingSpec: buffer-size events on one timestamp": Case(
        ("p1#1..10@1 A, p1#11@2 A", "p1#1..10@1 BT D, p1#11@2 BT D, p1#12@3 A")
    ),
    "EventsBySliceBacktrackingSpec: the same with two persistence ids": Case(
        ("p1#1..7@1 A, p2#1..3@1 A", "p1#1..7@1 BT D, p2#1..3@1 BT D, p1#8@2 A, p2#4@2 BT A")
    ),
    # R2dbcOffsetStoreStateSpec
    "R2dbcOffsetStoreStateSpec: track latest and seen": Case(
        ("p1#3@1 A", "p2#2@2 A", "p3#5@3 A", "p3#6@4 A, p4#9@4 A"),
        {"p1": 2, "p2": 1, "p3": 4, "p4": 8},
    ),
    "R2dbcOffsetStoreStateSpec: highest sequence nr of equal timestamps": Case(
        ("p1#4..6@1 A, p2#7@1 A", "p1#4..6@1 D, p2#7@1 D"), {"p1": 3, "p2": 6}
    ),
    "R2dbcOffsetStoreStateSpec: find duplicate": Case(
        ("p1#2..3 D, p1#4 A, p2#1 D, p2#2 A, p3#6 A, p4#1 A",), STORE
    ),
    # R2dbcTimestampOffsetStoreSpec
    "R2dbcTimestampOffsetStoreSpec: one entry": Case(("p1#3@1 A", "p1#4@2 A"), {"p1": 2}),
    "R2dbcTimestampOffsetStoreSpec: several seen": Case(
        ("p1#3@1 A, p2#1@1 A, p3#5@1 A", "p1#4@2 A, p2#2@2 A, p3#6@2 A"), {"p1": 2, "p3": 4}
    ),
    "R2dbcTimestampOffsetStoreSpec: same timestamp": Case(
        ("p1#3@1 A, p2#1@1 A", "p1#3@1 D, p2#1@1 D, p3#5@1 A"), {"p1": 2, "p3": 4}
    ),
    "R2dbcTimestampOffsetStoreSpec: batch": Case(
        ("p1#1..3 A, p2#1..2 A, p3#1 A", "p1#1..3 D, p2#1..2 D, p3#1 D")
    ),
    "R2dbcTimestampOffsetStoreSpec: many": Case((", ".join(f"p{n}#1..3 A" for n in range(50)),)),
    "R2dbcTimestampOffsetStoreSpec: lower sequence nr does not overwrite": Case(
        ("p1#4@1 A", "p1#3@2 D", "p1#4@3 D, p1#5@3 A"), {"p1": 3}
    ),
    "R2dbcTimestampOffsetStoreSpec: filter duplicates": Case(
        (
            "p1#3 D, p1#2 D, p2#1 D, p3#5 D, p3#4 D",
            "p1#4 A, p2#2 A, p3#6 A",
            "p1#4 BT D, p2#2 BT D, p3#6 BT D",
        ),
        STORE,
    ),
    "R2dbcTimestampOffsetStoreSpec: accept new with the previous one deleted": Case(
        ("p4#7..8 A, p5#7 R, p6#7 A",), deleted={"p4": 6, "p5": 5, "p6": 9}
    ),
    "R2dbcTimestampOffsetStoreSpec: accepted again after an error": Case(
        ("p1#4 A, p2#2 A", "p1#4 A, p2#2 A", "p1#4 D, p2#2 D"), STORE, failed=0
    ),
    # R2dbcTimestampOffsetProjectionSpec
    "R2dbcTimestampOffsetProjectionSpec: persist and store offset": Case(
        ("p1#1..6 A", "p1#1..6 D")
    ),
    "R2dbcTimestampOffsetProjectionSpec: restart continues at 4": Case(
        ("p1#1..3 A", "p1#4..6 A", "p1#4..6 A"), failed=1
    ),
    "R2dbcTimestampOffsetProjectionSpec: filter duplicates": Case(
        (
            "p1#1..2 A, p2#1 A",
            "p1#1..2 BT D, p2#1 BT D, p1#3 A, p2#2 BT A",
            "p1#3 BT D, p2#2 BT D, p1#4 A, p2#3 A",
        )
    ),
    "R2dbcTimestampOffsetProjectionSpec: filter unknown": Case(
        (
            "p1#1..2 A, p2#1 A, p2#3 R",
            "p1#3 A, p1#5 R, p2#3 BT RB",
            "p1#3 BT D, p1#4 BT A, p1#5 BT A, p1#6 A, p2#2..4 BT A",
        )
    ),
    "R2dbcTimestampOffsetProjectionSpec: replay rejected": Case(
        (
            "p1#1..2 A, p1#3..5 later -, p1#6 R, p2#1 later -, p2#2 R",
            "p1#3..5 BT A, p1#6 BT A, p2#1 BT A, p2#2 BT A",
        )
    ),
    # From 5 on the clock is 2 s behind: a run that ends at second 12 does not see 3 and 4 yet.
    "R2dbcTimestampOffsetProjectionSpec: replay under clock skew": Case(
        (
            "p1#1@10 A, p1#2@11 A, p1#3@12 later -, p1#4@13 later -, p1#5@12 R, p1#6@13 later -",
            "p1#1@10 BT D, p1#2@11 BT D, p1#3@12 A, p1#4@13 A, p1#5@12 BT A, p1#6..9@14 A",
        )
    ),
    # 4 to 6 were stamped 9 s back by another clock.
    "R2dbcTimestampOffsetProjectionSpec: replay under clock skew, 9 s back": Case(
        (
            "p2#4@4 R, p2#5@5 R, p2#6@6 R, p2#1..3 later -",
            "p2#1@10 A, p2#2@11 A, p2#3@12 A, p2#4@4 BT A, p2#5@5 BT A, p2#6@6 BT A, p2#7..9@16 A",
        )
    ),
    # EventSourcedEndToEndSpec
    "EventSourcedEndToEndSpec: unknown sequence nr accepted if the previous one is old": Case(
        ("p1#4 R", "p1#3 old D, p1#4 A, p1#5..6 A")
    ),
    "EventSourcedEndToEndSpec: start from adjusted offset": Case(
        ("p1#1..4 A", "p1#3..4 A"), set_before={1: {"p1": 2}}
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Sighting:
    """An event as a run of a case sees it."""

    pid: str
    number: int
    at: int
    flag: str | None
    expected: Validation | None


def sightings(run: str) -> Iterator[Sighting]:
    """Yield the sightings of a line.

    Raises:
        ValueError: the line cannot be read.
    """
    for text in run.split(", "):
        match = SIGHTING.fullmatch(text)
        if match is None:
            raise ValueError(f"not a sighting: {text!r}")
        first, last = int(match["first"]), int(match["last"] or match["first"])
        for number in range(first, last + 1):
            at = int(match["at"] or number)
            yield Sighting(match["pid"], number, at, match["flag"], RESULTS[match["result"]])


@dataclass
class Outcome:
    """The results of a run of a case, and the offsets that it moved."""

    results: list[tuple[str, int, Validation]] = field(default_factory=list)
    moved: dict[str, tuple[int, str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession) -> dict[str, list[Outcome]]:
    """Run every case, all cases side by side, as a run has many persistence ids."""
    stored = {name: dict(case.stored) for name, case in CASES.items()}
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for number in range(max(len(case.runs) for case in CASES.values())):
        running = {name: case for name, case in CASES.items() if number < len(case.runs)}
        for name, case in running.items():
            stored[name] |= case.set_before.get(number, {})
        for name, outcome in one_run(spark, running, number, stored).items():
            by_name[name].append(outcome)
            if running[name].failed != number:
                stored[name] |= {pid: nr for pid, (nr, _) in outcome.moved.items()}
    return by_name


def one_run(
    spark: SparkSession,
    cases: Mapping[str, Case],
    number: int,
    stored: Mapping[str, Mapping[str, int]],
) -> dict[str, Outcome]:
    """Run all cases once in two Spark jobs; a persistence id carries the name of its case."""
    sighted = [
        (name, sighting)
        for name, case in cases.items()
        for sighting in sightings(case.runs[number])
    ]
    rows = local_rows(
        spark, [_row(name, sighting, place) for place, (name, sighting) in enumerate(sighted)], SEEN
    )
    offsets = [(f"{name}/{p}", NO_TAG, nr, nr) for name in cases for p, nr in stored[name].items()]
    deleted = [
        (f"{name}/{p}", nr) for name, case in cases.items() for p, nr in case.deleted.items()
    ]
    reached = rule.advance_frontiers(
        rows, local_rows(spark, offsets, STORED), local_rows(spark, deleted, DELETED)
    ).localCheckpoint()
    judged = rule.validate_events(rows.where("is_there"), reached, rows.is_back)
    by_name = {name: Outcome() for name in cases}
    for row in judged.select("row", "result").collect():
        name, sighting = sighted[row.row]
        by_name[name].results.append((sighting.pid, sighting.number, Validation(row.result)))
    for row in rule.offset_rows(reached).collect():
        name, _, pid = row.persistence_id.rpartition("/")
        assert row.slice == slice_of(row.persistence_id)
        by_name[name].moved[pid] = (row.sequence_nr, row.timestamp)
    return by_name


def _row(name: str, sighting: Sighting, place: int) -> tuple[object, ...]:
    is_there = sighting.flag != "later"
    return (
        f"{name}/{sighting.pid}", NO_TAG, sighting.number, sighting.number, f"second {sighting.at}",
        is_there, sighting.flag == "old", sighting.flag == "BT", 0, place,
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(outcomes: Mapping[str, list[Outcome]], name: str) -> None:
    """Every event has its result; an id's offset is the last accepted event and its time."""
    for run, outcome in zip(CASES[name].runs, outcomes[name], strict=True):
        sighted = list(sightings(run))
        expected = [
            (sighting.pid, sighting.number, sighting.expected)
            for sighting in sighted
            if sighting.expected
        ]
        assert sorted(outcome.results) == sorted(expected), run
        accepted = {
            sighting.pid: sighting
            for sighting in sighted
            if sighting.expected is Validation.ACCEPTED
        }
        last = {
            pid: (sighting.number, f"second {sighting.at}") for pid, sighting in accepted.items()
        }
        assert outcome.moved == last, run
