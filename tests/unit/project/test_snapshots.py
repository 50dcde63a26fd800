"""The start from snapshots: the rule against the sequential model, and its use in definitions.

The named cases are those of StartingFromSnapshotStageSpec (akka-persistence-r2dbc), where a cache
and heartbeats play the part of the stored offsets here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.unit.project.decoder_payloads import event_rows
from tests.unit.project.snapshot_model import Reader
from tidemark.errors import DefinitionError, TidemarkError
from tidemark.journals.pekko import series
from tidemark.partitioning import keys
from tidemark.project.acceptance import rule, snapshots
from tidemark.project.acceptance.rule import Validation
from tidemark.project.analysis import analyze
from tidemark.project.definition.file import read
from tidemark.project.transformation import fold_frame, transform
from tidemark.projection.testing import run_projection, unreadable_events
from tidemark.spark.local_rows import local_rows

END = 1000
STORED = (
    "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint,"
    " stored_timeuuid string, snapshot_nr bigint"
)
ROW = (
    "persistence_id string, tag string, number bigint, sequence_nr bigint, event_timeuuid string,"
    " is_there boolean, is_before boolean, time_bucket bigint"
)


@dataclass(frozen=True)
class Run:
    """The events of a persistence id that a run sees, and its snapshots with their times."""

    events: frozenset[int] = frozenset()
    snapshots: tuple[tuple[int, int], ...] = ()


def seen(*events: int, snapshots: Mapping[int, int] | None = None) -> Run:
    return Run(frozenset(events), tuple((snapshots or {}).items()))


NAMED: dict[str, tuple[Sequence[Run], Sequence[str]]] = {
    "emit envelopes from snapshots and from ordinary events, a": (
        [seen(1, 2, 3, 4, snapshots={2: 0})],
        ["snap 2", "3", "4"],
    ),
    "emit envelopes from snapshots and from ordinary events, b": ([seen(1, 2)], ["1", "2"]),
    "emit envelopes from snapshots and from ordinary events, c": (
        [seen(1, 2, snapshots={1: 0})],
        ["snap 1", "2"],
    ),
    "handle backtracking envelopes": (
        [seen(1, 2, 3, 4, snapshots={2: 0})] * 2,
        ["snap 2", "3", "4"],
    ),
    "handle sequence gap, a2 comes late": (
        [seen(1, 3, snapshots={2: 0}), seen(1, 2, 3, 4, snapshots={2: 0})],
        ["snap 2", "3", "4"],
    ),
    "handle sequence gap, b: first is ahead of snapshot": (
        [seen(3, 4, snapshots={2: 0}), seen(2, 3, 4, snapshots={2: 0})],
        ["snap 2", "3", "4"],
    ),
    # Upstream the cache forgets an id; here only the offset knows the id.
    "evict cache": (
        [seen(1, 2, 3, 4, snapshots={3: 0}), seen(1, 2, 3, 4, 5, snapshots={3: 0})],
        ["snap 3", "4", "5"],
    ),
    "emit many events": (
        [seen(*range(1, 101), snapshots={33: 0})],
        ["snap 33", *map(str, range(34, 101))],
    ),
    # The frontier is at the snapshot although no event of the id was processed.
    "emit heartbeat after many filtered events": (
        [seen(*range(1, 61), snapshots={66: 0}), seen(*range(1, 101), snapshots={66: 0})],
        ["snap 66", *map(str, range(67, 101))],
    ),
    # not in upstream's tables
    "the newest of several": ([seen(1, 2, 3, snapshots={1: 0, 3: 5, 2: 9})], ["snap 3"]),
    "a snapshot taken as the window ends is not seen": (
        [seen(1, 2, snapshots={1: END - 1, 2: END})],
        ["snap 1", "2"],
    ),
    "later snapshots are ignored": (
        [seen(1), seen(1, 2, 3, snapshots={3: 0})],
        ["1", "2", "3"],
    ),
    "a snapshot alone": ([seen(snapshots={7: 0}), seen(8, snapshots={7: 0})], ["snap 7", "8"]),
    "a gap behind the snapshot": ([seen(4, snapshots={2: 0}), seen(3, 4)], ["snap 2", "3", "4"]),
    "a snapshot before the first event is none": ([seen(1, snapshots={0: 0})], ["1"]),
    "nothing": ([seen()], []),
}


def test_named_cases(spark: SparkSession) -> None:
    events_of = processed(spark, {name: runs for name, (runs, _) in NAMED.items()})
    for name, (runs, expected) in NAMED.items():
        reader = Reader()
        for run in runs:
            reader.run(set(run.events), dict(run.snapshots), END)
        assert reader.processed == list(expected), name
        assert events_of[name] == list(expected), name


def history(random: Random) -> list[Run]:
    """Return events in any order over the runs, and snapshots that come and go."""
    appears = {number: random.randint(0, 3) for number in range(1, random.randint(1, 9))}
    runs = []
    for at in range(4):
        taken = random.sample(range(10), random.choice([0, 0, 1, 2]))
        times = {number: random.choice([0, 500, END]) for number in taken}
        present = [number for number, first in appears.items() if first <= at]
        runs.append(seen(*present, snapshots=times))
    return runs


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_random_histories_are_read_as_one_by_one(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    named = {f"p|{number}": history(random) for number in range(500)}
    events_of = processed(spark, named)
    for name, runs in named.items():
        reader = Reader()
        for run in runs:
            reader.run(set(run.events), dict(run.snapshots), END)
        assert events_of[name] == reader.processed, runs


def processed(spark: SparkSession, histories: Mapping[str, Sequence[Run]]) -> dict[str, list[str]]:
    """Return the processed events of each persistence id over its runs, none of them twice."""
    events_of: dict[str, list[str]] = {name: [] for name in histories}
    stored: dict[str, tuple[int, int | None]] = {}
    for number in range(max(map(len, histories.values()))):
        runs = {name: runs[number] for name, runs in histories.items() if number < len(runs)}
        _one_run(spark, runs, stored, events_of)
    return events_of


def _one_run(
    spark: SparkSession,
    runs: Mapping[str, Run],
    stored: dict[str, tuple[int, int | None]],
    events_of: dict[str, list[str]],
) -> None:
    """Take the rule's steps as a run does; update `stored` and `events_of`."""
    index = [(name, *snapshot) for name, run in runs.items() for snapshot in run.snapshots]
    offsets = local_rows(
        spark, [(name, "", at, at, None, base) for name, (at, base) in stored.items()], STORED
    )
    unknown = local_rows(
        spark,
        [snapshot for snapshot in index if snapshot[0] not in stored],
        "persistence_id string, snapshot_nr bigint, epoch_ms bigint",
    )
    begin = snapshots.newest(unknown, END).localCheckpoint()
    rows = local_rows(
        spark,
        [
            (name, "", number, number, f"t-{number}", True, False, 0)
            for name, run in runs.items()
            for number in run.events
        ],
        ROW,
    )
    none_deleted = local_rows(spark, [], "persistence_id string, deleted_to bigint")
    reached = rule.advance_frontiers(rows, snapshots.with_starts(offsets, begin), none_deleted)
    reached = snapshots.marked(reached, begin).localCheckpoint()
    judged = rule.validate_events(rows, reached, rows.is_before)
    later = snapshots.from_bases(snapshots.as_events(judged), snapshots.bases(offsets, begin))
    for row in begin.collect():
        events_of[row.persistence_id].append(f"snap {row.snapshot_nr}")
    for row in later.where(later.result == str(Validation.ACCEPTED)).orderBy("number").collect():
        events_of[row.persistence_id].append(str(row.number))
    repeated = {
        (row.persistence_id, row.number): stored.get(row.persistence_id, (0, None))[1] or 0
        for row in later.where(later.result == str(Validation.DUPLICATE)).collect()
    }
    assert all(number > base for (_, number), base in repeated.items())
    for row in rule.offset_rows(reached).collect():
        base = stored.get(row.persistence_id, (0, None))[1]
        stored[row.persistence_id] = (row.sequence_nr, row.snapshot_sequence_nr or base)


