"""Persistence ids that began anew: named cases, random lives, and the key of definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.unit.project.acceptance_model import Life, judge_lives
from tidemark.errors import DefinitionError
from tidemark.partitioning import keys
from tidemark.project.acceptance import resets, rule
from tidemark.project.acceptance.rule import Validation
from tidemark.project.definition.file import read
from tidemark.project.sources import restarts
from tidemark.spark.local_rows import local_rows

A, D, R = Validation.ACCEPTED, Validation.DUPLICATE, Validation.REJECTED
T = 1_000_000
"""The second of the stored event."""
AFTER = 10

CASES: dict[str, tuple[Life, Sequence[Validation]]] = {
    # reset of upstream's store, D = 10 s
    "within D it is a duplicate": (Life((42, T), 0, ((1, T + 5),)), [D]),
    "at D it is a duplicate": (Life((42, T), 0, ((1, T + 10),)), [D]),
    "number 1 behind D is accepted": (Life((42, T), 0, ((1, T + 20),)), [A]),
    "number 10 behind D is rejected": (Life((42, T), 0, ((10, T + 20),)), [R]),
    "the record is 1 at T + 20 afterwards": (
        Life((1, T + 20), 0, ((1, T + 20), (2, T + 21))),
        [D, A],
    ),
    # not in upstream's tables
    "from 1 on, in one run": (Life((2, T), 0, ((1, T + 20), (2, T + 21), (3, T + 22))), [A] * 3),
    "behind a gap of the new life": (
        Life((5, T), 0, ((1, T + 20), (3, T + 22), (6, T + 25))),
        [A, R, R],
    ),
    "the former life is a duplicate": (Life((2, T), 0, ((2, T), (1, T + 20))), [D, A]),
    "the next number of the former life": (Life((2, T), 0, ((3, T + 1), (1, T + 20))), [D, A]),
    "a higher number is no reset": (Life((2, T), 0, ((3, T + 20),)), [A]),
    "1 and 2 of the new life are deleted": (Life((5, T), 2, ((3, T + 22),)), [R]),
    "nothing is stored": (Life(None, 0, ((1, T + 20),)), [A]),
}  # fmt: skip


def test_named_cases(spark: SparkSession) -> None:
    verdicts = judged(spark, {name: life for name, (life, _) in CASES.items()})
    for name, (life, expected) in CASES.items():
        assert judge_lives(life, AFTER) == list(expected), name
        assert verdicts[name] == sorted(zip(life.events, expected, strict=True)), name


def test_random_lives_are_judged_as_one_by_one(spark: SparkSession) -> None:
    """Numbers and times are independent: skewed clocks, lost events, several lives."""
    random = Random(20240301)
    lives = {f"p|{number}": random_life(random) for number in range(3000)}
    verdicts = judged(spark, lives)
    for name, life in lives.items():
        expected = sorted(zip(life.events, judge_lives(life, AFTER), strict=True))
        assert verdicts.get(name, []) == expected, life
    assert any(A in judge_lives(life, AFTER) and life.stored for life in lives.values())


def test_every_event_of_every_life_is_accepted_exactly_once(spark: SparkSession) -> None:
    """Three lives of each id; a life's events appear over two runs, in any order."""
    random = Random(7)
    names = [f"p|{number}" for number in range(40)]
    stored: dict[str, tuple[int, int] | None] = dict.fromkeys(names)
    accepted: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    expected: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for start in (T, T + 1000, T + 2000):
        events = {
            name: [(number, start + number) for number in range(1, random.randint(2, 9))]
            for name in names
        }
        # The first event of a life appears before the others, as it is written before them.
        early = {
            name: [pairs[0], *random.sample(pairs[1:], len(pairs) // 2)]
            for name, pairs in events.items()
        }
        for read_events in (early, events):
            runs = {name: Life(stored[name], 0, tuple(read_events[name])) for name in names}
            for name, results in judged(spark, runs).items():
                new = [key for key, result in results if result is A]
                accepted[name] += new
                stored[name] = max(new) if new else stored[name]
        for name in names:
            expected[name] += events[name]
    assert {name: sorted(pairs) for name, pairs in accepted.items()} == {
        name: sorted(pairs) for name, pairs in expected.items()
    }


def random_life(random: Random) -> Life:
    numbers = random.sample(range(1, 9), random.randint(0, 8))
    times = [T, T + 5, T + 10, T + 11, T + 20]
    stored = random.choice([None, (random.randint(1, 6), T)])
    events = tuple((number, random.choice(times)) for number in numbers)
    return Life(stored, random.choice([0, 0, 0, 2]), events)


def judged(
    spark: SparkSession, lives: Mapping[str, Life]
) -> dict[str, list[tuple[tuple[int, int], Validation]]]:
    """Return Spark's result for each event, by persistence id."""
    rows = local_rows(
        spark,
        [
            (name, "", number, number, timeuuid(at), ticks(at), True, False, 0, at)
            for name, life in lives.items()
            for number, at in life.events
        ],
        "persistence_id string, tag string, number bigint, sequence_nr bigint,"
        " event_timeuuid string, ticks bigint, is_there boolean, is_before boolean,"
        " time_bucket bigint, at bigint",
    )
    stored = local_rows(
        spark,
        [
            (name, "", life.stored[0], life.stored[0], timeuuid(life.stored[1]))
            for name, life in lives.items()
            if life.stored
        ],
        "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint,"
        " stored_timeuuid string",
    )
    deleted = local_rows(
        spark,
        [(name, life.deleted_to) for name, life in lives.items() if life.deleted_to],
        "persistence_id string, deleted_to bigint",
    )
    anew = restarts.restarted_ids(rows, stored, deleted, AFTER)
    present = resets.of_present_life(rows, anew)
    reached = rule.advance_frontiers(present, resets.with_restarts(stored, anew), deleted)
    marked = rule.validate_events(rows, resets.with_restart_marks(reached, anew), rows.is_before)
    verdicts_of: dict[str, list[tuple[tuple[int, int], Validation]]] = {}
    for row in marked.select("persistence_id", "number", "at", "result").collect():
        verdicts_of.setdefault(row.persistence_id, []).append(
            ((row.number, row.at), Validation(row.result))
        )
    return {name: sorted(verdicts) for name, verdicts in verdicts_of.items()}


def ticks(second: int) -> int:
    return second * 10_000_000 + keys.UUID_EPOCH_TICKS


def timeuuid(second: int) -> str:
    return keys.ticks_timeuuid(ticks(second), clock_sequence=0, node=1)


DEFINITION = """\
/*---
name: totals
version: 1
source: messages
mode: bucket
target: x.totals
event: n INT
accept-sequence-number-reset-after: 10 s
---*/

SELECT time_bucket, count(*) AS n FROM events GROUP BY time_bucket
"""


@pytest.mark.parametrize(
    ("text", "seconds"), [("10 s", 10), ("5m", 300), ("2 h", 7200), ("1 d", 86_400), ("off", None)]
)
def test_a_definition_says_from_when_on_a_lower_number_is_new(
    tmp_path: Path, text: str, seconds: int | None
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.replace("10 s", text))
    assert read(file).reset_after == seconds


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("10 s", "soon", "accept-sequence-number-reset-after cannot be 'soon'"),
        (
            "messages",
            "{tags: [a]}",
            "accept-sequence-number-reset-after does not fit the source tags",
        ),
        ("bucket", "upsert", "accept-sequence-number-reset-after does not fit the mode upsert"),
        ("bucket", "append", "accept-sequence-number-reset-after does not fit the mode append"),
    ],
)
def test_a_reset_that_does_not_fit_is_refused(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.replace(old, new, 1))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert str(refused.value).startswith(f"{what} ({file}:8:37); ")
