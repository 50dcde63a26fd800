"""The task that waits for the replication: real Kafka and Cassandra, without a scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import BaseHook, Connection, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal
from tidemark_airflow.replication.wait import ReplicatedTrigger, WaitUntilReplicated

CONTEXT = cast(Context, SimpleNamespace())


@pytest.fixture
def tenant(
    make_journal: Callable[..., Journal], kafka: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Journal, Topic]:
    """Return a topic, and the keyspace it is replicated into; Airflow's connections name them."""
    journal, topic = make_journal(), Topic(kafka)
    topic.feeds(journal)

    def named(conn_id: str) -> Connection:
        own = journal.environment
        if conn_id == "kafka_default":
            host, port = own["TIDEMARK_KAFKA_BOOTSTRAP_SERVERS"].split(":")
            return Connection(conn_id=conn_id, conn_type="kafka", host=host, port=int(port))
        host, port = own["TIDEMARK_CASSANDRA_HOSTS"].split(":")
        return Connection(
            conn_id=conn_id,
            conn_type="cassandra",
            host=host,
            port=int(port),
            login=own["TIDEMARK_CASSANDRA_USERNAME"],
            password=own["TIDEMARK_CASSANDRA_PASSWORD"],
        )

    async def asked(conn_id: str) -> Connection:
        return named(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", named)
    monkeypatch.setattr(BaseHook, "aget_connection", asked)
    for name, value in journal.environment.items():
        if name.startswith("TIDEMARK_") and "HOSTS" not in name and "SERVERS" not in name:
            monkeypatch.setenv(name, value)
    return journal, topic


def deferred(task: WaitUntilReplicated) -> ReplicatedTrigger:
    with pytest.raises(TaskDeferred) as told:
        task.execute(CONTEXT)
    path, arguments = told.value.trigger.serialize()
    assert path == "tidemark_airflow.replication.wait.ReplicatedTrigger"
    # As the triggerer makes it, from what Airflow's database holds.
    return ReplicatedTrigger(**arguments)


async def fired(trigger: ReplicatedTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return cast(dict[str, Any], event.payload)
    raise AssertionError("it has not fired")


def test_task_waits_for_all_that_was_there_when_it_began(tenant: tuple[Journal, Topic]) -> None:
    journal, topic = tenant
    topic.append("a", [1])
    topic.flush()
    task = WaitUntilReplicated(task_id="wait", poll=timedelta(milliseconds=100))
    trigger = deferred(task)
    assert trigger.targets == [f"{topic.name}/0:0"]
    # What comes later is not waited for.
    assert journal.run("replicate").status == 0
    topic.append("a", [2])
    topic.flush()
    event = asyncio.run(fired(trigger))
    task.resume(CONTEXT, event)
    again = WaitUntilReplicated(task_id="again", offsets=[f"{topic.name}/0:0"])
    again.execute(CONTEXT)


def test_task_fails_when_its_time_is_over(tenant: tuple[Journal, Topic]) -> None:
    _, topic = tenant
    topic.append("a", [1])
    topic.flush()
    trigger = deferred(WaitUntilReplicated(task_id="wait", topics=[topic.name]))
    trigger.until = time.time()
    event = asyncio.run(fired(trigger))
    with pytest.raises(AirflowException, match=rf"not replicated in time: {topic.name}/0:0"):
        WaitUntilReplicated(task_id="wait").resume(CONTEXT, event)


def test_unknown_topic_fails_at_once(tenant: tuple[Journal, Topic]) -> None:
    with pytest.raises(AirflowFailException, match="has no topic nothing"):
        WaitUntilReplicated(task_id="wait", topics=["nothing"]).execute(CONTEXT)
