"""The actions in decoded records, and the rows of journal that come of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.conftest import Examples
from tests.unit.replicate.replication_model import Action, Stored, histories, record_id
from tidemark.journals.kafka.wire.shapes import DECODED
from tidemark.replicate.events import actions_of, journal_rows
from tidemark.replicate.fold import folded
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.shapes import HEADS
from tidemark.spark.local_rows import local_rows

AT = datetime(2024, 3, 1, tzinfo=UTC)


def decoded(spark: SparkSession, records: Sequence[dict[str, Any]]) -> DataFrame:
    """Return records as they are decoded; what is not named is null."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in DECODED.items())
    texts = [(json.dumps(record),) for record in records]
    frame = local_rows(spark, texts, "record string")
    return frame.selectExpr(f"from_json(record, '{schema}') AS record").select("record.*")


def record(name: str, action: Action) -> dict[str, Any]:
    """Return what a record of an action holds."""
    events = [
        {"seq_nr": number, "tags": ["t"], "payload_type": "text", "payload_txt": f"{number}"}
        for number in action.numbers
    ]
    is_append = action.kind == "append"
    return {
        "topic": "t",
        "partition": 3,
        "offset": action.offset,
        "timestamp": "2024-02-03T04:05:06.007Z",
        "id": name,
        "action": action.kind,
        "to": action.to,
        "origin": action.origin,
        **({"events": events, "headers": {"h": "v"}, "metadata": "{}"} if is_append else {}),
    }


def test_marks_and_records_that_are_passed_over_are_no_actions(spark: SparkSession) -> None:
    records = [
        record("p", Action(1, "append", (3, 4), origin="here")),
        record("p", Action(2, "mark")),
        {"topic": "t", "partition": 3, "offset": 3},
        {"topic": "t", "partition": 3, "offset": 4, "cause": "broken"},
        record("p", Action(5, "delete", to=4)),
        record("p", Action(6, "purge")),
    ]
    found = actions_of(decoded(spark, records)).orderBy("offset").collect()
    assert [
        (row["action"], row["offset"], row["to"], row["first_nr"], row["last_nr"], row["origin"])
        for row in found
    ] == [
        ("append", 1, None, 3, 4, "here"),
        ("delete", 5, 4, None, None, None),
        ("purge", 6, None, None, None, None),
    ]


@pytest.mark.parametrize(("size", "appends_only"), [(2, False), (3, False), (2, True)])
def test_rows_are_those_that_are_left_behind_all_actions(
    spark: SparkSession, examples: Examples, size: int, appends_only: bool
) -> None:
    drawn = {
        f"id {place}": [one for one in actions if one.kind == "append" or not appends_only]
        for place, (actions, _, _) in enumerate(examples(histories(), 300))
    }
    records = [record(name, action) for name, actions in drawn.items() for action in actions]
    frame = decoded(spark, records)
    heads = ", ".join(f"{name} {kind}" for name, kind in HEADS.items())
    none = spark.createDataFrame([], heads)
    batch = ActionBatch(AT, "UTC", size)
    after = folded(actions_of(frame), none, batch, appends_only=appends_only)
    rows = journal_rows(frame, after, appends_only=appends_only).collect()
    found: dict[str, dict[tuple[int, int, int], str | None]] = {name: {} for name in drawn}
    for row in rows:
        key = (row["segment"], row["seq_nr"], row["offset"])
        assert key not in found[row["id"]]
        found[row["id"]][key] = row["meta_record_id"]
        assert row["payload_txt"] == str(row["seq_nr"])
    for name, actions in drawn.items():
        stored = Stored()
        stored.apply(actions, size)
        expected = {
            key: None if of is None else record_id(name, of) for key, of in stored.rows.items()
        }
        assert (actions, found[name]) == (actions, expected)
