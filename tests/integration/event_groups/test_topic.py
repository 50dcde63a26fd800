"""Event groups out of a real Kafka: each once, in their order; what is refused is kept and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.faults.dying import dying_after
from tests.faults.fencing import CHECK, is_checked_before_each, traced
from tests.faults.seams import Seam
from tests.integration.kafka_topic import PATIENCE_S, START, Topic
from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import table
from tidemark.event_groups.external import records
from tidemark.replicate.kafka.topics import Topics

WRITES = (Seam.GROUP_SUBMITTED, Seam.GROUP_QUARANTINED, Seam.TOPIC_TAKEN)


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic of two partitions, whose name is not one of a journal's."""
    return Topic(kafka, 2)


@pytest.fixture
def shop(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace with a table, and the address of the topic."""
    journal = make_journal()
    topic.feeds(journal, KAFKA_TOPIC_PREFIX="others")
    made = f"CREATE TABLE {table(journal.keyspace, 'account')} (id text PRIMARY KEY, n int)"
    journal.control.execute_ddl(made)
    return journal


def group(shop: Journal, name: str, n: int = 1, *, of: str = "account") -> bytes:
    """Return a group in YAML, which sets the number of an account."""
    statement = f"UPDATE {shop.keyspace}.{of} SET n = {n} WHERE id = '{name}'"
    return f'group: {name}\nevents:\n  - {{name: set, statement: "{statement}"}}'.encode()


def write(topic: Topic, *values: bytes | None, partition: int = 0) -> None:
    for value in values:
        topic.publish(b"key", value, [], START, partition=partition)
    topic.flush()


def submit(shop: Journal, topic: Topic, *more: str, **variables: str) -> Result:
    return shop.run("run_event_groups", "submit", "--topic", topic.name, *more, **variables)


def done(result: Result, status: int = 0) -> dict[str, Any]:
    assert result.status == status, result.stderr
    report: dict[str, Any] = result.report
    return report


def order(shop: Journal) -> list[str]:
    """Return the ids of the groups in the order of the stream."""
    rows = sorted(shop.own_rows("event_group_order"), key=lambda row: row["sequence"] or 0)
    return [row["id"] for row in rows if row["id"]]


def offsets(shop: Journal) -> dict[int, int]:
    return {row["partition"]: row["next_offset"] for row in shop.own_rows("event_group_source")}


def quarantine(shop: Journal) -> dict[tuple[int, int], dict[str, Any]]:
    return {(row["partition"], row["offset"]): row for row in shop.own_rows("quarantined_group")}


def fill(shop: Journal, topic: Topic) -> list[bytes | None]:
    """Write groups of both partitions; return the values of those that are refused."""
    as_json = json.dumps({"group": "b", "events": [{"name": "e"}]}, indent="\t")
    bad = [
        b"\xff",
        None,
        b"group: c\nevents:\n  - {name: a, after: [b]}",
        group(shop, "d", of="accounts"),
        group(shop, "a", 2),
        b'group: "\\ud83d"\nevents: [{name: a}]',
    ]
    write(topic, group(shop, "a"), *bad[:3], as_json.encode(), *bad[3:], group(shop, "a"))
    write(topic, *(group(shop, name) for name in ("x", "y", "z")), partition=1)
    return bad


def test_groups_of_a_topic_are_submitted_once_and_what_is_refused_is_kept_and_told_once(
    shop: Journal, topic: Topic
) -> None:
    bad = fill(shop, topic)
    result = submit(shop, topic)
    report = done(result, 3)
    assert report["counts"] == {"records": 12, "groups_submitted": 5, "records_refused": 6}
    left = shop.control.execute(
        f"SELECT TTL(cause) AS left FROM {table(shop.own_keyspace, 'quarantined_group')}"
    )
    assert all(row["left"] > 364 * 86_400 for row in left)
    [error] = result.error_lines
    assert f"6 of 12 records were refused (topic {topic.name}); see quarantined_group" in error
    at = f"{topic.name}/0@"
    assert report["lines"][:6] == [
        f"{at}1 is refused: the value is not UTF-8; write it as UTF-8",
        f"{at}2 is refused: the record has no value; write a group in YAML or JSON",
        f"{at}3 is refused: there is no event b ({at}3:3:23); events are a",
        f"{at}5 is refused: there is no table {shop.keyspace}.accounts ({at}5:3:28);"
        " create it, or correct the name",
        f"{at}6 is refused: another group a was submitted before (stream default); give this one"
        " another id",
        f"{at}7 is refused: half of a character, without its other half ({at}7:1:8); write the"
        " character itself",
    ]
    kept = quarantine(shop)
    assert [place for place, _ in sorted(kept.items())] == [(0, n) for n in (1, 2, 3, 5, 6, 7)]
    assert [row["value"] for _, row in sorted(kept.items())] == bad
    for place, line in zip(sorted(kept), report["lines"], strict=False):
        assert line.endswith(f" is refused: {kept[place]['cause']}")
        assert kept[place]["key"] == b"key"
        assert kept[place]["run_id"] == report["run_id"]
        assert (kept[place]["stream"], kept[place]["topic"]) == ("default", topic.name)
    names = order(shop)
    assert [name for name in names if name < "m"] == ["a", "b"]
    assert [name for name in names if name > "m"] == ["x", "y", "z"]
    assert offsets(shop) == {0: 9, 1: 3}

    again = done(submit(shop, topic))
    assert again["state"] == "nothing-to-do"
    assert again["lines"] == [f"all records of {topic.name} were taken before"]
    assert quarantine(shop) == kept
    executed = done(shop.run("run_event_groups"))
    assert executed["counts"] == {"groups_done": 5, "groups_held": 0}
    assert {row["id"]: row["n"] for row in shop.rows("account")} == dict.fromkeys("axyz", 1)

    write(topic, group(shop, "next"), partition=1)
    assert done(submit(shop, topic))["counts"]["groups_submitted"] == 1
    # Another stream has come nowhere yet, and may have the table once all has ended.
    refused = done(submit(shop, topic, "--dry-run", "--stream", "other"))
    assert refused["counts"]["records_refused"] == 12
    done(shop.run("run_event_groups"))
    done(shop.run("run_event_groups", "release", f"{shop.keyspace}.account", "--apply"))
    other = done(submit(shop, topic, "--stream", "other"), 3)
    assert other["counts"]["groups_submitted"] == 6


@pytest.mark.long
def test_a_dry_run_checks_the_records_and_writes_nothing(shop: Journal, topic: Topic) -> None:
    fill(shop, topic)
    report = done(submit(shop, topic, "--dry-run"))
    # Whether another group has its id is seen when it is submitted.
    assert report["counts"] == {"records": 12, "groups_submitted": 0, "records_refused": 5}
    assert "x: can be submitted" in report["lines"]
    written = ("event_group", "event_group_source", "quarantined_group", "audit", "lock")
    assert [name for name in written if shop.own_rows(name)] == []


@pytest.mark.parametrize("calls", [1, pytest.param(3, marks=pytest.mark.long), 5])
@pytest.mark.parametrize("seam", WRITES)
def test_a_run_that_dies_anywhere_is_ended_by_the_next_which_tells_what_is_refused(
    shop: Journal, topic: Topic, monkeypatch: pytest.MonkeyPatch, seam: Seam, calls: int
) -> None:
    # So that offsets are written on the way.
    monkeypatch.setattr(records, "_TOGETHER", 2)
    fill(shop, topic)
    with dying_after(seam, calls):
        submit(shop, topic)
    assert done(submit(shop, topic), 3)["counts"]["records_refused"] == 6
    assert sorted(order(shop)) == ["a", "b", "x", "y", "z"]
    assert [name for name in order(shop) if name > "m"] == ["x", "y", "z"]
    assert sorted(quarantine(shop)) == [(0, n) for n in (1, 2, 3, 5, 6, 7)]
    assert offsets(shop) == {0: 9, 1: 3}
    assert done(submit(shop, topic))["state"] == "nothing-to-do"


@pytest.mark.long
def test_it_asks_for_its_lock_before_each_write_and_another_run_waits(
    shop: Journal, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop, topic)
    others: list[Result] = []
    offsets_of = Topics.offsets

    def and_run(*values: Any) -> Any:
        # The lock is taken by now.
        others.append(submit(shop, topic))
        return offsets_of(*values)

    with monkeypatch.context() as patched:
        trace = traced(patched, WRITES)
        patched.setattr(Topics, "offsets", and_run)
        done(submit(shop, topic), 3)
    [other] = others
    assert other.status == 1
    held = f"event-group-topics/default/{topic.name} is held by"
    assert held in other.error_lines[0]
    assert set(trace) == {CHECK, *WRITES}
    assert is_checked_before_each(trace)


def moved(shop: Journal, topic: Topic, partition: int, offset: int) -> None:
    shop.control.execute(
        f"UPDATE {table(shop.own_keyspace, 'event_group_source')} SET next_offset = ?"
        " WHERE stream = ? AND topic = ? AND partition = ?",
        (offset, "default", topic.name, partition),
    )


def test_a_partition_that_cannot_go_on_stays_and_the_others_go_on(
    shop: Journal, topic: Topic
) -> None:
    write(topic, group(shop, "a"), group(shop, "b"), group(shop, "c"))
    write(topic, group(shop, "x"), partition=1)
    done(submit(shop, topic))
    moved(shop, topic, 0, 1)
    topic.drop_before(2)
    write(topic, group(shop, "y"), partition=1)
    result = submit(shop, topic)
    assert done(result, 3)["counts"]["groups_submitted"] == 1
    [line] = result.error_lines
    lost = "offsets 1 to 1 were not submitted, and Kafka does not hold them any more"
    assert f"{lost} ({topic.name}/0); nothing of it was read; submit what they held" in line
    assert "set next_offset in event_group_source to 2" in line
    assert offsets(shop) == {0: 1, 1: 2}
    moved(shop, topic, 0, 7)
    line = submit(shop, topic).error_lines[0]
    beyond = "the stream goes on at offset 7, and the topic ends before 3: it is another topic"
    assert beyond in line
    moved(shop, topic, 1, 7)
    assert "/0); the stream goes on" in submit(shop, topic).error_lines[0]
    moved(shop, topic, 0, 2)
    moved(shop, topic, 1, 2)
    assert done(submit(shop, topic))["state"] == "nothing-to-do"
    assert offsets(shop) == {0: 3, 1: 2}


def test_what_cannot_be_read_at_all_is_refused_in_one_line(shop: Journal, topic: Topic) -> None:
    missing = shop.run("run_event_groups", "submit", "--topic", f"{topic.name}s")
    assert missing.status == 2
    [line] = missing.error_lines
    assert f"has no topic {topic.name}s (--topic); write {topic.name}" in line
    both = submit(shop, topic, "file.yaml")
    assert (both.status, len(both.error_lines)) == (2, 1)
    assert "there are files and a topic (FILE, --topic)" in both.error_lines[0]
    neither = shop.run("run_event_groups", "submit")
    assert neither.status == 2
    assert "there is neither a file nor a topic" in neither.error_lines[0]
    secret = {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_PASSWORD": "hidden"}
    away = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "KAFKA_TIMEOUT": "1"}
    for more in ({}, {**secret, "KAFKA_USERNAME": "somebody"}):
        lost = submit(shop, topic, **away, **more)
        assert lost.status == 1
        [line] = lost.error_lines
        assert "Kafka does not answer: " in line
        assert "(127.0.0.1:1); check that it is up" in line
        assert "hidden" not in lost.stderr + lost.stdout
    directory = submit(shop, topic, PROJECTIONS_DIR="/nowhere")
    assert directory.status == 2
    assert "there is no such directory (/nowhere)" in directory.error_lines[0]
    assert quarantine(shop) == {}


def test_records_of_transactions_are_taken_once_they_are_committed(
    shop: Journal, topic: Topic, kafka: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic.name})
    producer.init_transactions(PATIENCE_S)
    for name, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, group(shop, name), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        ends(PATIENCE_S)
    done(submit(shop, topic))
    # A mark of each of them has an offset, too.
    assert (order(shop), offsets(shop)) == (["a"], {0: 4})
    producer.begin_transaction()
    producer.produce(topic.name, group(shop, "c"), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert done(submit(shop, topic))["state"] == "nothing-to-do"
    assert offsets(shop) == {0: 4}
    producer.commit_transaction(PATIENCE_S)
    done(submit(shop, topic))
    assert (order(shop), offsets(shop)) == (["a", "c"], {0: 6})
