"""Several keyspaces of kafka-journal, replicated by one Airflow with one keyspace of Tidemark's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from airflow.sdk import Connection

from tests.integration.kafka_topic import Topic
from tests.integration.replicate.test_replicate import events, pointers
from tests.integration.support import Journal
from tidemark_airflow.environment import connections

CARTS = "kafka_carts"


def variables(kafka: str, keyspace: str, prefix: str) -> Mapping[str, str]:
    """Return what the DAG of the further connection gives its application."""
    host, port = kafka.split(":")
    extra = json.dumps({"journal_keyspace": keyspace, "topic_prefix": prefix})
    found = connections.kafka_environment(
        Connection(conn_id=CARTS, conn_type="kafka", host=host, port=int(port), extra=extra)
    )
    return {name.removeprefix("TIDEMARK_"): value for name, value in found.items()}


@dataclass(frozen=True)
class Both:
    """One topic, and two keyspaces that it is replicated into; `further` is for the other."""

    topic: Topic
    orders: Journal
    other: Journal
    further: Mapping[str, str]


@pytest.fixture
def both(kafka: str, make_journal: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch) -> Both:
    monkeypatch.setenv(connections.MORE_KAFKA, CARTS)
    orders, other, topic = make_journal(), make_journal(), Topic(kafka)
    topic.feeds(orders)
    return Both(topic, orders, other, variables(kafka, other.keyspace, topic.prefix))


def test_each_keyspace_has_what_its_own_topic_says(both: Both) -> None:
    """Two Kafka clusters may have topics of the same name: here one topic is those of both."""
    topic, orders, other, further = both.topic, both.orders, both.other, both.further
    topic.append("a", [1, 2, 3])
    topic.delete("a", 1)
    topic.append("b", [1])
    topic.flush()
    there = [("a", 0, 2, "2"), ("a", 0, 3, "3"), ("b", 0, 1, "1")]
    assert orders.run("replicate").status == 0
    assert orders.run("replicate", **further).status == 0
    assert events(orders) == events(other) == there
    topic.purge("a")
    topic.flush()
    assert orders.run("replicate", **further).status == 0
    assert (events(orders), events(other)) == (there, there[2:])
    assert (pointers(orders), pointers(other)) == ({0: 2}, {0: 3})
    keyspaces = {row["journal_keyspace"] for row in orders.own_rows("offset_range")}
    assert keyspaces == {orders.keyspace, other.keyspace}
    assert orders.run("replicate").report["counts"]["purges"] == 1
    assert events(orders) == there[2:]


def test_a_key_that_is_held_in_one_keyspace_is_replicated_in_the_other(both: Both) -> None:
    topic, orders, other, further = both.topic, both.orders, both.other, both.further
    topic.append("a", [1])
    topic.unreadable("a")
    topic.append("a", [2])
    topic.flush()
    assert orders.run("replicate").status == 0
    assert orders.run("replicate", **further, KAFKA_JOURNAL_POISON="skip").status == 0
    assert events(orders) == [("a", 0, 1, "1")]
    assert events(other) == [("a", 0, 1, "1"), ("a", 0, 2, "2")]
