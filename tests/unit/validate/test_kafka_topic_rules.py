"""What verify takes for findings where Kafka holds only the last records of a journal, or all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.replicate.replication_model import Action, Stored, histories
from tests.unit.replicate.test_events import decoded, record
from tests.unit.replicate.test_fold import DAY, FIELDS, HEADS, TODAY
from tidemark.journals.kafka.wire.json_text import normal
from tidemark.replicate import shapes
from tidemark.replicate.events import journal_rows
from tidemark.replicate.fold import folded
from tidemark.replicate.folding import ActionBatch
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl
from tidemark.validate.layers.kafka_topic import events, heads, records
from tidemark.validate.layers.kafka_topic.records import Expiry
from tidemark.validate.layers.kafka_topic.shapes import BOUNDS

AT = datetime(2024, 3, 1, tzinfo=UTC)
FIRST = datetime(2024, 2, 3, tzinfo=UTC)
SIZE = 2
END = 100
Found = set[tuple[str, str, int]]


def at(action: Action) -> datetime:
    return FIRST + timedelta(seconds=action.offset)


def findings(
    spark: SparkSession,
    said: Mapping[str, Sequence[Action]],
    stored: Mapping[str, tuple[Stored, Sequence[Action]]],
    *,
    is_complete: bool,
) -> Found:
    """Compare records with the rows that others have left; each journal has its own partition."""
    partition = {name: place for place, name in enumerate(stored)}
    found = decoded(
        spark,
        [
            record(name, one)
            | {
                "partition": partition[name],
                "timestamp": at(one).isoformat(),
                "expire_after": one.days and one.days * DAY,
            }
            for name, actions in said.items()
            for one in actions
        ],
    )
    limits = local_rows(
        spark,
        [("t", place, 0, 0, END, END, is_complete) for place in partition.values()],
        ddl(BOUNDS),
    )
    read = records.read(found)
    actions = records.actions(read)
    nothing = local_rows(spark, [], ddl(shapes.HEADS))
    after = folded(actions, nothing, ActionBatch(AT, "UTC", SIZE))
    journals = records.journals(after, actions, limits)
    stored_heads = head_rows(spark, stored, partition)
    rows = events.judged(events.briefly(journal_rows(found, after), by_value=False), limits)
    in_journal = events.briefly(event_rows(spark, stored, partition), by_value=False)
    expiry = Expiry(date(2024, 2, 4), "UTC")
    verdicts = events.verdicts(rows, in_journal, read, journals, stored_heads, limits, expiry)
    all_found = events.event_findings(verdicts, rows).unionByName(
        heads.head_findings(journals, stored_heads, read, verdicts, expiry)
    )
    return {
        (row["check_name"], row["persistence_id"], row["number"]) for row in all_found.collect()
    }


def head_rows(
    spark: SparkSession,
    stored: Mapping[str, tuple[Stored, Sequence[Action]]],
    partition: Mapping[str, int],
) -> DataFrame:
    rows = [
        (
            *("t", name, 77, partition[name], head.offset, head.size, head.seq_nr, head.delete_to),
            head.days and head.days * DAY,
            head.days and TODAY + timedelta(days=head.days),
            *(None, head.origin),
        )
        for name, (one, _) in stored.items()
        if (head := one.head) is not None
    ]
    fields = ", ".join(f"'{name}', {name}" for name in FIELDS)
    return local_rows(spark, rows, HEADS).selectExpr(
        "topic",
        "id",
        f"named_struct({fields}, 'is_new', false) AS head",
        "offset AS write_time",
    )


def event_rows(
    spark: SparkSession,
    stored: Mapping[str, tuple[Stored, Sequence[Action]]],
    partition: Mapping[str, int],
) -> DataFrame:
    rows = []
    for name, (one, history) in stored.items():
        by_offset = {action.offset: action for action in history}
        for segment, number, offset in one.rows:
            action = by_offset[offset]
            event = {
                "topic": "t",
                "id": name,
                "segment": segment,
                "seq_nr": number,
                "timestamp": at(action).isoformat(),
                "partition": partition[name],
                "offset": offset,
                "origin": action.origin,
                "tags": ["t"],
                "metadata": "{}",
                "payload_type": "text",
                "payload_txt": f"{number}",
                "headers": {"h": "v"},
            }
            rows.append((json.dumps(event),))
    parsed = F.from_json("row", ddl(shapes.JOURNAL_ROWS)).alias("row")
    return local_rows(spark, rows, "row string").select(parsed).select("row.*")


def test_what_a_replicator_has_left_is_no_finding_however_much_kafka_still_holds(
    spark: SparkSession, examples: Examples
) -> None:
    """Compaction and retention take the first records of a journal, and leave the last ones."""
    stored, kept, whole = {}, {}, {}
    for place, (actions, cut, _) in enumerate(examples(histories(), 300)):
        one = Stored()
        one.apply(actions, SIZE)
        name = f"id {place}"
        stored[name] = one, actions
        whole[name] = actions
        kept[name] = actions[min(cut, len(actions) - 1) :]
    for said, is_complete in ((whole, True), (kept, False)):
        found = findings(spark, said, stored, is_complete=is_complete)
        wrong = {
            (check, number): (stored[name], said[name])
            for check, name, number in found
            if check != "kafka_fork"
        }
        assert wrong == {}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a":1.0,"b":[1e2,-0]}', '{ "b" : [100, 0.0], "a" : 1 }', True),
        ("1E+100", "1" + 100 * "0", True),
        ('{"a":1}', '{"a":"1"}', False),
        ("[1,2]", "[2,1]", False),
        ("null", "", False),
        ("no JSON", "no  JSON", False),
    ],
)
def test_json_texts_of_one_value_are_alike(one: str, other: str, is_same: bool) -> None:
    assert (normal(one) == normal(other)) is is_same
