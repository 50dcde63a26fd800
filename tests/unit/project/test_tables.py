"""Definitions that join events with reference tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import DefinitionError, InvalidInput, SchemaMismatch
from tidemark.projection.testing import run_projection

BY_CITY = """\
/*---
name: by_city
version: 1
source: messages
mode: bucket
target: t.by_city
event: origin STRING
with: {airports: t.airports}
---*/
SELECT e.time_bucket, a.city, count(*) AS departures
FROM events e JOIN airports a ON a.iata = e.origin
GROUP BY e.time_bucket, a.city
"""
PYTHON = """\
from tidemark.projection import projection


@projection(
    name="by_city",
    version=1,
    source="messages",
    mode="bucket",
    target="t.by_city",
    event="origin STRING",
    with_={"airports": "t.airports"},
)
def by_city(events, airports):
    joined = events.join(airports, airports.iata == events.origin)
    return joined.groupBy("time_bucket", "city").count()
"""
AIRPORTS = [{"iata": "JFK", "city": "New York"}, {"iata": "EWR", "city": "Newark"}]
EVENTS: list[dict[str, Any]] = [
    {"persistence_id": "p", "sequence_nr": n, "timestamp": f"2013-01-01T0{n}:00:00Z", "origin": at}
    for n, at in enumerate(["JFK", "EWR", "JFK", "LAX"])
]


@pytest.mark.parametrize("form", ["sql", "python"])
def test_events_are_joined_with_a_table(spark: SparkSession, tmp_path: Path, form: str) -> None:
    file = tmp_path / ("by_city.sql" if form == "sql" else "by_city.py")
    file.write_text(BY_CITY if form == "sql" else PYTHON)
    rows = run_projection(file, EVENTS, spark=spark, tables={"airports": AIRPORTS})
    assert sorted(row["city"] for row in rows) == ["New York", "New York", "Newark"]


def test_rows_of_a_table_without_events_are_refused(spark: SparkSession) -> None:
    text = BY_CITY.replace("JOIN", "RIGHT JOIN")
    with pytest.raises(SchemaMismatch, match=r"combines events"):
        run_projection(text, EVENTS, spark=spark, tables={"airports": AIRPORTS})


@pytest.mark.parametrize("tables", [None, {"airports": []}, {"other": AIRPORTS}])
def test_a_unit_test_gives_every_table(spark: SparkSession, tables: Any) -> None:
    with pytest.raises(InvalidInput, match="the tables of the definition are airports"):
        run_projection(BY_CITY, EVENTS, spark=spark, tables=tables)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("airports: t.airports", "events: t.airports", "events are those of the source"),
        ("airports: t.airports", "airports: airports", "with"),
        ("JOIN airports", "JOIN carriers", "carriers"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    spark: SparkSession, old: str, new: str, what: str
) -> None:
    tables = {"events" if "events:" in new else "airports": AIRPORTS}
    with pytest.raises(DefinitionError, match=what):
        run_projection(BY_CITY.replace(old, new), EVENTS, spark=spark, tables=tables)
