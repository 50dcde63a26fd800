"""Rows of mode upsert that say that they are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import SchemaMismatch
from tidemark.projection.testing import failed_checks, run_projection

LATEST = """\
/*---
name: latest
version: 1
source: messages
mode: upsert
target: t.latest
event: amount INT
checks:
  - amount > 0
---*/
SELECT persistence_id, sequence_nr, amount, amount IS NULL AS deleted FROM events
"""


def event(pid: str, number: int, amount: int | None) -> dict[str, Any]:
    moment = f"2013-01-01T{number:02}:00:00Z"
    return {"persistence_id": pid, "sequence_nr": number, "timestamp": moment, "amount": amount}


def test_the_newest_row_decides_whether_it_is_there(spark: SparkSession) -> None:
    events = [event("a", 1, 1), event("a", 2, None), event("b", 1, None), event("b", 2, 5)]
    rows = run_projection(LATEST, events, spark=spark)
    assert rows == [{"persistence_id": "b", "sequence_nr": 2, "amount": 5}]
    assert failed_checks(LATEST, events, spark=spark) == {}


def test_deleted_must_be_boolean(spark: SparkSession) -> None:
    text = LATEST.replace("amount IS NULL AS", "1 AS")
    with pytest.raises(SchemaMismatch, match="deleted is int in the result, it must be boolean"):
        run_projection(text, [event("a", 1, 1)], spark=spark)
