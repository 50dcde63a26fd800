"""The helper for unit tests of definitions, and the example in the documentation."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.repository import REPOSITORY
from tidemark.errors import InvalidInput, SchemaMismatch, TidemarkError
from tidemark.projection.testing import run_projection, unreadable_events

HEADER = """\
/*---
name: one
version: 1
source: messages
mode: {mode}
target: flights.one
event: kind STRING, amount INT
---*/

"""
UPSERT = HEADER.format(mode="upsert") + (
    "SELECT persistence_id, sequence_nr, timestamp AS at, array(timestamp) AS all, amount"
    " FROM events"
)
NOON = "2024-03-01T12:00:00.000001Z"


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """Provide the active session, which the helper uses."""


def event(number: int, at: datetime | str = NOON, **more: Any) -> dict[str, Any]:
    return {"persistence_id": "a|1", "sequence_nr": number, "timestamp": at, **more}


def test_the_documented_example_passes() -> None:
    text = (REPOSITORY / "docs" / "projections.md").read_text()
    match = re.search(r"test_testing.py -->\n```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    names: dict[str, Any] = {}
    exec(compile(match.group(1), "docs/projections.md", "exec"), names)
    tests = [function for name, function in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for function in tests:
        function()


def test_upsert_gives_the_row_that_stays_with_times_in_utc() -> None:
    at = datetime(2024, 3, 1, 12, 0, 0, 1, tzinfo=UTC)
    assert run_projection(UPSERT, [event(1, amount=5), event(2, at, amount=None)]) == [
        {"persistence_id": "a|1", "sequence_nr": 2, "at": at, "all": [at], "amount": None}
    ]


def test_a_file_and_other_time_buckets() -> None:
    file = REPOSITORY / "include" / "sql" / "projections" / "daily_punctuality.sql"
    late: dict[str, Any] = {"kind": "departed", "carrier": "UA", "origin": "JFK", "dep_delay": 16}
    (row,) = run_projection(file, [event(1, tags=["JFK", "EWR"], **late)], bucket_size="Day")
    assert (row["time_bucket"], row["departed"], row["delayed"]) == (1709251200000, 1, 1)


@pytest.mark.parametrize(
    ("mode", "sql", "kind", "what"),
    [
        (
            "append",
            "SELECT persistence_id, sequence_nr, explode(array(1, 2)) AS x FROM events",
            TidemarkError,
            "2 rows of the result have one key: persistence_id=a|1, sequence_nr=1",
        ),
        (
            "append",
            "SELECT persistence_id, nullif(1L, 1L) AS sequence_nr FROM events",
            TidemarkError,
            "sequence_nr is null in a row of the result: persistence_id=a|1, sequence_nr=null",
        ),
        (
            "append",
            "SELECT persistence_id, kind FROM events",
            SchemaMismatch,
            "the result has no column sequence_nr, which says which event it is",
        ),
        (
            "append",
            "SELECT persistence_id, max(sequence_nr) AS sequence_nr FROM (SELECT *, row_number()"
            " OVER (ORDER BY sequence_nr) AS n FROM events LIMIT 9) GROUP BY persistence_id",
            SchemaMismatch,
            "the SELECT combines events (Aggregate, GlobalLimit, Window) that one run"
            " may read together and another may not; let it group, partition or join by"
            " persistence_id, sequence_nr too, or use mode bucket",
        ),
        (
            "bucket",
            "SELECT time_bucket + 1 AS time_bucket FROM events",
            TidemarkError,
            "the result has rows of time buckets that were not read: 2024-03-01T12:00:00.001000Z",
        ),
        (
            "export",
            "SELECT kind AS time_bucket, amount, null AS AMOUNT FROM events",
            SchemaMismatch,
            "time_bucket is string in the result, it must be the bigint of the event;"
            " Parquet does not tell columns apart by case: amount is there more than once;"
            " AMOUNT is void, which Parquet does not have",
        ),
        (
            "export",
            "SELECT time_bucket FROM events",
            SchemaMismatch,
            "the result has no column beside time_bucket, which is the name of the directory",
        ),
    ],
)
def test_a_result_against_the_rules_of_its_mode_is_refused(
    mode: str, sql: str, kind: type[TidemarkError], what: str
) -> None:
    with pytest.raises(kind) as refused:
        run_projection(HEADER.format(mode=mode) + sql, [event(1, kind="in", amount=1)])
    assert what in str(refused.value)


def test_what_cannot_be_read_is_an_error_unless_it_is_expected(tmp_path: Path) -> None:
    poison = [event(2, event=b"x"), event(1, amount=1)]
    with pytest.raises(
        TidemarkError, match=r"1 event cannot be processed, the first is a\|1 2: not"
    ):
        run_projection(UPSERT, poison)
    assert unreadable_events(UPSERT, poison) == {("a|1", 2): "not JSON"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequence_nr": 1}, "event 0 has no persistence_id, timestamp;"),
        (event(1, "2024-03-01T12:00:00"), "the timestamp of event 0 has no time zone;"),
        (event(1, event=b"{}", kind="in"), "event 0 has bytes in `event` and the fields kind;"),
        (event(1, kind={1, 2}), "a field is set;"),
    ],
)
def test_an_event_that_lacks_something_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        run_projection(UPSERT, [given])


def test_only_the_entity_types_of_the_source_are_read() -> None:
    given = [event(1, amount=5), {**event(1, amount=6), "persistence_id": "b|1"}]
    text = UPSERT.replace("source: messages", "source: {entity-types: [b, c]}")
    assert [row["persistence_id"] for row in run_projection(text, given)] == ["b|1"]