def test_a_snapshot_has_the_first_timeuuid_of_its_millisecond(spark: SparkSession) -> None:
    index = local_rows(
        spark,
        [("p", 3, 1_356_998_400_123)],
        "persistence_id string, snapshot_nr bigint, epoch_ms bigint",
    )
    (row,) = snapshots.newest(index, 2**50).collect()
    ticks = 1_356_998_400_123 * keys.TICKS_PER_MS + keys.UUID_EPOCH_TICKS
    assert row.snapshot_timeuuid == keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)
    assert row.tag == series.NO_TAG


def test_an_offset_set_back_to_before_the_snapshot_lets_events_count_again(
    spark: SparkSession,
) -> None:
    stored = local_rows(
        spark,
        [("p|1", "", 4, 4, None, 7), ("p|2", "", 7, 7, None, 7), ("p|3", "", 9, 9, None, None)],
        STORED,
    )
    nothing = snapshots.newest(
        local_rows(spark, [], "persistence_id string, snapshot_nr bigint, epoch_ms bigint"), END
    )
    bases = snapshots.bases(stored, nothing).collect()
    assert [(row.persistence_id, row.snapshot_nr) for row in bases] == [("p|2", 7)]


STATES = """\
/*---
name: states
version: 1
source: messages
mode: upsert
start: snapshot
target: flights.states
event: kind STRING, amount INT
decoders:
  - {serializer-id: 7, manifest: Snap, kind: python, function: snapshot_decoders:decode}
  - json
---*/

SELECT persistence_id, sequence_nr, is_snapshot, kind, amount FROM events
"""
DECODED = "".join(STATES.splitlines(keepends=True)[8:11])
DECODERS = """\
def decode(payloads):
    return payloads.map(lambda payload: {"kind": "state", "amount": int(payload)})
"""
FOLD = """\
from tidemark.projection import projection


@projection(
    name="books", version=1, source="messages", mode="fold", target="flights.books",
    start="snapshot", event="amount INT", state="balance BIGINT, folded ARRAY<BIGINT>",
)
def fold(state, events):
    book = state or {"balance": 0, "folded": []}
    for event in events.itertuples():
        if event.is_snapshot:
            book = {"balance": 0, "folded": [-1]}
        book["balance"] += int(event.amount)
        book["folded"].append(event.sequence_nr)
    return book
"""


