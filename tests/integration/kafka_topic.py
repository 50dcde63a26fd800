"""A topic of kafka-journal in the embedded Kafka, written as kafka-journal's client writes it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.integration.support import Journal
from tests.unit.replicate.replication_model import Action

PATIENCE_S = 60
START = datetime(2024, 3, 1, 12, tzinfo=UTC)


class Aborted(Exception):
    """What aborts the transaction of a test."""


class Topic:
    """A topic of its own; its records are an hour's, a second apart."""

    def __init__(
        self,
        kafka: str,
        partitions: int = 1,
        prefix: str = "",
        *,
        config: Mapping[str, str] | None = None,
        compression: str = "none",
    ) -> None:
        """Make it, with a configuration of its own."""
        self.prefix = prefix or f"journal-{uuid.uuid4().hex[:12]}"
        self.name = f"{self.prefix}-orders"
        self.partitions = partitions
        self._servers = kafka
        # What they have to say goes on after the server has ended.
        client: dict[str, Any] = {"bootstrap.servers": kafka, "log_level": 0}
        self._admin = AdminClient(client)
        self._config = dict(config or {})
        self._reading = client
        self._client = {**client, "acks": "all", "compression.type": compression}
        self._make(self.name)
        self.log: list[list[tuple[str, Action]]]
        """Key and action of each record, by partition and offset; marks are as they are."""
        self._written = 0
        self._begin()

    def _begin(self) -> None:
        self._producer = Producer(self._client)
        self.log = [[] for _ in range(self.partitions)]

    def _make(self, name: str) -> None:
        made = self._admin.create_topics([NewTopic(name, self.partitions, config=self._config)])
        made[name].result(PATIENCE_S)

    def feeds(self, journal: Journal, **settings: str) -> None:
        """Let applications on a journal replicate the topic into its keyspace."""
        own = {
            "KAFKA_BOOTSTRAP_SERVERS": self._servers,
            "KAFKA_TOPIC_PREFIX": self.prefix,
            "KAFKA_JOURNAL_KEYSPACE": journal.keyspace,
        }
        more = {f"TIDEMARK_{name}": value for name, value in (own | settings).items()}
        journal.environment = {**journal.environment, **more}

    def append(
        self,
        key: str,
        numbers: Sequence[int],
        *,
        expire_after: str | None = None,
        origin: str | None = None,
        partition: int = 0,
        size: int = 0,
    ) -> None:
        """Append events with text payloads of at least so many characters."""
        days = None if expire_after is None else int(expire_after.split()[0])
        self._log(partition, key, "append", numbers=tuple(numbers), days=days, origin=origin)
        events = [
            {"seqNr": n, "tags": ["t"], "payloadType": "text", "payload": f"{n}".ljust(size, ".")}
            for n in numbers
        ]
        metadata = {} if expire_after is None else {"expireAfter": expire_after}
        header = {
            "range": {"from": numbers[0], "to": numbers[-1]},
            "payloadType": "json",
            "metadata": {},
            **({} if origin is None else {"origin": origin}),
        }
        value = json.dumps({"events": events, "metadata": metadata}).encode()
        self.record(key.encode(), {"append": header}, value, partition=partition)

    def delete(self, key: str, to: int, *, origin: str | None = None, partition: int = 0) -> None:
        """Delete events."""
        self._log(partition, key, "delete", to=to, origin=origin)
        more = {} if origin is None else {"origin": origin}
        self.record(key.encode(), {"delete": {"to": to, **more}}, partition=partition)

    def purge(self, key: str, *, origin: str | None = None, partition: int = 0) -> None:
        """Purge a journal."""
        self._log(partition, key, "purge", origin=origin)
        more = {} if origin is None else {"origin": origin}
        self.record(key.encode(), {"purge": more}, partition=partition)

    def note_purge(self, key: str, partition: int) -> None:
        """Add to the log a purge that somebody else has written."""
        self._log(partition, key, "purge")

    def mark(self, key: str, *, partition: int = 0) -> None:
        """Write a mark, which changes nothing."""
        self._log(partition, key, "mark")
        self.record(key.encode(), {"mark": {"id": str(uuid.uuid4())}}, partition=partition)

    def write(self, key: str, action: Action, *, partition: int = 0) -> None:
        """Write an action of the model; its offset is the next one."""
        match action.kind:
            case "append":
                days = None if action.days is None else f"{action.days} days"
                self.append(
                    key,
                    action.numbers,
                    expire_after=days,
                    origin=action.origin,
                    partition=partition,
                )
            case "delete":
                assert action.to is not None
                self.delete(key, action.to, origin=action.origin, partition=partition)
            case "purge":
                self.purge(key, origin=action.origin, partition=partition)
            case _:
                self.mark(key, partition=partition)

    def _log(self, partition: int, key: str, kind: str, **fields: Any) -> None:
        log = self.log[partition]
        log.append((key, Action(len(log), kind, **fields)))

    def record(
        self,
        key: bytes | None,
        action: Mapping[str, Any] | bytes,
        value: bytes | None = None,
        *,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Write a record; bytes as an action stand in the header as they are."""
        header = action if isinstance(action, bytes) else json.dumps(action).encode()
        self._written += 1
        at = START + timedelta(seconds=self._written)
        self.publish(key, value, [("journal.action", header), *headers], at, partition=partition)

    def publish(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        at: datetime,
        *,
        partition: int = 0,
    ) -> None:
        """Write a record as it is."""
        self._producer.produce(
            self.name,
            key=key,
            value=value,
            partition=partition,
            timestamp=round(at.timestamp() * 1000),
            headers=list(headers),
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write in a transaction, which an `Aborted` in the block aborts. Its end has an offset."""
        usual = self._producer
        self._producer = Producer({**self._client, "transactional.id": str(uuid.uuid4())})
        self._producer.init_transactions(PATIENCE_S)
        self._producer.begin_transaction()
        try:
            yield
        except Aborted:
            self._producer.abort_transaction(PATIENCE_S)
        else:
            self._producer.commit_transaction(PATIENCE_S)
        finally:
            self._producer = usual
        # The broker writes the end of a transaction after it has answered.
        made_by = time.monotonic() + PATIENCE_S
        while self._end(IsolationLevel.READ_COMMITTED) < self._end(IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < made_by

    def _end(self, isolation: IsolationLevel) -> int:
        one = TopicPartition(self.name, 0)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets({one: latest}, isolation_level=isolation)
        end: int = asked[one].result(PATIENCE_S).offset
        return end

    def wait_for_compaction(self, left: Sequence[int]) -> None:
        """Wait until the first partition holds these offsets only."""
        made_by = time.monotonic() + PATIENCE_S
        while (held := self._held()) != list(left):
            assert time.monotonic() < made_by, held

    def _held(self) -> list[int | None]:
        offsets: list[int | None] = []
        consumer = Consumer({**self._reading, "group.id": "none", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            offsets.append(message.offset())
        consumer.close()
        return offsets

    def unreadable(self, key: str, *, partition: int = 0) -> None:
        """Write a record that cannot be read; the log has a mark for it."""
        self._log(partition, key, "mark")
        self.record(key.encode(), b"no JSON", b"\xff", partition=partition)

    def add_partitions(self, number: int) -> None:
        """Let the topic have so many."""
        self._admin.create_partitions([NewPartitions(self.name, number)])[self.name].result(
            PATIENCE_S
        )
        # The other one learns of them minutes later.
        self._producer = Producer(self._client)
        self.log += [[] for _ in range(number - self.partitions)]
        self.partitions = number

    def make_anew(self) -> None:
        """Delete the topic, and make another one of its name."""
        self._admin.delete_topics([self.name])[self.name].result(PATIENCE_S)
        # The broker deletes it in the background, and refuses the name until then.
        made_by = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._make(self.name)
            except KafkaException:
                assert time.monotonic() < made_by
            else:
                break
        self._begin()

    def flush(self) -> None:
        """Wait until all records are written."""
        assert self._producer.flush(PATIENCE_S) == 0

    def drop_before(self, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        of = TopicPartition(self.name, partition, offset)
        [done] = self._admin.delete_records([of]).values()
        done.result(PATIENCE_S)
