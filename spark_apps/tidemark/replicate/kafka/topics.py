"""The topics of journals, and where each of their partitions begins and ends."""

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
    """Return the topic partition and the rest of `topic/partition:rest`; None of another text."""
    found = _PLACED.fullmatch(text)
    return found and (TopicPartition(found["topic"], int(found["partition"])), found["rest"])


@dataclass(frozen=True)
class Offsets:
    """The offsets that a topic partition holds.

    Attributes:
        first: the first one.
        end: the one after the last that can be read, before the first open transaction.
        written: the one after the last.
    """

    first: int
    end: int
    written: int


class Topics:
    """What Kafka says of its topics."""

    def __init__(self, settings: Settings) -> None:
        """Prepare a client; nothing is asked yet."""
        self._settings = settings
        self._servers = settings.kafka_bootstrap_servers
        self._prefix = settings.kafka_topic_prefix
        self._timeout = settings.kafka_timeout
        self._client = AdminClient(client_settings(settings))

    def partitions(self, only: Iterable[str] = ()) -> list[TopicPartition]:
        """Return the partitions of the topics with the prefix, or only of the named ones.

        Raises:
            InvalidInput: a named topic does not exist, or has another prefix.
            KafkaUnavailable: Kafka does not answer.
        """
        with self._in_one_line():
            known = self._client.list_topics(timeout=self._timeout).topics
        own = {name: topic for name, topic in known.items() if name.startswith(self._prefix)}
        wanted = sorted(set(only)) or sorted(own)
        if absent := [name for name in wanted if name not in own]:
            raise InvalidInput(
                f"{self._servers} has no topic {', '.join(absent)} with the prefix {self._prefix}",
                where="--topic, TIDEMARK_KAFKA_TOPIC_PREFIX",
                do=f"choose among {', '.join(sorted(own)) or 'none'}",
            )
        return [
            TopicPartition(name, number)
            for name in wanted
            for number in sorted(own[name].partitions)
        ]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, whatever its prefix.

        Raises:
            InvalidInput: the topic does not exist.
            KafkaUnavailable: Kafka does not answer.
        """
        with self._in_one_line():
            # Asked for by its name, a topic that is not there might be made.
            known = self._client.list_topics(timeout=self._timeout).topics
        if topic not in known:
            near = difflib.get_close_matches(topic, known, 1)
            do = f"write {near[0]}" if near else "create it, or correct the name"
            raise InvalidInput(f"{self._servers} has no topic {topic}", where="--topic", do=do)
        return [TopicPartition(topic, number) for number in sorted(known[topic].partitions)]

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Make a topic.

        Raises:
            KafkaUnavailable: Kafka does not answer, or refuses it.
        """
        new = NewTopic(topic, partitions, config=dict(config))
        with self._in_one_line():
            self._client.create_topics([new])[topic].result(self._timeout)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Offsets]:
        """Return the offsets that partitions hold now.

        Raises:
            KafkaUnavailable: Kafka does not answer.
        """
        of_client = {one: ClientPartition(one.topic, one.partition) for one in partitions}
        # The library's stubs leave these two untyped.
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        # In this order: what is appended in between is not taken for an open transaction.
        written = self._ask(of_client, latest, IsolationLevel.READ_UNCOMMITTED)
        ends = self._ask(of_client, latest)
        firsts = self._ask(of_client, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        return {one: Offsets(firsts[one], ends[one], written[one]) for one in of_client}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition whose record is of this time or later.

        Where there is none yet, it is the one at which the partition ends.

        Raises:
            KafkaUnavailable: Kafka does not answer.
        """
        of_client = {one: ClientPartition(one.topic, one.partition) for one in partitions}
        spec = OffsetSpec.for_timestamp(round(at.timestamp() * 1000))
        found = self._ask(of_client, spec)
        # Kafka says -1 where there is none.
        ends = self.offsets(one for one, offset in found.items() if offset < 0)
        return {one: ends[one].end if one in ends else offset for one, offset in found.items()}

    def begins(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, datetime]:
        """Return the time of the first record of each partition that has one.

        Raises:
            KafkaUnavailable: Kafka does not answer.
        """
        of_client = {one: ClientPartition(one.topic, one.partition) for one in partitions}
        found = self._answers(of_client, OffsetSpec.for_timestamp(0))
        return {
            # A producer may have meant microseconds.
            one: datetime.fromtimestamp(min(answer.timestamp / 1000, _LAST_SECOND), UTC)
            for one, answer in found.items()
            if answer.offset >= 0
        }

    def _ask(
        self,
        of_client: Mapping[TopicPartition, ClientPartition],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Mapping[TopicPartition, int]:
        answers = self._answers(of_client, which, isolation)
        return {one: answer.offset for one, answer in answers.items()}

    def _answers(
        self,
        of_client: Mapping[TopicPartition, ClientPartition],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Mapping[TopicPartition, Any]:
        if not of_client:
            return {}
        with self._in_one_line():
            asked: Mapping[ClientPartition, Future[Any]] = self._client.list_offsets(
                dict.fromkeys(of_client.values(), which),
                isolation_level=isolation,
                request_timeout=self._timeout,
            )
            answers = {(one.topic, one.partition): asked[one] for one in asked}
            return {
                one: answers[one.topic, one.partition].result(self._timeout) for one in of_client
            }

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            said = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise unavailable(self._settings, said) from None


def unavailable(settings: Settings, said: str) -> KafkaUnavailable:
    """Return the error of a Kafka that does not answer, with what its client says."""
    return KafkaUnavailable(
        f"Kafka does not answer: {said}",
        where=settings.kafka_bootstrap_servers,
        do="check that it is up and TIDEMARK_KAFKA_BOOTSTRAP_SERVERS names it",
    )


def client_settings(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a client of Kafka's."""
    client: dict[str, Any] = {
        "bootstrap.servers": settings.kafka_bootstrap_servers,
        "security.protocol": settings.kafka_security_protocol,
        # What it says beside its errors is said by them.
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
