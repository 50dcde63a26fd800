"""What a broker does to a topic: transactions, compression, gaps between offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.kafka_topic import Aborted, Topic
from tests.integration.replicate.test_refusals import done
from tests.integration.replicate.test_replicate import events, pointers
from tests.integration.support import Journal


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic of one partition."""
    return Topic(kafka)


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace for the topic."""
    journal = make_journal()
    topic.feeds(journal)
    return journal


def numbers(journal: Journal) -> list[int]:
    return [event[2] for event in events(journal)]


def test_records_of_aborted_transactions_are_not_replicated(tenant: Journal, topic: Topic) -> None:
    with topic.transaction():
        topic.append("a", [1])
    with topic.transaction():
        topic.append("a", [2])
        topic.flush()
        raise Aborted
    with topic.transaction():
        topic.append("a", [2])
        topic.append("a", [3])
    counts = done(tenant.run("replicate", REPLICATE_MAX_RECORDS="2"))
    assert (counts["records"], numbers(tenant)) == (3, [1, 2, 3])
    # Four records, and after each transaction one that ends it.
    assert pointers(tenant) == {0: 6}
    assert tenant.run("replicate", "verify").status == 0
    assert tenant.run("replicate").report["state"] == "nothing-to-do"


def test_what_follows_an_open_transaction_waits_for_its_end(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1])
    topic.flush()
    with topic.transaction():
        topic.append("a", [2])
        topic.flush()
        done(tenant.run("replicate"))
        assert (numbers(tenant), pointers(tenant)) == ([1], {0: 0})
    done(tenant.run("replicate"))
    assert (numbers(tenant), pointers(tenant)) == ([1, 2], {0: 2})


@pytest.mark.parametrize(
    "codec",
    ["zstd", *(pytest.param(one, marks=pytest.mark.long) for one in ("gzip", "snappy", "lz4"))],
)
def test_compressed_records_are_read(
    kafka: str, make_journal: Callable[..., Journal], codec: str
) -> None:
    topic, journal = Topic(kafka, compression=codec), make_journal()
    topic.feeds(journal)
    for number in range(1, 60):
        topic.append("a", [number])
    topic.flush()
    done(journal.run("replicate"))
    assert numbers(journal) == list(range(1, 60))


def test_gaps_that_compaction_leaves_are_no_losses(
    kafka: str, make_journal: Callable[..., Journal]
) -> None:
    # Records are a second apart, so each has a segment of its own.
    eager = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
    topic, journal = Topic(kafka, config={"cleanup.policy": "compact", **eager}), make_journal()
    topic.feeds(journal)
    topic.append("a", [1])
    topic.append("b", [1])
    topic.flush()
    done(journal.run("replicate"))
    for key, number in (("a", 2), ("b", 2), ("a", 3), ("c", 1)):
        topic.append(key, [number])
        topic.flush()
    topic.wait_for_compaction([3, 4, 5])
    done(journal.run("replicate"))
    held = [(event[0], event[2]) for event in events(journal)]
    assert held == [("a", 1), ("a", 3), ("b", 1), ("b", 2), ("c", 1)]
    assert pointers(journal) == {0: 5}
