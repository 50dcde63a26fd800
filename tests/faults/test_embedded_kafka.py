from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedded.errors import EmbeddedError
from embedded.kafka import broker
from embedded.kafka.server import Kafka
from embedded.machine import ports, processes

PATIENCE_S = 60


def test_start_refuses_a_pinned_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        kafka = Kafka(tmp_path, port=port)
        with pytest.raises(EmbeddedError, match=rf"^port {port} is already in use by pid \d"):
            kafka.start()
    assert kafka.address() is None


def test_start_tells_the_last_log_lines_of_a_broker_that_cannot_use_its_data(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").write_text("a file where the data directory belongs", "utf-8")
    with pytest.raises(EmbeddedError, match=r"^Kafka's storage cannot be formatted: ") as refused:
        Kafka(tmp_path).start()
    assert "kafka.tools.StorageTool" in refused.value.detail
    assert processes.all_recorded(tmp_path.parent) == {}


def test_storage_is_formatted_for_an_id_that_looks_like_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))
    broker.prepare(tmp_path, {"clients": 9092, "controller": 9093})
    assert "cluster.id=-" in (tmp_path / "data" / "meta.properties").read_text("utf-8")


@pytest.mark.long
def test_a_second_start_keeps_what_was_published_and_stop_leaves_nothing(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    try:
        first = kafka.start()
        assert kafka.start() == first
        admin = AdminClient({"bootstrap.servers": first})
        admin.create_topics([NewTopic("kept", 2)])["kept"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": first})
        producer.produce("kept", key=b"id", value=b"event", partition=1)
        assert producer.flush(PATIENCE_S) == 0
        assert kafka.stop()
        assert not kafka.stop()
        assert kafka.address() is None

        second = kafka.start()
        assert second == first
        consumer = Consumer({"bootstrap.servers": second, "group.id": "test"})
        consumer.assign([TopicPartition("kept", 1, 0)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert (message.key(), message.value(), message.offset()) == (b"id", b"event", 0)
        consumer.close()
    finally:
        kafka.stop()
