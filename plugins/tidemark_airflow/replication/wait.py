"""A task that waits until all records before its start are replicated, without taking a slot."""

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
from tidemark_airflow.journals.journal import DEFAULT, environment

POLL = timedelta(seconds=30)


class WaitUntilReplicated(BaseOperator):
    """Waits until the pointers have passed the ends of the topics at the start of the task.

    Tasks downstream then read everything that was appended before. This needs no mark in Kafka and
    works with any replicator. While the task waits, the triggerer reads the pointers.

    Args:
        topics: only these topics; by default all with the prefix of the settings (templated).
        offsets: offsets instead of the topics' ends, as `topic/partition:offset` (templated).
        poll: the time between two reads of the pointers.
        timeout: the time after which the task fails.
        cassandra_conn_id: the connection of Cassandra.
        kafka_conn_id: the connection of Kafka.
        journal: the name of the journal.

    Raises:
        AirflowFailException: a topic or offset is rejected.
        AirflowException: the topics are not replicated in time, or a server does not answer.
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
        journal: str = DEFAULT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.offsets = offsets
        self.poll = poll
        self.timeout = timeout
        self.cassandra_conn_id = cassandra_conn_id
        self.kafka_conn_id = kafka_conn_id
        self.journal = journal

    def execute(self, context: Context) -> None:
        """Read the ends of the topics, and leave the wait to the triggerer."""
        cassandra, kafka = (
            BaseHook.get_connection(name) for name in (self.cassandra_conn_id, self.kafka_conn_id)
        )
        options = [word for name in self.topics for word in ("--topic", name)]
        options += [word for name in self.offsets for word in ("--offset", name)]
        status = asyncio.run(_ask(options, cassandra, kafka, self.journal))
        self.log.info(
            "waiting for %s", ", ".join(status["targets"]) or "nothing: no record is there"
        )
        if status["missing"]:
            trigger = ReplicatedTrigger(
                status["targets"],
                self.poll.total_seconds(),
                time.time() + self.timeout.total_seconds(),
                self.cassandra_conn_id,
                self.kafka_conn_id,
                self.journal,
            )
            self.defer(trigger=trigger, method_name="resume")

    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """Fail with the error of the trigger, if there is one."""
        if event["error"]:
            raise AirflowException(event["error"])
        self.log.info("everything up to the start of this task is replicated")


class ReplicatedTrigger(BaseTrigger):
    """Fires when the pointers have reached the target offsets, or the time is over."""

    def __init__(
        self,
        targets: Sequence[str],
        poll_seconds: float,
        until: float,
        cassandra_conn_id: str,
        kafka_conn_id: str,
        journal: str = DEFAULT,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.targets = targets
        self.poll_seconds = poll_seconds
        self.until = until
        self.cassandra_conn_id = cassandra_conn_id
        self.kafka_conn_id = kafka_conn_id
        self.journal = journal

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, none of them secret."""
        names = (
            "targets",
            "poll_seconds",
            "until",
            "cassandra_conn_id",
            "kafka_conn_id",
            "journal",
        )
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            name: getattr(self, name) for name in names
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Read the pointers until all have reached their targets."""
        options = [word for target in self.targets for word in ("--offset", target)]
        while True:
            cassandra = await BaseHook.aget_connection(self.cassandra_conn_id)
            kafka = await BaseHook.aget_connection(self.kafka_conn_id)
            missing: Sequence[str] = self.targets
            try:
                missing = (await _ask(options, cassandra, kafka, self.journal))["missing"]
                problem = f"not replicated in time: {', '.join(missing[:3])}"
            except AirflowException as error:
                # Cassandra may be unavailable for a while, but not until the time is over.
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
    options: Sequence[str], cassandra: Connection, kafka: Connection, journal: str
) -> dict[str, list[str]]:
    """Return the output of `replicate.py wait --json` without a wait.

    Raises:
        AirflowFailException: the input is rejected.
        AirflowException: a server does not answer.
    """
    process = await asyncio.create_subprocess_exec(
        own_python(),
        str(home() / "spark_apps" / "replicate.py"),
        *("wait", "--timeout", "0", "--json", *options),
        env={
            **os.environ,
            **cassandra_environment(cassandra),
            **kafka_environment(kafka),
            **environment(journal),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    lines = output.decode().strip().splitlines()
    if not lines:
        kind = AirflowFailException if process.returncode == 2 else AirflowException
        error_lines = errors.decode().strip().splitlines() or [f"exit status {process.returncode}"]
        raise kind(error_lines[-1])
    status: dict[str, list[str]] = json.loads(lines[-1])
    return status
