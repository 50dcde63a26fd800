"""The topics of journals, and the first and last offsets of their partitions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidemark.errors import InvalidInput, KafkaUnavailable
from tidemark.settings import Settings

_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_PLACED = re.compile(r"(?P<topic>[^/:]+)/(?P<partition>\d+):(?P<rest>.+)")


@dataclass(frozen=True, order=True)
class TopicPartition:
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return `topic/partition`."""
        return f"{self.topic}/{self.partition}"


def placed(text: str) -> tuple[TopicPartition, str] | None:
    """Return the topic partition and the rest of `topic/partition:rest`, else None."""
    match = _PLACED.fullmatch(text)
    return match and (TopicPartition(match["topic"], int(match["partition"])), match["rest"])


@dataclass(frozen=True)
class Offsets:
    """The offsets of a topic partition in Kafka.

    Attributes:
        first: the first one.
        end: the one after the last that can be read, before the first open transaction.
        written: the one after the last.
    """

    first: int
    end: int
    written: int


class Topics:
    """A client that reads topics; it raises KafkaUnavailable if Kafka does not answer."""

    def __init__(self, settings: Settings) -> None:
        """Prepare a client; it sends no request yet."""
        self._settings = settings
        self._servers = settings.kafka_bootstrap_servers
        self._prefix = settings.kafka_topic_prefix
        self._timeout = settings.kafka_timeout
        self._client = AdminClient(client_settings(settings))

    def partitions(self, only: Iterable[str] = ()) -> list[TopicPartition]:
        """Return the partitions of the topics with the prefix, or only of the named ones.

        Raises:
            InvalidInput: a named topic does not exist, or has another prefix.
        """
        with self._in_one_line():
            all_topics = self._client.list_topics(timeout=self._timeout).topics
        own = {name: topic for name, topic in all_topics.items() if name.startswith(self._prefix)}
        names = sorted(set(only)) or sorted(own)
        if absent := [name for name in names if name not in own]:
            raise InvalidInput(
                f"{self._servers} has no topic {', '.join(absent)} with the prefix {self._prefix}",
                where="--topic, TIDEMARK_KAFKA_TOPIC_PREFIX",
                do=f"choose among {', '.join(sorted(own)) or 'none'}",
            )
        return [
            TopicPartition(name, number)
            for name in names
            for number in sorted(own[name].partitions)
        ]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, whatever its prefix.

        Raises:
            InvalidInput: the topic does not exist.
        """
        with self._in_one_line():
            # A request for a missing topic by its name might create it.
            all_topics = self._client.list_topics(timeout=self._timeout).topics
        if topic not in all_topics:
            near = difflib.get_close_matches(topic, all_topics, 1)
            do = f"write {near[0]}" if near else "create it, or correct the name"
            raise InvalidInput(f"{self._servers} has no topic {topic}", where="--topic", do=do)
        return [TopicPartition(topic, number) for number in sorted(all_topics[topic].partitions)]

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic."""
        new = NewTopic(topic, partitions, config=dict(config))
        with self._in_one_line():
            self._client.create_topics([new])[topic].result(self._timeout)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Offsets]:
        """Return the present offsets of partitions."""
        of_client = {tp: ClientPartition(tp.topic, tp.partition) for tp in partitions}
        # The library's stubs leave these two untyped.
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        # In this order, records appended in between do not look like an open transaction.
        written = self._ask(of_client, latest, IsolationLevel.READ_UNCOMMITTED)
        ends = self._ask(of_client, latest)
        firsts = self._ask(of_client, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        return {tp: Offsets(firsts[tp], ends[tp], written[tp]) for tp in of_client}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition whose record is of this time or later.

        Without such a record it is the offset at which the partition ends.
        """
        of_client = {tp: ClientPartition(tp.topic, tp.partition) for tp in partitions}
        spec = OffsetSpec.for_timestamp(round(at.timestamp() * 1000))
        offsets = self._ask(of_client, spec)
        # Kafka answers -1 if there is none.
        ends = self.offsets(tp for tp, offset in offsets.items() if offset < 0)
        return {tp: ends[tp].end if tp in ends else offset for tp, offset in offsets.items()}

    def begins(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, datetime]:
        """Return the time of the first record of each partition that has one."""
        of_client = {tp: ClientPartition(tp.topic, tp.partition) for tp in partitions}
        answers = self._answers(of_client, OffsetSpec.for_timestamp(0))
        return {
            # A producer may have written microseconds.
            tp: datetime.fromtimestamp(min(answer.timestamp / 1000, _LAST_SECOND), UTC)
            for tp, answer in answers.items()
            if answer.offset >= 0
        }

    def _ask(
        self,
        of_client: Mapping[TopicPartition, ClientPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Mapping[TopicPartition, int]:
        answers = self._answers(of_client, spec, isolation)
        return {tp: answer.offset for tp, answer in answers.items()}

    def _answers(
        self,
        of_client: Mapping[TopicPartition, ClientPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Mapping[TopicPartition, Any]:
        if not of_client:
            return {}
        with self._in_one_line():
            futures: Mapping[ClientPartition, Future[Any]] = self._client.list_offsets(
                dict.fromkeys(of_client.values(), spec),
                isolation_level=isolation,
                request_timeout=self._timeout,
            )
            answers = {(tp.topic, tp.partition): futures[tp] for tp in futures}
            return {tp: answers[tp.topic, tp.partition].result(self._timeout) for tp in of_client}

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise unavailable(self._settings, reason) from None


def unavailable(settings: Settings, reason: str) -> KafkaUnavailable:
    """Return the error for a Kafka that does not answer, with the reason from its client."""
    return KafkaUnavailable(
        f"Kafka does not answer: {reason}",
        where=settings.kafka_bootstrap_servers,
        do="check that it is up and TIDEMARK_KAFKA_BOOTSTRAP_SERVERS names it",
    )


def client_settings(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a Kafka client."""
    client: dict[str, Any] = {
        "bootstrap.servers": settings.kafka_bootstrap_servers,
        "security.protocol": settings.kafka_security_protocol,
        # Its log only repeats its errors.
        "log_level": 0,
    }
    if settings.kafka_ssl_ca:
        client["ssl.ca.location"] = settings.kafka_ssl_ca
    if settings.kafka_security_protocol.startswith("SASL"):
        client |= {
            "sasl.mechanism": settings.kafka_sasl_mechanism,
            "sasl.username": settings.kafka_username,
            "sasl.password": settings.kafka_password.get_secret_value(),
        }
    return client
