"""Times in forms of their own: one table for definitions and for tag rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import DefinitionError
from tidemark.projection.testing import run_projection, unreadable_events
from tidemark.spark.shapes import ddl
from tidemark.tag_write import rules, shapes

FORMATS = {
    "seconds": "epoch-seconds",
    "millis": "epoch-millis",
    "micros": "epoch-micros",
    "european": "dd.MM.yyyy HH:mm",
    "zoned": "yyyyMMdd HHmmXXX",
    "day": "yyyyMMdd",
}
FIELDS = ", ".join(f"{name} TIMESTAMP" for name in FORMATS)
DEFINITION = f"""\
/*---
name: times
version: 1
source: messages
mode: append
target: t.times
event: {FIELDS}, other STRING
formats: {json.dumps(FORMATS)}
more
---*/
SELECT persistence_id, sequence_nr, coalesce({", ".join(FORMATS)}) AS at FROM events
"""
RULE = f"""\
/*---
tag: timed
event: {FIELDS}
formats: {json.dumps(FORMATS)}
---*/
coalesce({", ".join(FORMATS)}) IS NOT NULL
"""
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())
TABLE = [
    ("seconds", str(SECONDS), NOON),
    ("seconds", f'"{SECONDS}"', NOON),
    ("seconds", f"{SECONDS}.250000000", NOON.replace(microsecond=250_000)),
    ("seconds", "-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("seconds", f"{SECONDS}.000000001", "unreadable"),
    ("seconds", "253402300800", "unreadable"),
    ("seconds", '"noon"', "unreadable"),
    ("millis", f"{SECONDS}001", NOON.replace(microsecond=1000)),
    ("millis", f"{SECONDS}001.5", "unreadable"),
    ("millis", "9223372036854775807", "unreadable"),
    ("micros", f"{SECONDS}000001", NOON.replace(microsecond=1)),
    ("european", '"01.01.2013 12:00"', NOON),
    ("european", '"1.1.2013 12:00"', "unreadable"),
    ("european", '"31.02.2013 12:00"', "unreadable"),
    ("european", '"01.01.2013 12:00:30"', "unreadable"),
    ("zoned", '"20130101 1400+02:00"', NOON),
    ("day", "20130101", NOON.replace(hour=0)),
    ("millis", "null", None),
]  # fmt: skip


EVENTS: list[dict[str, Any]] = [
    {
        "persistence_id": "p",
        "sequence_nr": number,
        "timestamp": NOON,
        "event": f'{{"{field}":{text}}}'.encode(),
    }
    for number, (field, text, _) in enumerate(TABLE)
]


@pytest.mark.parametrize(
    "more", ["", "decoders: [{serializer-id: 1, kind: string, field: other}, json]"]
)
def test_a_value_is_the_time_that_it_stands_for_or_unreadable(
    spark: SparkSession, more: str
) -> None:
    definition = DEFINITION.replace("more", more)
    causes = unreadable_events(definition, EVENTS, spark=spark)
    readable = [event for event in EVENTS if ("p", event["sequence_nr"]) not in causes]
    times: dict[int, Any] = {
        row["sequence_nr"]: row["at"] for row in run_projection(definition, readable, spark=spark)
    }
    assert [
        (field, text, times.get(number, "unreadable"))
        for number, (field, text, _) in enumerate(TABLE)
    ] == TABLE
    assert all(
        "is no time in the format" in cause or " is not " in cause for cause in causes.values()
    )


def test_a_tag_rule_reads_the_same_times(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rule.sql").write_text(RULE)
    loaded = rules.load(tmp_path)
    rules.check(spark, loaded)
    rows: list[Any] = [
        {**dict.fromkeys(shapes.READ), "sequence_nr": number, "event": event["event"]}
        for number, event in enumerate(EVENTS)
    ]
    messages = spark.createDataFrame(rows, ddl(shapes.READ))
    tagged = rules.with_rule_tags(messages, loaded).orderBy("sequence_nr").collect()
    assert [bool(row.tags) for row in tagged] == [
        isinstance(expected, datetime) for _, _, expected in TABLE
    ]


@pytest.mark.parametrize(
    ("formats", "what"),
    [
        ('{"day": "HH:mm"}', "'HH:mm' has no year, month and day"),
        ('{"day": "dd.MM.yyyy {"}', "is no pattern of Spark"),
        ('{"day": "epoch-days"}', "is no pattern of Spark|has no year"),
        ('{"other": "epoch-millis"}', "other is string, not timestamp"),
        ('{"no": "epoch-millis"}', "no is not a field"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused(
    spark: SparkSession, formats: str, what: str
) -> None:
    definition = DEFINITION.replace("more", "").replace(json.dumps(FORMATS), formats)
    with pytest.raises(DefinitionError, match=what):
        run_projection(definition, [], spark=spark)
