"""Keys that no table can hold, and rows that share one, in a real Cassandra."""

from __future__ import annotations

import pytest

from tests.integration.project.projections import HOUR_MS, START_MS, Projections, event

BY_CARRIER = """\
/*---
name: carriers
version: 1
source: messages
mode: bucket
target: {keyspace}.carriers
event: carrier STRING, origin STRING, amount INT
---*/

SELECT time_bucket, carrier, origin, sum(amount) AS total FROM events GROUP BY ALL
"""
WHOLE_KEY = """\
CREATE TABLE {keyspace}.carriers (time_bucket bigint, carrier text, origin text, total bigint,
    PRIMARY KEY (time_bucket, carrier, origin))"""
SHORT_KEY = WHOLE_KEY.replace("carrier, origin))", "carrier))")
BY_EVENT = """\
/*---
name: log
version: 1
source: messages
mode: append
target: {keyspace}.log
on-error: skip
event: carrier STRING, origin STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, carrier, origin FROM events
"""
EVENT_KEY = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, carrier text, origin text,
    PRIMARY KEY (persistence_id, carrier, sequence_nr))"""
EVENTS = (
    event("a|1", 1, 0.1, carrier="AA", origin="JFK", amount=1),
    event("a|1", 2, 0.2, carrier="AA", origin="EWR", amount=2),
    event("b|1", 1, 1.1, carrier="UA", origin="JFK", amount=3),
)


def test_a_null_in_a_key_fails_its_time_bucket_alone_and_leaves_it_as_it_was(
    projections: Projections,
) -> None:
    projections.define(BY_CARRIER, WHOLE_KEY)
    projections.insert(*EVENTS)
    projections.validated(0, 1, 2)
    assert projections.run(0, 1).status == 0
    before = projections.journal.rows("carriers")
    projections.insert(
        event("a|2", 1, 0.3, origin="JFK", amount=4), event("b|1", 2, 2.1, carrier="UA", origin="X")
    )
    result = projections.run(0, 3, "--force")
    assert result.status == 1
    assert result.report["pieces"] == {"planned": 3, "done": 2, "failed": 1, "held": 0}
    why = (
        f"carrier is null in a row of the result: time_bucket={START_MS}, carrier=null, origin=JFK"
    )
    assert f"carriers: 2024-03-01 00:00 failed: {why}" in result.stdout
    rows = projections.journal.rows("carriers")
    assert [row for row in rows if row["time_bucket"] == START_MS] == before
    assert {row["time_bucket"] for row in rows} == {START_MS + hour * HOUR_MS for hour in range(3)}


def test_a_null_in_a_key_is_an_error_of_its_event_if_each_row_is_of_an_event(
    projections: Projections,
) -> None:
    projections.define(BY_EVENT, EVENT_KEY)
    projections.insert(*EVENTS, event("a|2", 1, 0.3, origin="JFK", amount=4))
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == 0, result
    rows = projections.journal.rows("log")
    assert sorted((row["persistence_id"], row["sequence_nr"]) for row in rows) == [
        ("a|1", 1),
        ("a|1", 2),
        ("b|1", 1),
    ]
    (letter,) = projections.journal.own_rows("quarantine")
    assert (letter["persistence_id"], letter["sequence_nr"]) == ("a|2", 1)
    assert letter["cause"].startswith("carrier is null in a row of the result")


@pytest.mark.long
def test_a_row_that_cassandra_would_not_take_fails_its_time_bucket_alone(
    projections: Projections,
) -> None:
    large = BY_CARRIER.replace("sum(amount) AS total", "repeat('x', int(sum(amount))) AS total")
    projections.define(large, WHOLE_KEY.replace("total bigint", "total text"))
    projections.insert(
        event("a|1", 1, 0.1, carrier="AA", origin="JFK", amount=1),
        event("a|2", 1, 1.1, carrier="UA", origin="JFK", amount=17_000_000),
    )
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.report["pieces"] == {"planned": 2, "done": 1, "failed": 1, "held": 0}
    why = (
        "17,000,005 bytes, more than Cassandra takes at once, in a row of the result: time_bucket="
    )
    assert f"carriers: 2024-03-01 01:00 failed: {why}" in result.stdout
    assert [row["total"] for row in projections.journal.rows("carriers")] == ["x"]


def test_rows_that_share_a_key_fail_the_run_before_anything_is_written(
    projections: Projections,
) -> None:
    projections.define(BY_CARRIER, SHORT_KEY)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == 1
    assert (
        f"2 rows of the result have one key: time_bucket={START_MS}, carrier=AA;"
        " they differ in origin, total" in result.stdout + result.stderr
    )
    assert [row["time_bucket"] for row in projections.journal.rows("carriers")] == [
        START_MS + HOUR_MS
    ]


@pytest.mark.long
def test_the_proposed_key_is_what_the_result_is_grouped_by(projections: Projections) -> None:
    projections.define(BY_CARRIER.replace("origin, sum", "length(origin) AS size, sum"))
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    result = projections.run(0, 2, "--dry-run", "--show")
    assert "    PRIMARY KEY ((time_bucket), carrier, size)" in result.stdout
    assert "a run would fail" not in result.stdout
    projections.define(
        BY_CARRIER.replace("origin, sum(amount) AS total", "sum(amount) AS total").replace(
            "ALL", "time_bucket, carrier, origin"
        )
    )
    result = projections.run(0, 1, "--dry-run", "--show")
    assert (
        f"a run would fail: 2 rows of the result have one key: time_bucket={START_MS}, carrier=AA;"
        " they differ in total" in result.stdout
    )
