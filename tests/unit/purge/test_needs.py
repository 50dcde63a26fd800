"""What purge must leave of events, against a model that asks of each event whether it is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.ledger import schedule
from tidemark.ledger.frontier.spans import covering, extended
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.keys import entity_type
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.source import Messages
from tidemark.project.planning import history
from tidemark.purge.needs.consumers import Consumer, ConsumerProgress, progress
from tidemark.purge.needs.events import untagged
from tidemark.purge.needs.numbered import first_numbers, lowest, needs_of
from tidemark.spark.local_rows import local_rows

SIZE = 10
ENDED = datetime(2024, 3, 1)
INDEX = (
    "persistence_id string, sequence_nr bigint, timestamp string, ticks bigint,"
    " time_bucket bigint, tags string"
)
OFFSETS = (
    "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint,"
    " stored_timeuuid string, snapshot_nr bigint"
)
TEXT = """\
/*---
name: one
version: 2
source: messages
mode: upsert
target: k.one
event: kind STRING
---*/
SELECT persistence_id, sequence_nr FROM events
"""


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Definition:
    file = tmp_path_factory.mktemp("definitions") / "one.sql"
    file.write_text(TEXT)
    return read(file)


@dataclass(frozen=True)
class Life:
    """A persistence id: the bucket of each of its events by sequence nr, and its offset."""

    buckets: tuple[int, ...]
    first: int
    stored: int | None
    entity: str

    def events(self) -> Iterable[tuple[int, int]]:
        return enumerate(self.buckets, self.first)


lives = st.lists(
    st.builds(
        Life,
        st.lists(st.integers(0, 9), max_size=6).map(tuple),
        st.integers(1, 4),
        st.none() | st.integers(1, 8),
        st.sampled_from("ab"),
    ),
    # One example is as much work for Spark as many persistence ids are.
    min_size=40,
    max_size=80,
)
readers = st.lists(
    st.tuples(
        st.sampled_from([Mode.UPSERT, Mode.BUCKET, Mode.FOLD]),
        st.none() | st.integers(0, 9),  # begin
        st.none() | st.integers(0, 9),  # again_from
        st.booleans(),  # is_anew
        st.none() | st.just(("a",)),
    ),
    min_size=1,
    max_size=3,
)


def is_needed(reader: Any, life: Life, number: int, bucket: int) -> bool:
    """Say of one event whether a reader needs it: not consumed yet, or to be read again."""
    mode, begin, again_from, is_anew, entity_types = reader
    if entity_types is not None and life.entity not in entity_types:
        return False
    if is_anew and mode is Mode.FOLD:
        return True
    if again_from is not None and bucket >= again_from:
        return True
    if life.stored is not None:
        return number > life.stored
    return mode is Mode.FOLD or begin is None or bucket >= begin


@given(lives, readers)
@settings(
    max_examples=8,
    # Each example is Spark's work: shrinking would take minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_event_that_any_reader_needs_is_below_the_need(
    spark: SparkSession, definition: Definition, ids: list[Life], some: list[Any]
) -> None:
    names = [f"{life.entity}|{place}" for place, life in enumerate(ids)]
    assert [entity_type(name) for name in names] == [life.entity for life in ids]
    index = local_rows(
        spark,
        [
            (name, number, "", 0, bucket * SIZE, None)
            for name, life in zip(names, ids, strict=True)
            for number, bucket in life.events()
        ],
        INDEX,
    ).withColumn("tags", F.array("tags"))
    stored = local_rows(
        spark,
        [
            (name, "", life.stored, life.stored, None, None)
            for name, life in zip(names, ids, strict=True)
            if life.stored is not None
        ],
        OFFSETS,
    )
    unique = local_rows(spark, [(name,) for name in names], "persistence_id string")
    needs = []
    for place, (mode, begin, again_from, is_anew, entity_types) in enumerate(some):
        consumer = Consumer(
            f"r{place}",
            replace(definition, mode=mode, source=Messages(entity_types)),
            history.ALL if begin is None else begin * SIZE,
            ConsumerProgress(None, is_anew and mode is Mode.FOLD),
        )
        moment = None if again_from is None else again_from * SIZE
        asked = {at for at in (consumer.begin, moment) if at not in (None, history.ALL)}
        firsts = first_numbers(index, asked)
        needs.append(needs_of(consumer, unique, stored, firsts, moment))
    found = {row.persistence_id: row for row in lowest(needs).collect()}
    for name, life in zip(names, ids, strict=True):
        kept = {
            number
            for number, bucket in life.events()
            if any(is_needed(reader, life, number, bucket) for reader in some)
        }
        reading = [r for r in some if r[4] is None or life.entity in r[4]]
        row = found.get(name)
        assert (row is None) == (not reading)
        if row is not None:
            assert all(number >= row.needed_from for number in kept), (name, life)
            # It is the lowest such number: what is there from it on begins with a needed one.
            there = [number for number, _ in life.events() if number >= row.needed_from]
            assert not there or min(there) in kept, (name, life)
            # What is appended next is needed in any case.
            assert row.needed_from <= life.first + len(life.buckets) or life.stored is not None


def with_spans(rows: list[PieceRow]) -> LedgerState:
    """Return the pieces as the ledger's frontier has them once it has taken up all that it can."""
    spans = extended([], rows, SIZE)
    outside = [row for row in rows if covering(spans, row.time_bucket) is None]
    return LedgerState(spans, outside, SIZE)