def move(number: int, amount: int, pid: str = "p|1", **more: object) -> dict[str, object]:
    return {
        "persistence_id": pid,
        "sequence_nr": number,
        "timestamp": f"2013-01-01T00:00:{number:02}Z",
        **({"amount": amount} if "event" not in more else {}),
        **more,
    }


def test_snapshots_are_decoded_by_their_own_serializer(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "states.sql").write_text(STATES)
    (tmp_path / "snapshot_decoders.py").write_text(DECODERS)
    snapshot: dict[str, Any] = {"serializer_id": 7, "manifest": "Snap", "is_snapshot": True}
    events = [
        move(1, 1),
        move(2, 2),
        move(2, 0, event=b"12", **snapshot),
        move(1, 0, event=b"11", **snapshot),
        move(1, 5, "p|2"),
    ]
    rows = run_projection(tmp_path / "states.sql", events, spark=spark)
    assert sorted(rows, key=lambda row: row["persistence_id"]) == [
        {
            "persistence_id": "p|1", "sequence_nr": 2, "is_snapshot": True,
            "kind": "state", "amount": 12,
        },
        {
            "persistence_id": "p|2", "sequence_nr": 1, "is_snapshot": False,
            "kind": None, "amount": 5,
        },
    ]  # fmt: skip
    causes = unreadable_events(
        tmp_path / "states.sql", [move(2, 0, event=b"x", **snapshot), move(3, 1)], spark=spark
    )
    (cause,) = causes.values()
    assert cause.startswith("snapshot: ValueError: invalid literal for int()")


def test_a_fold_begins_with_the_snapshot(spark: SparkSession) -> None:
    events = [move(1, 1), move(2, 2), move(2, 30, is_snapshot=True), move(3, 4), move(4, 5)]
    (row,) = run_projection(FOLD, events, spark=spark)
    assert (row["sequence_nr"], row["balance"], row["folded"]) == (4, 39, [-1, 2, 3, 4])


def test_a_snapshot_replaces_the_older_state_of_a_run_that_died(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The state of p|1 is older than this run's snapshot; that of p|2 is newer and goes on."""
    (tmp_path / "books.py").write_text(FOLD)
    checked = analyze.analyze(spark, read(tmp_path / "books.py"))
    states = spark.createDataFrame([("p|1", 2, 9, [2]), ("p|2", 4, 9, [4])], checked.result)
    bucket = 1_356_998_400_000
    ticks = bucket * keys.TICKS_PER_MS + keys.UUID_EPOCH_TICKS
    at = keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)
    rows = event_rows(
        spark,
        [
            (pid, number, at, ticks, bucket, [], 0, "", b'{"amount":1}', number == 3)
            for pid in ("p|1", "p|2")
            for number in (3, 4, 5)
        ],
        ", is_snapshot boolean",
    )
    decoded = transform.decode(transform.distinct_events(rows), checked.event, checked.decoders)
    folded = fold_frame.folded(transform.readable(decoded), states, checked)
    by_pid = {row.persistence_id: row for row in fold_frame.states(folded).collect()}
    assert (by_pid["p|1"].sequence_nr, by_pid["p|1"].balance) == (5, 3)
    assert by_pid["p|1"].folded == [-1, 3, 4, 5]
    assert (by_pid["p|2"].sequence_nr, by_pid["p|2"].balance, by_pid["p|2"].folded) == (
        5,
        10,
        [4, 5],
    )


def test_a_legacy_snapshot_is_quarantined_with_its_own_cause(spark: SparkSession) -> None:
    rows = event_rows(
        spark,
        [("p|1", 3, "t", 0, 0, [], None, None, None, True)],
        ", is_snapshot boolean",
    )
    fields = T.StructType([T.StructField("amount", T.IntegerType())])
    decoded = transform.decode(transform.distinct_events(rows), fields)
    (letter,) = transform.unreadable(decoded).collect()
    assert letter.cause == "snapshot: snapshot_data is empty; the column snapshot is not read"
    assert transform.readable(decoded).isEmpty()


def test_is_snapshot_is_there_only_in_definitions_that_start_from_snapshots(
    spark: SparkSession,
) -> None:
    plain = STATES.replace("start: snapshot\n", "").replace(DECODED, "")
    with pytest.raises(DefinitionError, match=r"unknown column is_snapshot"):
        run_projection(plain, [move(1, 1)], spark=spark)
    # In a definition without snapshots, `is_snapshot` is a field like any other.
    own = plain.replace("amount INT", "amount INT, is_snapshot BOOLEAN")
    (row,) = run_projection(own, [move(1, 1, is_snapshot=True)], spark=spark)
    assert row["is_snapshot"] is True
    taken = own.replace("mode:", "start: snapshot\nmode:")
    with pytest.raises(TidemarkError, match="every event has is_snapshot already"):
        run_projection(taken, [move(1, 1)], spark=spark)
