"""`replicate.py verify` and `repair`: topics against tables, whatever has happened to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table

SEGMENT = {"KAFKA_JOURNAL_SEGMENT_SIZE": "5"}
TABLES = ("journal", "metajournal")


class Tenant:
    """A replicated topic, to be damaged."""

    def __init__(self, journal: Journal, topic: Topic) -> None:
        self.journal, self.topic = journal, topic
        topic.feeds(journal, **SEGMENT)

    def replicate(self) -> None:
        self.topic.flush()
        result = self.journal.run("replicate")
        assert result.status == 0, result.stderr

    def cql(self, statement: str, *values: Any) -> list[Row]:
        journal, heads = (table(self.journal.keyspace, name) for name in TABLES)
        return self.journal.control.execute(statement.format(journal=journal, heads=heads), values)

    def event(self, key: str, number: int) -> Row:
        [found] = [
            row
            for row in self.journal.rows("journal")
            if (row["id"], row["seq_nr"]) == (key, number)
        ]
        return found

    def at(self, row: Row) -> tuple[Any, ...]:
        return row["id"], row["topic"], row["segment"], row["seq_nr"], row["timestamp"]

    def head(self, key: str) -> Row:
        [found] = [row for row in self.journal.rows("metajournal") if row["id"] == key]
        return found

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """All cells but those that tell when they were written."""
        return {
            name: sorted(
                tuple(
                    sorted(
                        (column, str(value))
                        for column, value in row.items()
                        if column not in ("updated", "created", "created_date", "expire_on")
                    )
                )
                for row in self.journal.rows(name)
            )
            for name in TABLES
        }

    def found(self) -> set[tuple[str, str, int]]:
        return {
            (row["check_name"], row["persistence_id"], row["number"])
            for row in self.journal.own_rows("finding")
            if row["tag"] == self.topic.name
        }


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], kafka: str) -> Tenant:
    """Return a topic with lives of many kinds, replicated in two runs."""
    one = Tenant(make_journal(), Topic(kafka, partitions=2))
    topic = one.topic
    topic.append("deleted", range(1, 9))
    topic.append("plain", [1, 2, 3], origin="here")
    topic.append("purged", [1, 2])
    topic.append("expiring", [1], expire_after="4000 days")
    topic.append("other", [1, 2], partition=1)
    one.replicate()
    topic.delete("deleted", 6)
    topic.purge("purged")
    topic.append("purged", [1, 2, 3])
    topic.append("plain", [4, 5, 6, 7])
    topic.delete("headless", 4)
    topic.purge("gone")
    topic.mark("plain")
    one.replicate()
    return one


DELETE = (
    "DELETE FROM {journal} WHERE id = ? AND topic = ? AND segment = ? AND seq_nr = ?"
    " AND timestamp = ?"
)
OF_EVENT = " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr = ? AND timestamp = ?"
OF_HEAD = " WHERE topic = ? AND segment = ? AND id = ?"


def damage(tenant: Tenant) -> None:
    """Break events and heads in all ways that a repair can put right."""
    for key, number in (("plain", 4), ("deleted", 8), ("purged", 2)):
        tenant.cql(DELETE, *tenant.at(tenant.event(key, number)))
    changed = tenant.at(tenant.event("plain", 2))
    tenant.cql("UPDATE {journal} SET payload_txt = ?" + OF_EVENT, "another", *changed)
    binary = tenant.at(tenant.event("plain", 3))
    tenant.cql("UPDATE {journal} SET payload_bin = 0x00, tags = {{'x'}}" + OF_EVENT, *binary)
    never = tenant.event("other", 2)
    tenant.cql(
        "INSERT INTO {journal} (id, topic, segment, seq_nr, timestamp, partition, offset)"
        " VALUES (?, ?, ?, ?, ?, 1, 0)",
        *(never["id"], never["topic"], never["segment"], 3, never["timestamp"]),
    )
    for key, change in (("deleted", "delete_to = 2"), ("expiring", "expire_after = null")):
        head = tenant.head(key)
        place = head["topic"], head["segment"], head["id"]
        tenant.cql("UPDATE {heads} SET " + change + OF_HEAD, *place)
    for key in ("purged", "headless"):
        head = tenant.head(key)
        tenant.cql("DELETE FROM {heads}" + OF_HEAD, head["topic"], head["segment"], head["id"])


FOUND = {
    ("kafka_missing_event", "plain", 4),
    ("kafka_missing_event", "deleted", 8),
    ("kafka_missing_event", "purged", 2),
    ("kafka_different_event", "plain", 2),
    ("kafka_different_event", "plain", 3),
    ("kafka_extra_event", "other", 3),
    ("kafka_different_head", "deleted", 8),
    # Since its delete_to is too low, what is deleted looks like a gap.
    ("kafka_hidden_events", "deleted", 7),
    ("kafka_different_head", "expiring", 1),
    ("kafka_missing_head", "purged", 3),
    ("kafka_missing_head", "headless", 4),
}


def test_damages_are_found_by_key_and_repaired_from_the_topic(tenant: Tenant) -> None:
    clean = tenant.journal.run("replicate", "verify")
    assert (clean.status, clean.report["counts"]["findings"]) == (0, 0), clean.stderr
    before = tenant.state()
    damage(tenant)
    broken = tenant.journal.run("replicate", "verify")
    assert broken.status == 3, broken.stderr
    assert tenant.found() == FOUND
    assert "replicate.py repair --apply" in broken.stderr
    shown = tenant.journal.run("replicate", "repair")
    assert shown.report["counts"] == {
        "events_written": 5,
        "events_deleted": 1,
        "events_not_judged": 0,
        "heads_written": 6,
        "heads_lost": 0,
    }
    assert tenant.state() != before
    done = tenant.journal.run("replicate", "repair", "--apply")
    assert done.status == 0, done.stderr
    assert tenant.state() == before
    again = tenant.journal.run("replicate", "verify")
    assert (again.status, tenant.found()) == (0, set()), again.stderr


@pytest.mark.long
def test_repaired_journals_are_deleted_and_purged_like_others(tenant: Tenant) -> None:
    """What a repair writes must not outlive later records, whatever the clocks say."""
    damage(tenant)
    assert tenant.journal.run("replicate", "repair", "--apply").status == 0
    tenant.topic.delete("plain", 7)
    tenant.topic.append("plain", [8])
    tenant.topic.purge("purged")
    tenant.replicate()
    reader = Reader(tenant.journal, tenant.topic)
    assert [reader.read(key, 0) for key in ("plain", "purged")] == [[8], []]
    left = [row["id"] for row in tenant.journal.rows("journal")]
    assert sorted(left) == ["deleted", "deleted", "expiring", "other", "other", "plain"]
    assert tenant.journal.run("replicate", "verify").status == 0


@pytest.mark.long
def test_fork_and_what_stops_readers_are_found(tenant: Tenant) -> None:
    topic = tenant.topic
    topic.append("forked", [1, 2], origin="one")
    topic.append("forked", [2, 3], origin="two")
    topic.append("hidden", [1, 2])
    topic.append("hidden", [13])
    tenant.replicate()
    result = tenant.journal.run("replicate", "verify")
    assert result.status == 3
    assert tenant.found() == {("kafka_fork", "forked", 2), ("kafka_hidden_events", "hidden", 13)}
    assert "by one and" in "\n".join(result.report["lines"])


@pytest.mark.long
def test_ranges_of_times_and_offsets_are_judged_alone(tenant: Tenant) -> None:
    damage(tenant)
    name = tenant.topic.name

    def found(*options: str) -> Sequence[str]:
        result = tenant.journal.run("replicate", "verify", *options)
        return sorted(
            line.split(": ")[1].split()[0]
            for line in result.report["lines"]
            if line.startswith(("kafka_missing_event", "kafka_extra", "kafka_different_event"))
        )

    assert found("--offsets", f"{name}/1:0-0") == ["other"]
    assert found("--offsets", f"{name}/0:1-1") == ["plain", "plain"]
    assert found("--since", "2024-03-01T12:00:08Z", "--until", "2024-03-01T12:00:09Z") == ["purged"]
    assert found("--since", "2100-01-01") == []


@pytest.mark.long
def test_what_is_held_or_behind_the_pointer_is_no_finding(tenant: Tenant) -> None:
    topic = tenant.topic
    topic.append("held", [1])
    topic.record(b"held", b"{")
    topic.append("held", [2])
    tenant.replicate()
    topic.append("plain", [8])
    topic.purge("purged")
    topic.flush()
    result = tenant.journal.run("replicate", "verify")
    assert (result.status, tenant.found()) == (0, set()), result.stderr


@pytest.mark.long
def test_repair_tells_what_kafka_does_not_hold_any_more(tenant: Tenant) -> None:
    damage(tenant)
    tenant.topic.drop_before(5)
    result = tenant.journal.run("replicate", "repair", "--apply")
    assert result.status == 0, result.stderr
    assert tenant.event("plain", 4)["payload_txt"] == "4"
    assert tenant.event("plain", 2)["payload_txt"] == "another"


def test_bad_ranges_are_refused_in_one_line(tenant: Tenant) -> None:
    for options, says in (
        (("--offsets", "x"), "is no range of offsets"),
        (("--offsets", f"{tenant.topic.name}/7:0-1"), "there is no partition"),
        (("--topic", "nothing"), "has no topic nothing"),
        (("--since", "yesterday"), "--since"),
    ):
        result = tenant.journal.run("replicate", "verify", *options)
        assert result.status == 2
        assert says in result.stderr.splitlines()[-1]
    unknown = tenant.journal.run("replicate", "repair", "--key", "nobody")
    assert unknown.status == 2
    assert "nothing to repair of nobody" in unknown.stderr