entries = st.dictionaries(
    st.integers(0, 9),
    st.tuples(
        st.sampled_from([State.DONE, State.FAILED, State.HELD, State.PLANNED, State.RUNNING]),
        st.sampled_from(["own", "1-other", ""]),
        st.integers(0, 2),
    ),
    max_size=6,
)


@given(entries, st.sampled_from(list(Mode)), st.integers(0, 3), st.sets(st.integers(0, 9)))
def test_whatever_the_schedule_takes_up_again_is_needed_as_a_whole(
    definition: Definition,
    known: dict[int, tuple[State, str, int]],
    mode: Mode,
    look_back: int,
    inherited: set[int],
) -> None:
    """The model is the planner itself: every piece of it that has a row may be read again."""
    rows = [
        PieceRow(
            bucket * SIZE,
            state,
            attempt,
            definition_version=definition.fingerprint if version == "own" else version or None,
            finished_at=ENDED,
        )
        for bucket, (state, version, attempt) in sorted(known.items())
    ]
    found, of_spans = (
        progress(
            replace(definition, mode=mode),
            standing,
            look_back=look_back,
            inherited=[bucket * SIZE for bucket in inherited],
        )
        for standing in (LedgerState((), rows, SIZE), with_spans(rows))
    )
    assert of_spans == found
    wanted = {row.time_bucket for row in rows} | {bucket * SIZE for bucket in inherited}
    pieces = schedule.planned(wanted, rows, definition.fingerprint)
    again = {piece.time_bucket for piece in pieces}
    if again:
        assert found.again_from is not None
        assert found.again_from <= min(again)
    done = wanted - again
    if mode.replaces_buckets and done:
        assert found.again_from is not None
        assert found.again_from <= max(done) + SIZE - look_back * SIZE
    elif not again:
        assert found.again_from is None
    of_others = [
        row for row in rows if row.definition_version not in (None, definition.fingerprint)
    ]
    if mode is Mode.FOLD:
        # A state of another version is made anew from the first event on.
        assert found.is_anew or not of_others
    else:
        assert not found.is_anew


def test_tag_write_needs_what_tag_scanning_is_behind(spark: SparkSession) -> None:
    ids: DataFrame = local_rows(spark, [("a",), ("new",)], "persistence_id string")
    scanning = local_rows(spark, [("a", 7)], "persistence_id string, scanned_to bigint")
    rows = untagged(ids, scanning).collect()
    assert {(row.persistence_id, row.needed_from) for row in rows} == {("a", 8), ("new", 1)}


def test_a_fold_whose_pieces_are_held_by_a_gap_goes_on_from_its_states(
    definition: Definition,
) -> None:
    fold = replace(definition, mode=Mode.FOLD)
    held = PieceRow(SIZE, State.HELD, 1, definition_version=fold.fingerprint)
    assert progress(fold, LedgerState((), [held], SIZE), look_back=1) == ConsumerProgress(
        SIZE, False
    )
    former = replace(held, definition_version="1-other")
    assert progress(fold, LedgerState((), [former], SIZE), look_back=1) == ConsumerProgress(
        SIZE, True
    )
