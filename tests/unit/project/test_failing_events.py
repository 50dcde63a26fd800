"""Events for which a SELECT or a function fails, one by one among many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.project.transformation import failing_events
from tidemark.projection.testing import run_projection, unreadable_events

RATIOS = """\
/*---
name: ratios
version: 1
source: messages
mode: {mode}
target: t.ratios
event: a INT, b INT
---*/
SELECT {select} FROM events {more}
"""
BY_EVENT = RATIOS.format(
    mode="append", select="persistence_id, sequence_nr, a / b AS ratio", more=""
)
BY_BUCKET = RATIOS.format(
    mode="bucket", select="time_bucket, sum(a / b) AS ratios", more="GROUP BY time_bucket"
)
TOGETHER = RATIOS.format(
    mode="bucket", select="time_bucket, sum(a) / sum(b) AS ratio", more="GROUP BY time_bucket"
)
UDF = """\
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from tidemark.projection import projection


@projection(name="ratios", version=1, source="messages", mode="append", target="t.ratios",
            event="a INT, b INT")
def ratios(events):
    ratio = F.udf(lambda a, b: a // b, IntegerType())
    return events.select("persistence_id", "sequence_nr", ratio("a", "b").alias("ratio"))
"""


def events(*divisors: int) -> list[dict[str, Any]]:
    return [
        {"persistence_id": f"p|{n % 3}", "sequence_nr": n, "timestamp": "2013-01-01T00:00:00Z",
         "a": 6, "b": divisor}
        for n, divisor in enumerate(divisors, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("definition", [BY_EVENT, BY_BUCKET, "udf"])
def test_the_events_that_fail_are_named_each(
    spark: SparkSession, tmp_path: Path, definition: str
) -> None:
    chosen: Path | str = definition
    if definition == "udf":
        chosen = tmp_path / "ratios.py"
        chosen.write_text(UDF)
    given = events(1, 2, 0, 3, 1, 0)
    causes = unreadable_events(chosen, given, spark=spark)
    assert set(causes) == {("p|0", 3), ("p|0", 6)}
    assert all("by zero" in cause or "ZeroDivision" in cause for cause in causes.values())
    with pytest.raises(TidemarkError, match=r"2 events cannot be processed, the first is p\|0 3"):
        run_projection(chosen, given, spark=spark)


def test_events_that_fail_only_together_are_not_named(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="Division by zero"):
        unreadable_events(TOGETHER, events(1, -1), spark=spark)


def test_too_many_failing_events_are_not_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_events, "MOST", 1)
    with pytest.raises(Exception, match="Division by zero"):
        unreadable_events(BY_EVENT, events(0, 0), spark=spark)
