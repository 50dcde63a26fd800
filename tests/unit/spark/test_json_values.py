"""Values of payloads against their declared types: one table, for projections and tag rules."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.projection.testing import run_projection, unreadable_events
from tidemark.spark.shapes import ddl
from tidemark.tag_write import rules, shapes

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
UNFIT = "does not fit"
BIG = "12345678901234567890.10"
VECTORS = [
    ("TINYINT", "-128", -128),
    ("TINYINT", "200", UNFIT),
    ("SMALLINT", "40000", UNFIT),
    ("INT", "2147483648", UNFIT),
    ("INT", "1.0", UNFIT),
    ("INT", '"1"', UNFIT),
    ("INT", "true", UNFIT),
    ("BIGINT", "9223372036854775807", 2**63 - 1),
    ("BIGINT", "9223372036854775808", UNFIT),
    ("BOOLEAN", "true", True),
    ("BOOLEAN", '"true"', UNFIT),
    ("BOOLEAN", "1", UNFIT),
    ("DECIMAL(9,2)", "12.34", Decimal("12.34")),
    ("DECIMAL(9,2)", "12.3400", Decimal("12.34")),
    ("DECIMAL(9,2)", "12.345", UNFIT),
    ("DECIMAL(9,2)", '"12.34"', Decimal("12.34")),
    ("DECIMAL(9,2)", '"12.345"', UNFIT),
    ("DECIMAL(9,2)", '"1,234"', UNFIT),
    ("DECIMAL(9,2)", '""', UNFIT),
    ("DECIMAL(9,2)", "true", UNFIT),
    ("DECIMAL(9,2)", "1.5e1", Decimal("15.00")),
    ("DECIMAL(9,2)", "1.5e-3", UNFIT),
    ("DECIMAL(9,2)", "12345678.00", UNFIT),
    ("DECIMAL(9,0)", "0.5", UNFIT),
    ("DECIMAL(38,18)", "0.1234567890123456789", UNFIT),
    ("DECIMAL(38,18)", "12345678901234567890.123456789012345678",
     Decimal("12345678901234567890.123456789012345678")),
    ("DOUBLE", "0.30000000000000004", 0.30000000000000004),
    ("DOUBLE", "3", 3.0),
    ("DOUBLE", "1e400", UNFIT),
    ("DOUBLE", '"0.5"', UNFIT),
    ("DOUBLE", '"Infinity"', float("inf")),
    ("FLOAT", "1e39", UNFIT),
    ("FLOAT", "0.5", 0.5),
    ("STRING", '"12.10"', "12.10"),
    ("STRING", "12.10", "12.10"),
    ("STRING", BIG, BIG),
    ("STRING", "1e400", "1e400"),
    ("STRING", f'{{"x":{BIG},"y":[1.50]}}', f'{{"x":{BIG},"y":[1.50]}}'),
    ("DATE", '"2026-01-31"', date(2026, 1, 31)),
    ("DATE", '"0000-00-00"', UNFIT),
    ("DATE", '"2026-02-30"', UNFIT),
    ("DATE", '"2026-1-31"', UNFIT),
    ("DATE", '"2026-01-31T12:00:00Z"', UNFIT),
    ("DATE", '"20484"', UNFIT),
    ("DATE", "20484", UNFIT),
    ("DATE", '"31.01.2026"', UNFIT),
    ("TIMESTAMP", '"2026-01-31T12:00:00Z"', NOON),
    ("TIMESTAMP", '"2026-01-31T13:00:00+01:00"', NOON),
    ("TIMESTAMP", '"2026-01-31 12:00"', NOON),
    ("TIMESTAMP", '"2026-01-31T12:00:00.000001"', NOON.replace(microsecond=1)),
    ("TIMESTAMP", '"2026-01-31T12:00:00.000001000Z"', NOON.replace(microsecond=1)),
    ("TIMESTAMP", '"2026-01-31T12:00:00.000000001Z"', UNFIT),
    ("TIMESTAMP", '"2026-01-31"', NOON.replace(hour=0)),
    ("TIMESTAMP", '"10:00:00"', UNFIT),
    ("TIMESTAMP", '"T10:00:00"', UNFIT),
    ("TIMESTAMP", '"2026"', UNFIT),
    ("TIMESTAMP", '"2026-01"', UNFIT),
    ("TIMESTAMP", '"1795168800"', UNFIT),
    ("TIMESTAMP", "1795168800000", UNFIT),
    ("TIMESTAMP", "1795168800", UNFIT),
    ("TIMESTAMP", "1795168800.5", UNFIT),
    ("TIMESTAMP", '"0000-00-00T00:00:00Z"', UNFIT),
    ("ARRAY<DECIMAL(9,2)>", "[1, 2.50]", [Decimal("1.00"), Decimal("2.50")]),
    ("ARRAY<DECIMAL(9,2)>", "[1, 2.505]", UNFIT),
    ("MAP<STRING, TIMESTAMP>", '{"a": 5}', UNFIT),
    ("STRUCT<n TINYINT, at DATE>", '{"n": 1, "at": "2026-01-31"}',
     {"n": 1, "at": date(2026, 1, 31)}),
    ("STRUCT<n TINYINT, at DATE>", '{"n": 1, "at": "today"}', UNFIT),
    ("STRUCT<n INT, t STRING>", '{"n": 1, "t": 1.50}', {"n": 1, "t": "1.50"}),
    ("ARRAY<INT>", "[1, null]", [1, None]),
]  # fmt: skip
KINDS = list(dict.fromkeys(kind for kind, _, _ in VECTORS))
EVENT = ", ".join(f"v{place} {kind}" for place, kind in enumerate(KINDS))
FIELDS = [f"v{place}" for place in range(len(KINDS))]
TEXTS = [
    *((f'{{"v{KINDS.index(kind)}":{text}}}', value) for kind, text, value in VECTORS),
    ('{"v1":1} {"v1":2}', UNFIT),
    ('{"v1":1},{"v1":2}', UNFIT),
    ('[{"v1":1}]', UNFIT),
    ('{"v1":1}x', UNFIT),
    (' {"v1":1} \n', 1),
    ('{"v1":null}', None),
    ("{}", None),
]
DEFINITION = f"""\
/*---
name: one
version: 1
source: messages
mode: upsert
target: flights.one
event: {EVENT}
---*/

