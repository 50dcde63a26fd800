"""A reader of a journal while `replicate` writes more of its events than a batch takes.

Some of the writes are held back until the reader has read. So it reads while a part of the events
is there; and if another write did not wait for the one that is held, it would find a gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest

from embedded.cassandra.server import Endpoint
from tests.faults.cql_proxy import CqlProxy, Kind
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal, wait_until

LARGE, SMALL = "large", "small"
SEGMENT_SIZE = 20
EVENT_SIZE = 1500
BATCH_SIZE = 8192
"""Of a segment, no batch takes all."""
DELETED_TO, BEFORE, LAST = 3, 5, 60
EVENTS_OF_JOURNAL = Kind("INSERT", "journal", is_conditional=False)
OTHER_WRITES_S = 0.5
"""In which writes come that do not wait for the one that is held."""


class Read(NamedTuple):
    """What a reader got at a moment: of a journal, from Cassandra alone and from both."""

    key: str
    from_cassandra: list[int]
    all_numbers: list[int]


class Reading(Thread):
    """A thread that reads two journals again and again."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(daemon=True)
        self.reads: list[Read] = []
        self._reader = reader
        self._is_over = Event()
        self.error: BaseException | None = None

    def __enter__(self) -> Reading:
        self.start()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                for key in (LARGE, SMALL):
                    stored = self._reader.stored(key)
                    self.reads.append(Read(key, stored, self._reader.read(key, 0)))
        except BaseException as error:
            self.error = error

    def wait_for_reads(self) -> None:
        """Wait until both journals have been read by reads that began later than now."""
        time.sleep(OTHER_WRITES_S)
        begun = len(self.reads)
        # One read may be under way.
        wait_until("the reader to read", lambda: bool(self.error) or len(self.reads) >= begun + 3)


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic of one partition."""
    return Topic(kafka)


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace into which both journals are replicated already, with few events."""
    journal = make_journal(CASSANDRA_BATCH_SIZE=str(BATCH_SIZE))
    topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE=str(SEGMENT_SIZE))
    for number in range(1, BEFORE + 1):
        topic.append(LARGE, [number], size=EVENT_SIZE)
    topic.delete(LARGE, DELETED_TO)
    topic.append(SMALL, [1])
    topic.flush()
    assert journal.run("replicate").status == 0
    return journal


def test_a_reader_beside_the_writes_of_a_large_journal_never_finds_a_gap(
    tenant: Journal, topic: Topic, cassandra: Endpoint
) -> None:
    for number in range(BEFORE + 1, LAST + 1):
        topic.append(LARGE, [number], size=EVENT_SIZE)
    topic.append(SMALL, [2, 3])
    topic.flush()
    expected = {LARGE: list(range(DELETED_TO + 1, LAST + 1)), SMALL: [1, 2, 3]}
    reader = Reader(tenant, topic)
    with CqlProxy((cassandra.host, cassandra.port)) as proxy, Reading(reader) as reading:
        host, port = proxy.address
        with proxy.holding_every_second(EVENTS_OF_JOURNAL, reading.wait_for_reads):
            result = tenant.run("replicate", CASSANDRA_HOSTS=f"{host}:{port}")
    assert result.status == 0, result.stderr
    assert reading.error is None
    for read in reading.reads:
        numbers = expected[read.key]
        assert read.from_cassandra == numbers[: len(read.from_cassandra)]
        assert read.all_numbers == numbers
    lengths = {
        key: {len(read.from_cassandra) for read in reading.reads if read.key == key}
        for key in expected
    }
    assert lengths[SMALL] == {1, 3}
    # The first and the last are those before and after the writes.
    assert len(lengths[LARGE]) >= 2 + 3, lengths
    assert {min(lengths[LARGE]), max(lengths[LARGE])} == {BEFORE - DELETED_TO, LAST - DELETED_TO}
