"""A task that waits until everything up to its start is replicated, without taking a slot."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseHook, BaseOperator, Connection, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidemark_airflow.environment.connections import cassandra_environment, kafka_environment
from tidemark_airflow.environment.drivers import own_python
from tidemark_airflow.environment.installation import home

POLL = timedelta(seconds=30)


class WaitUntilReplicated(BaseOperator):
    """Waits until the pointers have passed the ends of the topics at the start of the task.

    Downstream tasks then read everything that was appended before. The operator needs no marker in
    Kafka, and works with any replicator. While it waits, the triggerer reads the pointers.

    Args:
        topics: only these topics; by default all topics with the prefix in the settings
        (templated). offsets: wait for these offsets instead, as `topic/partition:offset`
        (templated). poll: the interval between two reads of the pointers. timeout: the maximum time
        to wait; then the task fails. cassandra_conn_id: the connection of Cassandra. kafka_conn_id:
        the connection of Kafka.

    Raises:
        AirflowFailException: a topic or an offset is rejected.
        AirflowException: the offsets are not replicated in time, or a server does not answer.
    """

    template_fields: Sequence[str] = ("topics", "offsets")

    def __init__(
        self,
        *,
        topics: Sequence[str] = (),
        offsets: Sequence[str] = (),
        poll: timedelta = POLL,
        timeout: timedelta = timedelta(hours=1),
        cassandra_conn_id: str = "cassandra_default",
        kafka_conn_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.offsets = offsets
        self.poll = poll
        self.timeout = timeout
        self.cassandra_conn_id = cassandra_conn_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> None:
        """Record the ends of the topics, and wait in the triggerer."""
        cassandra, kafka = (
            BaseHook.get_connection(name) for name in (self.cassandra_conn_id, self.kafka_conn_id)
        )
        asked = [word for name in self.topics for word in ("--topic", name)]
        asked += [word for name in self.offsets for word in ("--offset", name)]
        told = asyncio.run(_ask(asked, cassandra, kafka))
        self.log.info("waiting for %s", ", ".join(told["targets"]) or "nothing: no record is there")
        if told["missing"]:
            trigger = ReplicatedTrigger(
                told["targets"],
                self.poll.total_seconds(),
                time.time() + self.timeout.total_seconds(),
                self.cassandra_conn_id,
                self.kafka_conn_id,
            )
            self.defer(trigger=trigger, method_name="resume")

    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """End with the result of the trigger."""
        if event["error"]:
            raise AirflowException(event["error"])
        self.log.info("everything up to the start of this task is replicated")


class ReplicatedTrigger(BaseTrigger):
    """Fires when the pointers have reached offsets, or it is too late."""

    def __init__(
        self,
        targets: Sequence[str],
        poll_seconds: float,
        until: float,
        cassandra_conn_id: str,
        kafka_conn_id: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.targets = targets
        self.poll_seconds = poll_seconds
        self.until = until
        self.cassandra_conn_id = cassandra_conn_id
        self.kafka_conn_id = kafka_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, which hold no secret."""
        names = ("targets", "poll_seconds", "until", "cassandra_conn_id", "kafka_conn_id")
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            name: getattr(self, name) for name in names
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at the pointers until all are there."""
        asked = [word for target in self.targets for word in ("--offset", target)]
        while True:
            cassandra = await BaseHook.aget_connection(self.cassandra_conn_id)
            kafka = await BaseHook.aget_connection(self.kafka_conn_id)
            missing: Sequence[str] = self.targets
            try:
                missing = (await _ask(asked, cassandra, kafka))["missing"]
                problem = f"not replicated in time: {', '.join(missing[:3])}"
            except AirflowException as error:
                # Cassandra may be away for a while; the time that is left is its bound.
                problem = str(error)
            if not missing:
                yield _event("")
                return
            if time.time() + self.poll_seconds > self.until:
                yield _event(problem)
                return
            await asyncio.sleep(self.poll_seconds)


def _event(error: str) -> TriggerEvent:
    return TriggerEvent({"error": error})  # type: ignore[no-untyped-call]


async def _ask(
    asked: Sequence[str], cassandra: Connection, kafka: Connection
) -> dict[str, list[str]]:
    """Return what `replicate.py wait --json` says, without waiting.

    Raises:
        AirflowFailException: the input is refused.
        AirflowException: a server does not answer.
    """
    process = await asyncio.create_subprocess_exec(
        own_python(),
        str(home() / "spark_apps" / "replicate.py"),
        *("wait", "--timeout", "0", "--json", *asked),
        env={**os.environ, **cassandra_environment(cassandra), **kafka_environment(kafka)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    lines = output.decode().strip().splitlines()
    if not lines:
        kind = AirflowFailException if process.returncode == 2 else AirflowException
        said = errors.decode().strip().splitlines() or [f"exit status {process.returncode}"]
        raise kind(said[-1])
    told: dict[str, list[str]] = json.loads(lines[-1])
    return told
