"""The rules of kafka-journal's tables: its segments by vectors, its reader by a model of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.partitioning.key_vectors import EVENT_SEGMENTS, HEAD_SEGMENTS
from tidemark.journals.kafka import segment_size
from tidemark.partitioning import columns, keys
from tidemark.validate.layers.kafka_journal import checks
from tidemark.validate.layers.kafka_journal.rules import journal_findings

HEADS = (
    "topic string, persistence_id string, segment bigint, segment_size int, partition int,"
    " offset bigint, seq_nr bigint, delete_to bigint, record_id string"
)
EVENTS = (
    "topic string, persistence_id string, segment bigint, seq_nr bigint, timestamp timestamp,"
    " partition int, offset bigint, origin string, meta_record_id string"
)
TIME = datetime(2024, 3, 1, tzinfo=UTC)


def test_segments_agree_in_both_forms(spark: SparkSession) -> None:
    for name, segments, expected in HEAD_SEGMENTS:
        assert keys.head_segment(name, segments) == expected
    for seq_nr, size, expected in EVENT_SEGMENTS:
        assert keys.journal_segment(seq_nr, size) == expected
    names = spark.createDataFrame(HEAD_SEGMENTS, "id string, segments int, expected bigint")
    by_name = names.select(
        *(
            F.when(F.col("segments") == number, columns.head_segment(F.col("id"), number)).alias(
                f"of_{number}"
            )
            for number in sorted({number for _, number, _ in HEAD_SEGMENTS})
        ),
        "expected",
    ).collect()
    assert [max(value for value in row[:-1] if value is not None) for row in by_name] == [
        row["expected"] for row in by_name
    ]
    numbers = spark.createDataFrame(EVENT_SEGMENTS, "seq_nr bigint, size int, expected bigint")
    of_events = numbers.select(
        columns.journal_segment(F.col("seq_nr"), F.col("size")).alias("segment"), "expected"
    ).collect()
    assert [row["segment"] for row in of_events] == [row["expected"] for row in of_events]


def test_sizes_of_segments_agree_in_both_forms(spark: SparkSession) -> None:
    vectors = [(None, 10_000), (-1, 10_000), (0, 10_000), (1, 10_000), (2, 2), (2**31 - 1,) * 2]
    assert [segment_size.of_value(stored) for stored, _ in vectors] == [size for _, size in vectors]
    frame = spark.createDataFrame(vectors, "stored int, size int")
    rows = frame.select(segment_size.of_column(F.col("stored")).alias("found"), "size").collect()
    assert [row["found"] for row in rows] == [row["size"] for row in rows]


class Stored(NamedTuple):
    """A journal as it is stored: its head's numbers, and the numbers of its events."""

    size: int
    head_nr: int
    delete_to: int
    numbers: frozenset[int]


JOURNALS = st.builds(
    Stored,
    st.integers(2, 4),
    st.integers(1, 9),
    st.integers(0, 9),
    st.frozensets(st.integers(1, 12), max_size=12),
)


def read(stored: Stored) -> list[int]:
    """Return what upstream's reader returns: segment by segment, as the facts describe it."""
    found: list[int] = []
    start = stored.delete_to + 1
    segment = (start - 1) // stored.size
    while True:
        here = sorted(
            number
            for number in stored.numbers
            if (number - 1) // stored.size == segment and number >= start
        )
        found += here
        if not here or here[-1] // stored.size == segment:
            return found
        segment = here[-1] // stored.size


def model(stored: Stored) -> dict[str, set[int]]:
    """Return the findings of a journal, by loops."""
    alive = sorted(number for number in stored.numbers if number > stored.delete_to)
    undeleted = {number for number in stored.numbers if number <= stored.delete_to}
    reached = max([*stored.numbers, stored.delete_to])
    behind = [number for number in alive if number > stored.head_nr]
    gaps = set()
    for before, number in zip([stored.delete_to, *alive], alive, strict=False):
        if number > before + 1:
            gaps.add(number)
    return {
        checks.LOST_TAIL.name: {reached} if stored.head_nr > reached else set(),
        checks.EVENTS_BEHIND_HEAD.name: set(behind[:1]),
        checks.UNDELETED_EVENTS.name: {min(undeleted)} if undeleted else set(),
        checks.DELETE_TO_BEYOND_SEQ_NR.name: (
            {stored.delete_to} if stored.delete_to > stored.head_nr else set()
        ),
        "gaps": gaps,
    }


def test_findings_are_those_of_a_model_of_the_reader(
    spark: SparkSession, examples: Examples
) -> None:
    journals = dict(enumerate(examples(JOURNALS, 300)))
    assert len(set(journals.values())) > 100
    heads = [
        (
            *("t", f"j{key}", keys.head_segment(f"j{key}", 10_000), stored.size),
            *(0, 0, stored.head_nr, stored.delete_to, "r"),
        )
        for key, stored in journals.items()
    ]
    events = [
        ("t", f"j{key}", (number - 1) // stored.size, number, TIME, 0, number, "o", "r")
        for key, stored in journals.items()
        for number in stored.numbers
    ]
    found: dict[int, dict[str, set[int]]] = {key: {} for key in journals}
    for row in journal_findings(
        spark.createDataFrame(heads, HEADS), spark.createDataFrame(events, EVENTS)
    ).collect():
        of_journal = found[int(row["persistence_id"][1:])]
        of_journal.setdefault(row["check_name"], set()).add(row["number"])
    for key, stored in journals.items():
        told: Mapping[str, set[int]] = found[key]
        expected = model(stored)
        hidden = told.get(checks.HIDDEN_EVENTS.name, set())
        assert told.get(checks.SEQ_NR_GAP.name, set()) | hidden == expected.pop("gaps"), stored
        for check, numbers in expected.items():
            assert told.get(check, set()) == numbers, (check, stored)
        assert told.keys() <= {*expected, checks.SEQ_NR_GAP.name, checks.HIDDEN_EVENTS.name}
        # Readers stop right before the first hidden event, and reach all events without one.
        alive = sorted(number for number in stored.numbers if number > stored.delete_to)
        reached = [number for number in alive if not hidden or number < min(hidden)]
        assert read(stored) == reached, stored
