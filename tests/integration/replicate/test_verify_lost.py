"""`replicate.py verify` and `repair`: what they leave alone, and how little they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration import kafka_topic
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.test_verify import DELETE, OF_EVENT, OF_HEAD, Tenant
from tests.integration.support import Journal, Result
from tidemark.cassandra import connector
from tidemark.ledger.locks import Locks
from tidemark.replicate.kafka import records
from tidemark.replicate.kafka.topics import Offsets, Topics


@pytest.fixture
def empty(make_journal: Callable[..., Journal], kafka: str) -> Tenant:
    """Return an empty topic of two partitions, and its keyspace."""
    return Tenant(make_journal(), Topic(kafka, partitions=2))


def verified(tenant: Tenant, *options: str) -> Result:
    return tenant.journal.run("replicate", "verify", *options)


def repaired(tenant: Tenant, *options: str) -> Result:
    return tenant.journal.run("replicate", "repair", "--apply", *options)


def events(tenant: Tenant) -> list[tuple[str, int]]:
    return sorted((row["id"], row["seq_nr"]) for row in tenant.journal.rows("journal"))


def test_a_topic_made_anew_accuses_no_event_of_the_old_one(empty: Tenant) -> None:
    """Of partition 0 it has fewer records, and is refused; of partition 1 as many."""
    topic = empty.topic
    for number in (1, 2, 3):
        topic.append("k", [number])
    topic.append("m", [1, 2], partition=1)
    empty.replicate()
    before = empty.state()
    topic.make_anew()
    topic.append("k", [1])
    topic.append("m", [1], partition=1)
    topic.flush()
    for result in (verified(empty), repaired(empty)):
        assert result.status == 3
        [line] = result.error_lines
        assert f"{topic.name}/0" in line
        assert "it is another topic of that name" in line
        assert result.report["counts"]["events_not_judged"] == 2
        assert any(
            "2 events whose records Kafka does not hold" in x for x in result.report["lines"]
        )
    assert (empty.state(), empty.found()) == (before, set())


def test_what_kafka_does_not_hold_any_more_is_counted(empty: Tenant) -> None:
    topic = empty.topic
    for number in (1, 2, 3):
        topic.append("k", [number])
    topic.record(None, b"of nobody")
    topic.append("other", [1])
    empty.replicate()
    # As a mirror or a compaction leaves it: there is no record of the event at that offset.
    moved = empty.at(empty.event("k", 2))
    empty.cql("UPDATE {journal} SET offset = 3" + OF_EVENT, *moved)
    before = empty.state()
    for result in (verified(empty), repaired(empty)):
        assert result.status == 0, result.stderr
        assert result.report["counts"]["events_not_judged"] == 1
    topic.drop_before(1)
    result = verified(empty)
    assert result.status == 0, result.stderr
    assert result.report["counts"]["events_not_judged"] == 2
    assert empty.state() == before
    topic.append("k", [4])
    topic.append("k", [5])
    topic.flush()
    topic.drop_before(6)
    for result in (verified(empty), repaired(empty)):
        assert result.status == 3
        [line] = result.error_lines
        assert "offsets 5 to 5 were not replicated" in line
    assert (empty.state(), empty.found()) == (before, set())


@pytest.mark.long
def test_json_payloads_are_compared_by_value(empty: Tenant) -> None:
    header = {"append": {"range": {"from": 1, "to": 2}, "payloadType": "json", "metadata": {}}}
    payloads = [{"a": 1, "b": 100.5}, {"c": [1e100]}]
    said = [{"seqNr": n, "tags": [], "payload": one} for n, one in enumerate(payloads, 1)]
    value = json.dumps({"events": said, "metadata": {}}).encode()
    empty.topic.record(b"k", header, value)
    empty.replicate()
    older = {1: '{"b":100.50,"a":1.0}', 2: '{"c":[1E+100]}'}
    change = "UPDATE {journal} SET payload_txt = ?" + OF_EVENT
    for number, text in older.items():
        empty.cql(change, text, *empty.at(empty.event("k", number)))
    assert verified(empty).status == 0
    empty.cql(change, '{"c":[2E+100]}', *empty.at(empty.event("k", 2)))
    assert verified(empty).status == 3
    assert empty.found() == {("kafka_different_event", "k", 2)}
    assert repaired(empty).report["counts"]["events_written"] == 1
    assert empty.event("k", 1)["payload_txt"] == older[1]
    assert json.loads(empty.event("k", 2)["payload_txt"]) == payloads[1]


@pytest.mark.long
def test_a_journal_that_lives_for_hours_is_verified(
    empty: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topic, "START", datetime.now(UTC))
    empty.topic.append("k", [1], expire_after="1 hour")
    empty.replicate()
    head = empty.head("k")
    empty.cql(DELETE, *empty.at(empty.event("k", 1)))
    empty.cql("DELETE FROM {heads}" + OF_HEAD, head["topic"], head["segment"], "k")
    assert verified(empty).status == 3
    assert empty.found() == {("kafka_missing_event", "k", 1), ("kafka_missing_head", "k", 1)}


def test_records_that_kafka_drops_meanwhile_end_in_one_line(
    empty: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        empty.topic.append("k", [number])
    empty.replicate()
    empty.topic.drop_before(2)
    now = Topics.offsets

    def before(self: Topics, partitions: Any) -> Any:
        return {
            one: Offsets(0, held.end, held.written) for one, held in now(self, partitions).items()
        }

    monkeypatch.setattr(Topics, "offsets", before)
    for result in (verified(empty), repaired(empty)):
        assert result.status == 3
        [line] = result.error_lines
        assert "Kafka has dropped records while they were read" in line


@contextmanager
def noted(
    monkeypatch: pytest.MonkeyPatch, tenant: Tenant
) -> Iterator[tuple[list[str], list[dict[str, dict[str, int]]]]]:
    """Note what a run does in a row, and up to which offsets it reads Kafka."""
    done: list[str] = []
    offsets: list[dict[str, dict[str, int]]] = []
    scan, lock, asked = connector.read, Locks.of, records._offsets

    def read(spark: Any, keyspace: str, name: str, *columns: str, **options: Any) -> Any:
        if keyspace == tenant.journal.keyspace and name in ("journal", "metajournal"):
            done.append(f"scan of {name}")
        return scan(spark, keyspace, name, *columns, **options)

    def of(*arguments: Any) -> Any:
        done.append("lock")
        return lock(*arguments)

    def to_offsets(values: Any) -> str:
        text = asked(values)
        offsets.append(json.loads(text))
        return text

    with monkeypatch.context() as patched:
        patched.setattr(connector, "read", read)
        patched.setattr(Locks, "of", of)
        patched.setattr(records, "_offsets", to_offsets)
        yield done, offsets


@pytest.mark.long
def test_a_range_is_read_alone_and_keys_are_read_by_key(
    empty: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = empty.topic
    for number in range(1, 8):
        topic.append("k", [number])
        topic.append("other", [number], partition=1)
    empty.replicate()
    name = topic.name
    with noted(monkeypatch, empty) as (done, offsets):
        assert verified(empty, "--offsets", f"{name}/0:2-3").status == 0
    assert done == []
    assert offsets == [{name: {"0": 2}}, {name: {"0": 4}}]
    for key in ("k", "other"):
        for number in (3, 7):
            empty.cql(DELETE, *empty.at(empty.event(key, number)))
    with noted(monkeypatch, empty) as (done, _):
        assert verified(empty, "--offsets", f"{name}/0:2-3").status == 3
    assert (done, empty.found()) == ([], {("kafka_missing_event", "k", 3)})
    with noted(monkeypatch, empty) as (done, _):
        result = repaired(empty, "--key", "k")
    assert result.status == 0, result.stderr
    assert (done, result.report["counts"]["events_written"]) == (["lock"], 2)
    assert ("other", 3) not in events(empty)
    with noted(monkeypatch, empty) as (done, _):
        assert repaired(empty).status == 0
    assert done == ["scan of journal", "lock"]
    assert events(empty) == [(key, n) for key in ("k", "other") for n in range(1, 8)]
