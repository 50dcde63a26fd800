"""What the actions on journals make of them, by Spark and by a model with loops."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.unit.conftest import Examples
from tests.unit.replicate.replication_model import Action, Head, Stored, histories, record_id
from tidemark.journals.kafka.tables import SEGMENTS
from tidemark.partitioning.keys import head_segment
from tidemark.replicate.fold import folded
from tidemark.replicate.folding import ActionBatch
from tidemark.spark.local_rows import local_rows

DAY = 86_400 * 10**9
AT = datetime(2024, 3, 1, 23, 30, tzinfo=UTC)
ZONE = "Europe/Berlin"
TODAY = date(2024, 3, 2)
SIZES = (2, 3)
ACTIONS = (
    "topic string, id string, partition int, offset bigint, action string, to bigint,"
    " first_nr bigint, last_nr bigint, expire_after bigint, origin string, bytes bigint"
)
HEADS = (
    "topic string, id string, segment bigint, partition int, offset bigint, segment_size int,"
    " seq_nr bigint, delete_to bigint, expire_after bigint, expire_on date, record_id string,"
    " origin string"
)
FIELDS = [column.split()[0] for column in HEADS.split(",")][2:]
HEAD_NAMES = [name for name in FIELDS if name != "segment"]
"""What the model knows of a head."""
Key = tuple[int, int, int]
"""(segment, seq nr, offset) of a row of journal."""


def fold(
    spark: SparkSession,
    stored: Mapping[str, Stored],
    actions: Mapping[str, Sequence[Action]],
    size: int,
) -> dict[str, Row]:
    """Fold the actions on each journal into its stored head; return those that have changed."""
    records = [
        (
            *("t", name, 3, a.offset, a.kind, a.to, *_ends(a.numbers)),
            *(a.days and a.days * DAY, a.origin, len(a.numbers) or None),
        )
        for name, of_id in actions.items()
        for a in of_id
    ]
    heads = [
        (
            *("t", name, 77, 3, head.offset, head.size, head.seq_nr, head.delete_to),
            head.days and head.days * DAY,
            head.days and TODAY + timedelta(days=head.days),
            None if head.record is None else record_id(name, head.record),
            head.origin,
        )
        for name, one in stored.items()
        if (head := one.head) is not None
    ]
    fields = ", ".join(f"'{name}', {name}" for name in FIELDS)
    frame = local_rows(spark, heads, HEADS).selectExpr(
        "topic",
        "id",
        f"named_struct({fields}, 'is_new', false) AS head",
        "offset AS write_time",
    )
    found = folded(
        local_rows(spark, records, ACTIONS),
        frame,
        ActionBatch(AT, ZONE, size),
        appends_only=all(a.kind == "append" for of_id in actions.values() for a in of_id),
    ).collect()
    result = {row["id"]: row for row in found}
    assert len(result) == len(found)
    return result


def left(name: str, before: Stored, actions: Sequence[Action], row: Row | None) -> dict[str, Any]:
    """Return what is stored after the writes that a folded journal asks for."""
    rows: dict[Key, str | None] = {
        key: None if record is None else record_id(name, record)
        for key, record in before.rows.items()
    }
    if row is None:
        return {"head": _head(before, name), "rows": rows}
    seen = -1 if before.head is None else before.head.offset
    for action in actions:
        if action.kind == "append" and action.offset > seen:
            life = [one for one in row["lives"] if one["offset"] <= action.offset][-1]
            for number in action.numbers:
                segment = (number - 1) // life["segment_size"]
                rows[segment, number, action.offset] = life["record_id"]
    kept = {
        (segment, number, offset): record
        for (segment, number, offset), record in rows.items()
        if not any(
            offset <= d["offset"]
            and d["first"] <= segment <= d["last"]
            and (d["up_to"] is None or segment < d["last"] or number <= d["up_to"])
            for d in row["deletions"]
        )
    }
    head = row["head"]
    return {"head": head and {name: head[name] for name in HEAD_NAMES}, "rows": kept}


def _head(stored: Stored, name: str) -> dict[str, Any] | None:
    """Return the head of a journal of the model as a row of metajournal."""
    head = stored.head
    if head is None:
        return None
    return {
        "partition": 3,
        "offset": head.offset,
        "segment_size": head.size,
        "seq_nr": head.seq_nr,
        "delete_to": head.delete_to,
        "expire_after": head.days and head.days * DAY,
        "expire_on": head.days and TODAY + timedelta(days=head.days),
        "record_id": None if head.record is None else record_id(name, head.record),
        "origin": head.origin,
    }


def _ends(numbers: Sequence[int]) -> tuple[int | None, int | None]:
    return (numbers[0], numbers[-1]) if numbers else (None, None)


@pytest.mark.parametrize(
    ("size", "kinds"),
    [*((size, ("append", "delete", "purge")) for size in SIZES), (SIZES[0], ("append",))],
)
def test_actions_end_as_one_after_the_other_wherever_runs_end(
    spark: SparkSession, examples: Examples, size: int, kinds: Sequence[str]
) -> None:
    drawn = {f"id {place}": history for place, history in enumerate(examples(histories(), 400))}
    before, replayed, expected = {}, {}, {}
    for name, (drawn_actions, cut, left_over) in drawn.items():
        actions = [action for action in drawn_actions if action.kind in kinds]
        before[name] = Stored(rows={((nr - 1) // 2, nr, -1): None for nr in left_over})
        before[name].apply(actions[:cut], 2)
        # A run that has died behind its heads leaves the pointer where it was.
        replayed[name] = actions if before[name].head is not None else actions[cut:]
        expected[name] = before[name].copy()
        expected[name].apply(actions[cut:], size)
    found = fold(spark, before, replayed, size)
    for name, history in drawn.items():
        result = left(name, before[name], replayed[name], found.get(name))
        rows = {
            key: None if record is None else record_id(name, record)
            for key, record in expected[name].rows.items()
        }
        told = {"head": _head(expected[name], name), "rows": rows}
        assert (history, before[name], result) == (history, before[name], told)


def test_heads_are_found_where_they_were_and_made_where_readers_look_first(
    spark: SparkSession,
) -> None:
    old = Stored()
    old.apply([Action(0, "append", (1,))], 2)
    append = [Action(2, "append", (2,))]
    found = fold(spark, {"old": old}, {"old": append, "new": append}, 2)
    assert {
        name: (row["head"]["segment"], row["head"]["is_new"]) for name, row in found.items()
    } == {
        "old": (77, False),
        "new": (head_segment("new", SEGMENTS), True),
    }


@pytest.mark.parametrize("size", [None, 1])
def test_a_head_without_a_segment_size_keeps_none_and_is_read_with_the_default(
    spark: SparkSession, size: int | None
) -> None:
    head = Head(0, size, seq_nr=2, delete_to=None, days=None, origin=None, record=0)
    actions = [Action(2, "append", (3,)), Action(4, "delete", to=1)]
    row = fold(spark, {"id": Stored(head)}, {"id": actions}, 3)["id"]
    assert row["head"]["segment_size"] == size
    assert [life["segment_size"] for life in row["lives"]] == [10_000]
    [deletion] = row["deletions"]
    assert (deletion["first"], deletion["last"], deletion["up_to"]) == (0, 0, 1)


def test_repeat_purge_for_same_offset(spark: SparkSession) -> None:
    stored = Stored()
    stored.apply([Action(4, "append", (1,))], 2)
    found = fold(spark, {"id": stored}, {"id": [Action(4, "purge")]}, 2)
    assert left("id", stored, [], found["id"]) == {"head": None, "rows": {}}


def test_a_reader_sees_what_the_batches_of_the_replicator_leave(spark: SparkSession) -> None:
    """The batches are those of BatchSpec.

    What two deletes of a journal without a head leave depends on where upstream's polls end: it
    makes one of them if they come together, and the second changes the first one's head if not.
    """
    file = Path(__file__).parent / "data" / "kafka_journal_batch_cases.json"
    cases = {str(place): case for place, case in enumerate(json.loads(file.read_text())["cases"])}
    actions = {
        name: [_action(one) for one in case["actions"] if one["action"] != "mark"]
        for name, case in cases.items()
    }
    found = fold(spark, {}, actions, 2)
    alike = 0
    for name, case in cases.items():
        by_offset = {action.offset: action for action in actions[name]}
        batched, polled = Stored(), Stored()
        for batch in case["batches"]:
            offsets = batch.get("records", [batch["offset"]])
            batched.apply([by_offset[offset] for offset in offsets], 2)
        polled.apply(actions[name], 2)
        is_only_deletes = len(actions[name]) > 1 and {a.kind for a in actions[name]} == {"delete"}
        alike += not is_only_deletes
        expected = polled if is_only_deletes else batched
        result = left(name, Stored(), actions[name], found.get(name))
        assert (case, _readable(result["head"], result["rows"])) == (
            case,
            _readable(_head(expected, name), expected.rows),
        )
    assert (len(cases), alike) == (30, 27)


def _action(written: Mapping[str, Any]) -> Action:
    kind = written["action"]
    numbers = tuple(range(written["from"], written["to"] + 1)) if kind == "append" else ()
    return Action(written["offset"], kind, numbers, to=None if numbers else written.get("to"))


def _readable(head: dict[str, Any] | None, rows: Mapping[Key, Any]) -> tuple[Any, ...]:
    """Return what a reader takes of a head, and the numbers of the events that it finds."""
    if head is None:
        return (None, [])
    deleted_to = head["delete_to"] or 0
    numbers = sorted(number for _, number, _ in rows if number > deleted_to)
    return ((head["seq_nr"], head["delete_to"]), numbers)
