"""Expired journals: purge sends Purge records to a real Kafka, and replicate deletes in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from embedded.kafka.server import Kafka
from embedded.paths import CONF
from tests.integration.kafka_topic import PATIENCE_S, Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal, Result
from tests.unit.replicate.replication_model import Action
from tidemark.cassandra.schema import table

POLICY = "policies: [{name: expired, target: kafka-journal-expiry}]"


class Tenant:
    """A topic of two partitions, replicated by `replicate` and purged by `purge`."""

    def __init__(self, journal: Journal, kafka: str, directory: Path) -> None:
        self.journal, self.kafka = journal, kafka
        self.topic = Topic(kafka, partitions=2)
        file = directory / "retention.yaml"
        file.write_text(POLICY)
        self.topic.feeds(
            journal,
            RETENTION_FILE=str(file),
            PROJECTIONS_DIR=str(directory),
            KAFKA_JOURNAL_SEGMENT_SIZE="2",
        )

    def replicate(self, *arguments: str) -> None:
        self.topic.flush()
        result = self.journal.run("replicate", *arguments)
        assert result.status == 0, result.stderr

    def expire(self, key: str, days: int = 1) -> None:
        """Let a journal have expired some days ago."""
        day = datetime.now(UTC).date() - timedelta(days=days)
        [head] = [row for row in self.journal.rows("metajournal") if row["id"] == key]
        self.journal.control.execute(
            f"UPDATE {table(self.journal.keyspace, 'metajournal')} SET expire_on = ?"
            " WHERE topic = ? AND segment = ? AND id = ?",
            (day, head["topic"], head["segment"], key),
        )

    def purge(self, *options: str) -> Result:
        self.topic.flush()
        result = self.journal.run("purge", *options)
        assert result.status == 0, result.stderr
        return result

    def purged(self) -> int:
        """Apply, note the new Purge records in the log of the topic, and return their number."""
        number: int = self.purge("--apply").report["counts"]["journals_purged"]
        for one in self.sent():
            partition, offset = one.partition(), one.offset()
            assert partition is not None
            if offset == len(self.topic.log[partition]):
                self.topic.note_purge((one.key() or b"").decode(), partition)
        return number

    def sent(self) -> list[Message]:
        """Return the Purge records of the topic."""
        return [one for one in records(self.kafka, self.topic) if b'"purge"' in header(one)]

    def read(self, key: str, partition: int = 0) -> list[int]:
        self.topic.flush()
        return Reader(self.journal, self.topic).read(key, partition)

    def verify(self) -> None:
        """Kafka and the tables agree, and there is nothing to repair."""
        result = self.journal.run("replicate", "verify")
        assert result.status == 0, result.stdout
        repaired = self.journal.run("replicate", "repair", "--apply")
        assert repaired.report["state"] == "nothing-to-do", repaired.stdout


def header(one: Message) -> bytes:
    headers: Any = one.headers()
    [(name, value)] = headers
    assert name == "journal.action"
    return bytes(value)


def take_no_records(kafka: str, topic: Topic) -> None:
    """Let the topic refuse every record, since it is too large."""
    entry = ConfigEntry("max.message.bytes", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def records(kafka: str, topic: Topic) -> Iterator[Message]:
    """Read a topic from its beginning to its end."""
    client = {"bootstrap.servers": kafka, "log_level": 0}
    consumer = Consumer({**client, "group.id": "nobody", "enable.auto.commit": False})
    try:
        for partition in range(topic.partitions):
            one = TopicPartition(topic.name, partition, 0)
            _, end = consumer.get_watermark_offsets(one, PATIENCE_S)
            consumer.assign([one])
            for _ in range(end):
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                assert message.error() is None
                yield message
    finally:
        consumer.close()


def allow(kafka: str, topic: Topic, *, all_but: AclOperation) -> None:
    """Let everybody do all with a topic but for one operation."""

    def acl(operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        of_topic = (ResourceType.TOPIC, topic.name, ResourcePatternType.LITERAL)
        return AclBinding(*of_topic, "User:ANONYMOUS", "*", operation, permission)

    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    acls = [
        acl(AclOperation.ALL, AclPermissionType.ALLOW),
        acl(all_but, AclPermissionType.DENY),
    ]
    for made in admin.create_acls(acls).values():
        made.result(PATIENCE_S)


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], kafka: str, tmp_path: Path) -> Tenant:
    """Return a topic with the expired journals `k` and `m`, and one that never expires."""
    one = Tenant(make_journal(), kafka, tmp_path)
    one.topic.append("k", [1, 2, 3], expire_after="1 day")
    one.topic.append("m", [1], expire_after="1 day", partition=1)
    one.topic.append("stays", [1, 2], partition=1)
    one.replicate()
    one.expire("k")
    one.expire("m", 9)
    return one


def test_purge_sends_a_record_and_replicate_deletes(tenant: Tenant) -> None:
    """Afterwards a key begins anew, and neither verify nor repair know of its former life."""
    before = {name: tenant.journal.rows(name) for name in ("journal", "metajournal")}
    shown = tenant.purge()
    [line] = [line for line in shown.report["lines"] if "purge 2 journals" in line]
    assert line.endswith(": k, m")
    assert tenant.sent() == []
    assert tenant.purged() == 2
    assert before == {name: tenant.journal.rows(name) for name in before}
    found = {one.key(): one for one in tenant.sent()}
    assert {key: one.partition() for key, one in found.items()} == {b"k": 0, b"m": 1}
    for one in found.values():
        assert one.value() is None
        assert set(json.loads(header(one))["purge"]) <= {"origin", "version"}
    assert (tenant.read("k"), tenant.read("m", 1), tenant.read("stays", 1)) == ([], [], [1, 2])
    tenant.replicate()
    assert {row["id"] for name in before for row in tenant.journal.rows(name)} == {"stays"}
    tenant.verify()
    tenant.topic.append("k", [1])
    tenant.replicate()
    assert (tenant.read("k"), tenant.read("stays", 1)) == ([1], [1, 2])
    tenant.verify()
    assert tenant.read("k") == [1]
    assert tenant.purge("--apply").report["state"] == "nothing-to-do"


def test_a_journal_that_was_appended_to_and_not_replicated_since_stays(tenant: Tenant) -> None:
    tenant.topic.append("k", [4], expire_after="30 days")
    tenant.topic.mark("m", partition=1)
    kept = [line for line in tenant.purge().report["lines"] if "keep" in line]
    assert [line.rpartition(": ")[2] for line in kept] == ["k, m"]
    assert tenant.purged() == 0
    tenant.replicate()
    assert tenant.read("k") == [1, 2, 3, 4]
    assert tenant.purged() == 1
    tenant.replicate()
    assert (tenant.read("k"), tenant.read("m", 1)) == ([1, 2, 3, 4], [])
    tenant.verify()


@pytest.mark.long
def test_a_journal_of_which_records_are_held_stays(tenant: Tenant) -> None:
    tenant.topic.record(b"k", b"no JSON", b"x")
    tenant.topic.log[0].append(("k", Action(1, "mark")))
    tenant.topic.append("k", [4], expire_after="30 days")
    tenant.replicate()
    assert tenant.purged() == 1
    assert [one.key() for one in tenant.sent()] == [b"m"]
    tenant.replicate()
    tenant.replicate("replay", "--key", "k", "--skip", "1", "--apply")
    assert (tenant.read("k"), tenant.read("m", 1)) == ([1, 2, 3, 4], [])
    tenant.verify()


@pytest.mark.long
def test_a_second_purge_before_the_first_is_replicated_leaves_the_next_life_alone(
    tenant: Tenant,
) -> None:
    assert tenant.purged() == 2
    tenant.topic.append("k", [1])
    assert tenant.purged() == 0
    assert len(tenant.sent()) == 2
    tenant.replicate()
    assert (tenant.read("k"), tenant.read("m", 1)) == ([1], [])
    tenant.verify()


@pytest.mark.long
def test_a_topic_that_takes_no_record_fails_the_run_at_its_end(tenant: Tenant) -> None:
    """Journals of the other topics are purged."""
    other = Topic(tenant.kafka, prefix=f"{tenant.topic.prefix}-other")
    other.append("o", [1], expire_after="1 day")
    other.flush()
    tenant.replicate()
    tenant.expire("o")
    take_no_records(tenant.kafka, tenant.topic)
    result = tenant.journal.run("purge", "--apply")
    assert result.status == 1
    [line] = result.error_lines
    assert tenant.topic.name in line
    assert "1 journal is purged" in line
    assert tenant.sent() == []
    assert [one.key() for one in records(tenant.kafka, other)] == [b"o", b"o"]


@pytest.fixture
def guarded_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a broker that asks ACLs."""
    name = "kafka-server.properties"
    configuration = (CONF / name).read_text("utf-8")
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    (tmp_path / name).write_text(
        f"{configuration}\nauthorizer.class.name={authorizer}\n"
        "allow.everyone.if.no.acl.found=true\n"
    )
    monkeypatch.setattr("embedded.kafka.broker.CONF", tmp_path)
    server = Kafka(tmp_path / "kafka")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.mark.long
