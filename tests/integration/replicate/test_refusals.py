"""What `replicate` refuses, and records that cannot be read, over a real Kafka and Cassandra."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.test_replicate import events, pointers
from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import table


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic of two partitions."""
    return Topic(kafka, 2)


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace for the topic."""
    journal = make_journal()
    topic.feeds(journal)
    return journal


def done(result: Result) -> dict[str, Any]:
    assert result.status == 0, result.stderr
    counts: dict[str, Any] = result.report["counts"]
    return counts


def refused(result: Result, status: int = 3) -> str:
    """Return the one line of an error."""
    assert result.status == status
    [line] = result.error_lines
    return line


def quarantine(journal: Journal) -> list[tuple[str, int, str, str | None]]:
    return sorted(
        (row["id"], row["offset"], row["state"], row["cause"])
        for row in journal.own_rows("quarantined_record")
    )


def fill_with_poison(topic: Topic) -> None:
    topic.append("bad", [1])
    topic.append("good", [1])
    topic.record(b"bad", b"no JSON", b"\xff", headers=[("h", b"\x00\xfe")])
    topic.append("bad", [2])
    topic.append("good", [2])
    topic.flush()


CAUSE = "the header journal.action is not JSON: Expecting value: line 1 column 1 (char 0)"


def test_a_record_that_cannot_be_read_holds_its_key_and_nothing_else(
    tenant: Journal, topic: Topic
) -> None:
    fill_with_poison(topic)
    counts = done(tenant.run("replicate"))
    assert (counts["records"], counts["unreadable"]) == (5, 1)
    assert events(tenant) == [("bad", 0, 1, "1"), ("good", 0, 1, "1"), ("good", 0, 2, "2")]
    assert quarantine(tenant) == [("bad", 2, "held", CAUSE), ("bad", 3, "held", None)]
    [row] = [row for row in tenant.own_rows("quarantined_record") if row["offset"] == 2]
    assert (row["key"], row["value"]) == (b"bad", b"\xff")
    assert json.loads(row["headers"]) == [
        {"key": "journal.action", "value": base64.b64encode(b"no JSON").decode()},
        {"key": "h", "value": base64.b64encode(b"\x00\xfe").decode()},
    ]
    topic.append("bad", [3])
    topic.purge("bad")
    topic.append("good", [3])
    topic.flush()
    done(tenant.run("replicate"))
    assert [event[2] for event in events(tenant)] == [1, 1, 2, 3]
    assert [row[1] for row in quarantine(tenant)] == [2, 3, 5, 6]
    assert pointers(tenant) == {0: 1}


def test_replay_brings_back_what_can_be_read_in_its_order(tenant: Journal, topic: Topic) -> None:
    fill_with_poison(topic)
    topic.append("bad", [3])
    topic.delete("bad", 2)
    topic.record(b"bad", {"delete": {}})
    topic.append("bad", [4])
    topic.flush()
    done(tenant.run("replicate"))
    shown = tenant.run("replicate", "replay")
    assert shown.report["counts"] == {
        **{"keys": 1, "records_replayed": 0, "records_skipped": 0, "records_still_held": 6},
    }
    assert f"stay from offset 2 on: {CAUSE}" in shown.report["lines"][0]
    plan = ("replay", "--key", "bad", "--skip", "2")
    assert tenant.run("replicate", *plan).report["counts"]["records_replayed"] == 3
    assert len(quarantine(tenant)) == 6
    assert done(tenant.run("replicate", *plan, "--apply")) == {
        **{"keys": 1, "records_replayed": 3, "records_skipped": 1, "records_still_held": 2},
    }
    assert [event for event in events(tenant) if event[0] == "bad"] == [("bad", 0, 3, "3")]
    states = [(offset, state) for _, offset, state, _ in quarantine(tenant)]
    assert states == [(2, "skipped"), (7, "held"), (8, "held")]
    assert pointers(tenant) == {0: 6}
    done(tenant.run("replicate", "replay", "--key", "bad", "--skip", "7", "--apply"))
    assert [event[2] for event in events(tenant) if event[0] == "bad"] == [3, 4]
    assert {row[2] for row in quarantine(tenant)} == {"skipped"}
    topic.append("bad", [5])
    topic.flush()
    done(tenant.run("replicate"))
    assert [event[2] for event in events(tenant) if event[0] == "bad"] == [3, 4, 5]
    nothing = tenant.run("replicate", "replay", "--apply")
    assert (nothing.status, nothing.report["lines"]) == (0, ["nothing is held"])


@pytest.mark.long
def test_replay_refuses_keys_and_offsets_that_are_not_held(tenant: Journal, topic: Topic) -> None:
    fill_with_poison(topic)
    done(tenant.run("replicate"))
    line = refused(tenant.run("replicate", "replay", "--key", "good"), 2)
    assert "nothing is held of good" in line
    line = refused(tenant.run("replicate", "replay", "--key", "bad", "--skip", "9"), 2)
    assert "no record is held at offset 9" in line
    line = refused(tenant.run("replicate", "replay", "--skip", "2"), 2)
    assert "--skip names offsets of one key" in line


@pytest.mark.long
def test_the_partition_stops_before_a_record_that_cannot_be_read_if_that_is_the_policy(
    tenant: Journal, topic: Topic
) -> None:
    fill_with_poison(topic)
    topic.append("other", [1], partition=1)
    topic.flush()
    stop = {"KAFKA_JOURNAL_POISON": "stop"}
    line = refused(tenant.run("replicate", **stop))
    assert f"the record at offset 2 of key bad cannot be read: {CAUSE} ({topic.name}/0)" in line
    assert pointers(tenant) == {0: 1, 1: 0}
    assert [event[0] for event in events(tenant)] == ["bad", "good", "other"]
    refused(tenant.run("replicate", **stop))
    assert quarantine(tenant) == []
    done(tenant.run("replicate"))
    assert pointers(tenant) == {0: 1, 1: 0}


@pytest.mark.long
def test_a_record_that_cannot_be_read_is_skipped_if_that_is_the_policy(
    tenant: Journal, topic: Topic
) -> None:
    fill_with_poison(topic)
    done(tenant.run("replicate", KAFKA_JOURNAL_POISON="skip"))
    assert [event[2] for event in events(tenant)] == [1, 2, 1, 2]
    assert quarantine(tenant) == [("bad", 2, "skipped", CAUSE)]


@pytest.mark.long
def test_keys_that_are_no_text_are_held_by_their_bytes(tenant: Journal, topic: Topic) -> None:
    for key in (b"\xff", b"\xfe"):
        topic.record(key, {"purge": {}})
    topic.flush()
    assert done(tenant.run("replicate"))["unreadable"] == 2
    assert [row[0] for row in quarantine(tenant)] == ["\\xfe", "\\xff"]


def test_offsets_that_kafka_does_not_hold_any_more_are_named(tenant: Journal, topic: Topic) -> None:
    for number in (1, 2, 3, 4, 5):
        topic.append("a", [number])
        topic.append("b", [number], partition=1)
    topic.flush()
    done(tenant.run("replicate", REPLICATE_MAX_RECORDS="10"))
    topic.append("a", [6])
    topic.append("a", [7])
    topic.append("b", [6], partition=1)
    topic.flush()
    topic.drop_before(6)
    line = refused(tenant.run("replicate"))
    lost = "offsets 5 to 5 were not replicated, and Kafka does not hold them any more"
    assert f"{lost} ({topic.name}/0)" in line
    assert pointers(tenant) == {0: 4, 1: 5}
    cql = table(tenant.keyspace, "pointer2")
    where = f"UPDATE {cql} SET offset = ? WHERE topic = ? AND partition = ?"
    tenant.control.execute(where, (5, topic.name, 0))
    done(tenant.run("replicate"))
    assert [event[2] for event in events(tenant) if event[0] == "a"] == [1, 2, 3, 4, 5, 7]


def test_a_pointer_beyond_the_end_of_the_topic_is_refused(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate"))
    tenant.insert("pointer2", [{"topic": topic.name, "partition": 0, "offset": 7}])
    line = refused(tenant.run("replicate"))
    assert "the pointer is 7, and the topic ends before offset 1: it is another" in line


@pytest.mark.long
def test_a_keyspace_that_was_emptied_is_filled_anew_whatever_has_died_before(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("a", [2])
    topic.flush()
    with dying_after(Seam.REPLICATED_EVENTS_WRITTEN, 1):
        tenant.run("replicate")
    for name in ("journal", "metajournal", "pointer2"):
        tenant.control.execute_ddl(f"TRUNCATE {table(tenant.keyspace, name)}")
    done(tenant.run("replicate"))
    assert [event[2] for event in events(tenant)] == [1, 2]
    topic.append("a", [3])
    topic.flush()
    with dying_after(Seam.REPLICATED_EVENTS_WRITTEN, 1):
        tenant.run("replicate")
    done(tenant.run("replicate"))
    assert pointers(tenant) == {0: 2}


def test_another_replicator_that_moves_a_pointer_is_noticed(
    tenant: Journal, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.append("a", [1])
    topic.append("a", [2])
    topic.flush()
    owner, name = Seam.REPLICATED_HEADS_WRITTEN.place()
    write_heads = getattr(owner, name)

    def and_move(*values: Any) -> None:
        write_heads(*values)
        tenant.insert("pointer2", [{"topic": topic.name, "partition": 0, "offset": 1}])

    monkeypatch.setattr(owner, name, and_move)
    line = refused(tenant.run("replicate"))
    assert "its pointer has moved from none to 1 meanwhile: another replicator" in line
    monkeypatch.undo()
    assert tenant.run("replicate").report["state"] == "nothing-to-do"
    [entry] = tenant.own_rows("offset_range")
    assert entry["state"] == "done"


def test_a_topic_partition_has_one_writer(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1])
    topic.flush()
    cql = table(tenant.own_keyspace, "lock")
    resource = f"kafka_journal/{tenant.keyspace}/{topic.name}/1"
    values = (resource, "somebody", datetime.now(UTC))
    tenant.control.execute(
        f"INSERT INTO {cql} (resource, owner, taken_at) VALUES (?, ?, ?)", values
    )
    assert f"{resource} is held by somebody" in refused(tenant.run("replicate"), 1)
    assert events(tenant) == []


def test_kafka_that_does_not_answer_is_one_line(tenant: Journal) -> None:
    nowhere = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "KAFKA_TIMEOUT": "1"}
    line = refused(tenant.run("replicate", **nowhere), 1)
    assert "Kafka does not answer: " in line
    assert "(127.0.0.1:1); check that it is up" in line


def test_topics_that_are_not_there_are_named(tenant: Journal, topic: Topic) -> None:
    line = refused(tenant.run("replicate", "--topic", "nowhere"), 2)
    assert f"has no topic nowhere with the prefix {topic.prefix}" in line
    assert f"choose among {topic.name}" in line
    empty = tenant.run("replicate", KAFKA_TOPIC_PREFIX="none")
    assert (empty.status, empty.report["lines"]) == (0, ["no topic begins with none"])


@pytest.mark.parametrize("version", ["9", pytest.param("new", marks=pytest.mark.long)])
def test_tables_of_an_unknown_version_are_refused(
    tenant: Journal, topic: Topic, version: str
) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate", "--topic", topic.name))
    tenant.insert("setting", [{"key": "schema-version", "value": version}])
    topic.append("a", [2])
    topic.flush()
    line = refused(tenant.run("replicate"))
    assert f"the schema version is '{version}', and this release knows versions up to 8" in line
    assert len(events(tenant)) == 1


@pytest.mark.long
def test_tables_of_an_older_release_get_what_they_lack(tenant: Journal, topic: Topic) -> None:
    control, keyspace = tenant.control, tenant.keyspace
    control.execute_ddl(
        f"CREATE TABLE {table(keyspace, 'journal')} (id text, topic text, segment bigint,"
        " seq_nr bigint, partition int, offset bigint, timestamp timestamp, origin text,"
        " tags set<text>, metadata text, payload_type text, payload_txt text, payload_bin blob,"
        " PRIMARY KEY ((id, topic, segment), seq_nr, timestamp))"
    )
    control.execute_ddl(
        f"CREATE TABLE {table(keyspace, 'pointer')} (topic text, partition int, offset bigint,"
        " created timestamp, updated timestamp, PRIMARY KEY ((topic), partition))"
    )
    tenant.insert("pointer", [{"topic": "t", "partition": 0, "offset": 1}])
    topic.append("a", [1])
    topic.flush()
    line = refused(tenant.run("replicate"))
    assert "pointer has rows, and the next version of the tables is one without it" in line
    control.execute(f"DELETE FROM {table(keyspace, 'pointer')} WHERE topic = 't'")
    done(tenant.run("replicate"))
    assert len(events(tenant)) == 1
    assert control.table_columns(keyspace, "pointer") is None
    # That of Pekko, in the same keyspace.
    assert control.table_columns(keyspace, "metadata") is not None
    assert {row["key"]: row["value"] for row in tenant.rows("setting")} == {"schema-version": "8"}
    assert tenant.rows("locks") == []


def test_a_dry_run_shows_what_is_behind_and_writes_nothing(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("a", [2])
    topic.append("a", [3])
    topic.append("b", [1], partition=1)
    topic.flush()
    shown = tenant.run("replicate", "--dry-run")
    assert (shown.status, shown.report["state"]) == (0, "planned")
    assert shown.report["lines"] == [
        f"{topic.name}/0: 2 offsets from 1 on",
        f"{topic.name}/1: 1 offsets from 0 on",
    ]
    assert shown.report["counts"] == {"offsets_behind": 3}
    assert len(events(tenant)) == 1
