"""What does not fit is an error in users' SQL, and what it was in Tidemark's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.errors import TidemarkError
from tidemark.projection.testing import failed_checks, run_projection
from tidemark.spark.shapes import ddl
from tidemark.tag_write import events, rules, shapes

DEFINITION = """\
/*---
name: one
version: 1
source: messages
mode: upsert
target: flights.one
event: minutes INT, code STRING
checks: ["100 / minutes < 60"]
---*/

SELECT persistence_id, sequence_nr, {value} AS value, minutes FROM events
"""
RULE = """\
/*---
tag: slow
event: distance INT, minutes INT
---*/

distance / minutes < 5
"""


def event(**fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "persistence_id": "a|1",
            "sequence_nr": 1,
            "timestamp": "2024-03-01T12:00:00Z",
            "minutes": 40,
            **fields,
        }
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("minutes * 60 * 1000 * 1000", "overflow"),
        ("1 / (minutes - 40)", "Division by zero"),
        ("CAST(code AS INT)", "cannot be cast"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_in_a_select(
    spark: SparkSession, value: str, why: str
) -> None:
    with pytest.raises(TidemarkError, match=f"1 event cannot be processed.*{why}"):
        run_projection(DEFINITION.format(value=value), event(code="A1"), spark=spark)
    tried = DEFINITION.format(value="try_cast(code AS INT)")
    assert run_projection(tried, event(code="A1"), spark=spark)[0]["value"] is None


def test_a_row_that_a_check_cannot_be_evaluated_for_fails_it(spark: SparkSession) -> None:
    for minutes, failing in ((0, 1), (40, 0), (None, 0)):
        found = failed_checks(DEFINITION.format(value=1), event(minutes=minutes), spark=spark)
        assert found.get("100 / minutes < 60", 0) == failing


def test_tidemarks_own_expressions_keep_sparks_default(spark: SparkSession) -> None:
    run_projection(DEFINITION.format(value=1), event(), spark=spark)
    assert spark.range(1).select(F.expr("CAST('x' AS INT)")).collect() == [(None,)]


def test_an_event_that_a_tag_rule_cannot_be_evaluated_for_is_unwritable(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "slow.sql").write_text(RULE)
    loaded = rules.load(tmp_path)
    rules.check(spark, loaded)
    payloads = [(40, 10), (400, 10), (40, 0), (40, None)]
    rows: list[Any] = [
        {
            **dict.fromkeys(shapes.READ),
            "persistence_id": "a|1",
            "sequence_nr": number,
            "ticks": 139_000_000_000_000_000,
            "ser_id": 1,
            "event": json.dumps({"distance": distance, "minutes": minutes}).encode(),
        }
        for number, (distance, minutes) in enumerate(payloads, start=1)
    ]
    messages = spark.createDataFrame(rows, ddl(shapes.READ))
    tagged = events.tagged(messages, loaded).orderBy("sequence_nr").collect()
    assert [row.tags for row in tagged] == [["slow"], None, None, None]
    assert [row.unwritable_tags for row in tagged] == [None, None, ["slow"], None]
    assert [row.cause for row in tagged] == [
        None,
        None,
        "the rule of this tag cannot be evaluated for it: slow",
        None,
    ]