def test_a_user_who_may_not_write_the_topic_gets_one_line(
    make_journal: Callable[..., Journal], guarded_kafka: str, tmp_path: Path
) -> None:
    tenant = Tenant(make_journal(), guarded_kafka, tmp_path)
    tenant.topic.append("k", [1], expire_after="1 day")
    tenant.replicate()
    tenant.expire("k")
    allow(guarded_kafka, tenant.topic, all_but=AclOperation.WRITE)
    result = tenant.journal.run("purge", "--apply")
    assert result.status == 1
    [line] = result.error_lines
    assert f"such as {tenant.topic.name}: Broker: Topic authorization failed" in line
    assert "0 journals are purged" in line
    assert "let the user of this run write the topic" in line
    assert tenant.sent() == []


@pytest.mark.long
def test_a_topic_that_was_made_anew_is_left_alone(tenant: Tenant) -> None:
    """Its heads are of the former topic, of which they may be the only trace."""
    at = {"topic": tenant.topic.name, "offset": 5000}
    tenant.journal.insert("pointer2", [{**at, "partition": number} for number in range(2)])
    shown = tenant.purge("--apply")
    assert shown.report["counts"]["journals_purged"] == 0
    assert sum("it is another topic of that name" in one for one in shown.report["lines"]) == 2
    assert tenant.sent() == []
