"""The rule of acceptance in Spark, against named cases and the sequential model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.unit.project import acceptance_model as model
from tests.unit.project.acceptance_model import Seen, Series, seen
from tidemark.partitioning import keys
from tidemark.project.acceptance import gaps, rule
from tidemark.project.acceptance.rule import Validation
from tidemark.spark.local_rows import local_rows

A, D, R, RB = (
    Validation.ACCEPTED,
    Validation.DUPLICATE,
    Validation.REJECTED,
    Validation.REJECTED_BACKTRACKING,
)
SEEN = (
    "persistence_id string, tag string, number bigint, sequence_nr bigint, event_timeuuid string,"
    " is_there boolean, is_before boolean, is_back boolean, time_bucket bigint"
)
STORED = "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint"
DELETED = "persistence_id string, deleted_to bigint"

CASES: dict[str, tuple[Series, Sequence[Validation]]] = {
    # accept known / reject unknown
    "1 sequence nr 1 of an unknown id": (Series(None, 0, seen([1])), [A]),
    "1 again in the same run": (Series(None, 0, seen([1, 1])), [A, A]),
    "1 again in the next run": (Series(1, 0, seen([1])), [D]),
    "2 the next one": (Series(1, 0, seen([2])), [A]),
    "3 a gap": (Series(2, 0, seen([4])), [R]),
    "3 a gap, backtracking": (Series(2, 0, seen([4], back=True)), [RB]),
    "3 number 1 behind a gap": (Series(2, 0, seen([4, 1])), [R, D]),
    "4 known, the next one": (Series(3, 0, seen([4])), [A]),
    "5 the stored one, and one before it": (Series(5, 0, seen([5, 4])), [D, D]),
    "5 one that is stored, although it is 1": (Series(1, 0, seen([1])), [D]),
    "7 three in a row": (Series(5, 0, seen([6, 7, 8])), [A, A, A]),
    "8 first encounter, the one before is there": (
        Series(None, 0, seen([7])),
        [R],
    ),
    "8 first encounter, backtracking": (Series(None, 0, seen([7], back=True)), [RB]),
    "8 first encounter, the one before is old": (
        Series(None, 0, (*seen([6], before=True), *seen([7, 8]))),
        [D, A, A],
    ),
    "8 first encounter, the one before is deleted": (Series(None, 6, seen([7, 8])), [A, A]),
    "8 first encounter, not all before is deleted": (Series(None, 5, seen([7])), [R]),
    # validateAll, by id
    "validateAll p4": (Series(None, 0, seen([1, 2, 4])), [A, A, R]),
    "validateAll p1": (Series(3, 0, seen([4])), [A]),
    "validateAll p3": (Series(5, 0, seen([7])), [R]),
    # lazy: the earlier rows are in the journal, so the search finds them
    "lazy, before the search": (Series(None, 4, seen([7])), [R]),
    "lazy, 5 and 6 are found": (Series(None, 4, seen([5, 6, 7])), [A, A, A]),
    "lazy, older ones afterwards": (Series(7, 4, seen([4, 6])), [D, D]),
    # clock skew: order of time against order of numbers, one run
    "skew: all nine": (Series(None, 0, seen([9, 4, 5, 1, 8, 2, 3, 7, 6])), [A] * 9),
    "skew: 3, 4, 5 lie behind the window's end": (
        Series(None, 0, (*seen([1, 2, 6, 7]), *seen([3, 4, 5], there=False))),
        [A, A, R, R],
    ),
    # not in upstream's tables
    "the rest behind a gap in a done bucket": (
        Series(2, 0, (*seen([3, 5]), *seen([6], back=True))),
        [A, R, RB],
    ),
    "late ones close the gap": (Series(2, 0, (*seen([5, 6]), *seen([3, 4], back=True))), [A] * 4),
}  # fmt: skip
PURGED: dict[str, tuple[Series, Sequence[Validation]]] = {
    "begins with what is left": (Series(None, 0, seen([3, 4]), 0), [A, A]),
    "the first one is in a bucket that must wait": (
        Series(None, 0, (*seen([2, 3]), *seen([1], there=False)), 0),
        [R, R],
    ),
    "a later one is in a bucket that must wait": (
        Series(None, 0, (*seen([2, 4]), *seen([3], there=False)), 0),
        [A, R],
    ),
}
EXPIRED: dict[str, tuple[Series, Sequence[Validation]]] = {
    "begins with what has not expired": (Series(None, 0, seen([3, 4], bucket=5), 5), [A, A]),
    "older than the TTL, so what was before it had none": (
        Series(None, 0, (*seen([3], bucket=4), *seen([4], bucket=5)), 5),
        [R, R],
    ),
    "the first one waits": (
        Series(None, 0, (*seen([3], bucket=6, there=False), *seen([4], bucket=5)), 5),
        [R],
    ),
    "a hole between two that are there": (
        Series(None, 0, (*seen([3], bucket=5), *seen([5], bucket=6)), 5),
        [A, R],
    ),
    "deleted, then expired": (Series(None, 2, seen([5], bucket=5), 5), [A]),
    "known, and the next ones have expired": (Series(3, 0, seen([6], bucket=5), 5), [R]),
}


@pytest.mark.parametrize("cases", [CASES, PURGED, EXPIRED], ids=["whole", "purged", "expired"])
def test_named_cases(
    spark: SparkSession, cases: Mapping[str, tuple[Series, Sequence[Validation]]]
) -> None:
    verdicts = judged(spark, {name: series for name, (series, _) in cases.items()})
    for name, (series, expected) in cases.items():
        assert model.judge(series) == list(expected), name
        numbers = [event.number for event in series.events if event.there]
        assert verdicts[name] == sorted(zip(numbers, expected, strict=True)), name


def history(random: Random, truncated_from: int | None) -> Series:
    """Return late, repeated, skewed and deleted events of a series, in any order."""
    events = [
        Seen(
            number=random.randint(1, 12),
            there=random.random() < 0.75,
            before=random.random() < 0.25,
            back=random.random() < 0.5,
            bucket=random.randint(0, 3),
        )
        for _ in range(random.randint(0, 14))
    ]
    stored = random.choice([None, random.randint(1, 8)])
    return Series(stored, random.choice([0, 0, 1, 3, 6]), tuple(events), truncated_from)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_random_histories_are_judged_as_one_by_one(spark: SparkSession, seed: int) -> None:
    """One frame has many histories, each a persistence id; one by one they would take a minute."""
    random = Random(seed)
    truncated_from = random.choice([None, 0, 1, 2])
    histories = [history(random, truncated_from) for _ in range(2000)]
    named = {f"p|{number}": series for number, series in enumerate(histories)}
    verdicts = judged(spark, named)
    for name, series in named.items():
        numbers = [event.number for event in series.events if event.there]
        expected = sorted(zip(numbers, model.judge(series), strict=True))
        assert verdicts.get(name, []) == expected, series


def test_several_runs_accept_every_event_exactly_once(spark: SparkSession) -> None:
    """Events appear in any order over the runs; each run stores its frontier."""
    orders = {
        f"p|{shift}": [(shift * step) % 11 for step in range(1, 11)] for shift in range(1, 11)
    }
    stored: dict[str, int | None] = dict.fromkeys(orders)
    accepted: dict[str, list[int]] = {name: [] for name in orders}
    for end in (3, 7, 10, 10):
        runs = {name: Series(stored[name], 0, seen(order[:end])) for name, order in orders.items()}
        for name, results in judged(spark, runs).items():
            accepted[name] += [number for number, result in results if result is A]
            stored[name] = model.reached(runs[name]) or None
    assert accepted == {name: list(range(1, 11)) for name in orders}


def test_an_event_held_back_under_one_tag_stops_its_other_tags(spark: SparkSession) -> None:
    """green 1 is missing, so a|1 6 waits; red must not pass it, nor blue what red holds."""
    rows = local_rows(
        spark,
        [
            _row("a|1", "red", 1, 4),
            _row("a|1", "red", 2, 5),
            _row("a|1", "red", 3, 6),
            _row("a|1", "red", 4, 7),
            _row("a|1", "green", 2, 6),
            _row("a|1", "blue", 1, 5),
            _row("a|1", "blue", 2, 7),
        ],
        SEEN,
    )
    reached = rule.advance_frontiers(rows, _empty(spark, STORED), _empty(spark, DELETED))
    agreed = rule.align_tags(reached, rows)
    frontiers = {row.tag: (row.reached_number, row.reached_sequence_nr) for row in agreed.collect()}
    assert frontiers == {"red": (2, 5), "green": (0, None), "blue": (1, 5)}
    offsets = rule.offset_rows(agreed).orderBy("tag").collect()
    number = keys.slice_of("a|1")
    assert offsets == [
        (number, "a|1", "blue", 5, 1, "t-5"),
        (number, "a|1", "red", 5, 2, "t-5"),
    ]
    marked = rule.validate_events(rows, agreed, rows.is_back)
    held = rule.held_back(marked).orderBy("sequence_nr").collect()
    assert held == [("a|1", 6), ("a|1", 7)]


def test_gaps_are_named_by_time_bucket(spark: SparkSession) -> None:
    rows = local_rows(
        spark,
        [
            *[_row("p|1", "red", number, number, bucket=1) for number in (1, 2, 3, 7)],
            _row("p|1", "red", 9, 9, bucket=2),
            *[_row(f"q|{number}", "", 2, 2, bucket=2) for number in range(4)],
            _row("w|1", "", 2, 2, bucket=1),
        ],
        SEEN,
    )
    waiting = local_rows(spark, [_row("w|1", "", 1, 1, there=False)], SEEN)
    everything = rows.unionByName(waiting)
    reached = rule.advance_frontiers(everything, _empty(spark, STORED), _empty(spark, DELETED))
    marked = rule.validate_events(rows, reached, rows.is_back)
    assert gaps.errors(gaps.named(gaps.of_buckets(marked, everything, reached)).collect()) == {
        1: "gap: p|1 red 4..6 missing, w|1 1 held",
        2: "gap: p|1 red 4..6 8 missing, q|0 1 missing, q|1 1 missing, and 2 more",
    }


@pytest.mark.parametrize(
    ("tag", "numbers", "stored", "deleted_to", "expected"),
    [
        ("", {6: 6}, (3, 3), 5, [(4, 5)]),
        ("", {}, (3, 3), 5, [(4, 5)]),
        ("", {4: 4, 5: 5}, (3, 3), 5, []),
        ("", {}, (5, 5), 5, []),
        ("", {6: 6}, None, 5, []),
        ("red", {4: 9}, (2, 5), 8, [(3, 3)]),
        ("red", {4: 9}, (2, 5), 5, []),
        ("red", {3: 9}, (2, 5), 8, []),
    ],
)
def test_what_was_deleted_before_it_was_consumed(
    spark: SparkSession,
    tag: str,
    numbers: Mapping[int, int],
    stored: tuple[int, int] | None,
    deleted_to: int,
    expected: list[tuple[int, int]],
) -> None:
    rows = local_rows(
        spark,
        [_row("p|1", tag, number, sequence_nr) for number, sequence_nr in numbers.items()],
        SEEN,
    )
    offsets = local_rows(spark, [("p|1", tag, *stored)] if stored else [], STORED)
    deleted = local_rows(spark, [("p|1", deleted_to)], DELETED)
    reached = rule.advance_frontiers(rows, offsets, deleted)
    lost = gaps.purged(reached, rows).select("first_number", "last_number").collect()
    assert lost == expected


def judged(
    spark: SparkSession, histories: Mapping[str, Series]
) -> dict[str, list[tuple[int, Validation]]]:
    """Return Spark's result for each event that is `there`; all have the same `truncated_from`."""
    rows = local_rows(
        spark,
        [
            _row(
                name,
                "",
                event.number,
                event.number,
                event.there,
                event.before,
                event.back,
                event.bucket,
            )
            for name, series in histories.items()
            for event in series.events
        ],
        SEEN,
    )
    stored = local_rows(
        spark,
        [
            (name, "", series.stored, series.stored)
            for name, series in histories.items()
            if series.stored is not None
        ],
        STORED,
    )
    deleted = local_rows(
        spark,
        [(name, series.deleted_to) for name, series in histories.items() if series.deleted_to],
        DELETED,
    )
    truncated_from = next(iter(histories.values())).truncated_from
    reached = rule.advance_frontiers(rows, stored, deleted, truncated_from=truncated_from)
    marked = rule.validate_events(rows.where("is_there"), reached, rows.is_back)
    verdicts: dict[str, list[tuple[int, Validation]]] = {}
    for row in marked.select("persistence_id", "number", "result").collect():
        verdicts.setdefault(row.persistence_id, []).append((row.number, Validation(row.result)))
    return {name: sorted(results) for name, results in verdicts.items()}


def _row(
    persistence_id: str,
    tag: str,
    number: int,
    sequence_nr: int,
    there: bool = True,
    before: bool = False,
    back: bool = False,
    bucket: int = 0,
) -> tuple[object, ...]:
    event_uuid = f"t-{sequence_nr}"
    return persistence_id, tag, number, sequence_nr, event_uuid, there, before, back, bucket


def _empty(spark: SparkSession, schema: str) -> DataFrame:
    return local_rows(spark, [], schema)