SELECT persistence_id, sequence_nr, {", ".join(FIELDS)} FROM events
"""


def test_a_value_is_read_as_it_is_or_makes_its_event_unreadable(spark: SparkSession) -> None:
    events: list[dict[str, Any]] = [
        {
            "persistence_id": str(number),
            "sequence_nr": 1,
            "timestamp": "2026-01-31T12:00:00Z",
            "event": text.encode(),
        }
        for number, (text, _) in enumerate(TEXTS)
    ]
    unreadable = unreadable_events(DEFINITION, events, spark=spark)
    unfit = {number for number, (_, value) in enumerate(TEXTS) if value is UNFIT}
    assert {int(pid) for pid, _ in unreadable} == unfit
    readable = [one for one in events if int(one["persistence_id"]) not in unfit]
    for row in run_projection(DEFINITION, readable, spark=spark):
        text, value = TEXTS[int(row["persistence_id"])]
        [*values] = [row[name] for name in FIELDS if row[name] is not None]
        assert values == ([] if value is None else [value]), text


def test_a_tag_rule_reads_the_same_values(spark: SparkSession, tmp_path: Path) -> None:
    """What makes an event unreadable there is null in every field here."""
    none = " AND ".join(f"{name} IS NULL" for name in FIELDS)
    (tmp_path / "none.sql").write_text(f"/*---\ntag: none\nevent: {EVENT}\n---*/\n\n{none}\n")
    loaded = rules.load(tmp_path)
    rows: list[Any] = [
        {**dict.fromkeys(shapes.READ), "sequence_nr": number, "event": text.encode()}
        for number, (text, _) in enumerate(TEXTS)
    ]
    messages = spark.createDataFrame(rows, ddl(shapes.READ))
    tagged = rules.with_rule_tags(messages, loaded).orderBy("sequence_nr").collect()
    for row, (text, value) in zip(tagged, TEXTS, strict=True):
        assert bool(row.tags) == (value is UNFIT or value is None), text
