"""`replicate` over a real Kafka and a real Cassandra, as its users see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal
from tidemark.cassandra import connector
from tidemark.replicate.tables.rows import WAVES


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


def events(journal: Journal) -> list[tuple[str, int, int, str]]:
    """Return what rows of journal hold: id, segment, seq_nr, payload."""
    return sorted(
        (row["id"], row["segment"], row["seq_nr"], row["payload_txt"])
        for row in journal.rows("journal")
    )


def pointers(journal: Journal) -> dict[int, int]:
    return {row["partition"]: row["offset"] for row in journal.rows("pointer2")}


def test_actions_of_a_topic_are_replicated_up_to_its_end(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1, 2, 3])
    topic.append("b", [1], expire_after="1 day", origin="here")
    topic.mark("a")
    topic.delete("a", 2)
    topic.append("c", [5, 6])
    topic.purge("b")
    topic.flush()
    result = tenant.run("replicate")
    assert result.status == 0, result.stderr
    assert result.report["counts"] == {
        **{"records": 6, "appends": 3, "marks": 1, "deletes": 1, "purges": 1},
        **{"events": 6, "unreadable": 0},
    }
    assert events(tenant) == [("a", 0, 3, "3"), ("c", 0, 5, "5"), ("c", 0, 6, "6")]
    heads = {row["id"]: row for row in tenant.rows("metajournal")}
    assert {
        name: (row["seq_nr"], row["delete_to"], row["offset"]) for name, row in heads.items()
    } == {
        "a": (3, 2, 3),
        "c": (6, 4, 4),
    }
    assert pointers(tenant) == {0: 5}
    again = tenant.run("replicate")
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")
    topic.append("a", [4])
    topic.flush()
    assert tenant.run("replicate").report["counts"]["records"] == 1
    assert pointers(tenant) == {0: 6}
    assert tenant.own_rows("kafka_journal_deletion") == []
    [setting] = tenant.rows("setting")
    assert (setting["key"], setting["value"]) == ("schema-version", "8")


def test_a_journal_that_no_batch_takes_grows_in_waves_without_a_gap(
    tenant: Journal, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that comes between two waves finds the first events, up to some number."""
    written = connector.write
    found: list[tuple[bool, int]] = []

    def write(frame: DataFrame, keyspace: str, name: str, **options: Any) -> None:
        written(frame, keyspace, name, **options)
        if name == "journal":
            numbers = sorted(row["seq_nr"] for row in tenant.rows("journal") if row["id"] == "a")
            assert numbers == list(range(1, len(numbers) + 1))
            found.append((options["in_order"], len(numbers)))

    monkeypatch.setattr("tidemark.replicate.tables.rows.connector.write", write)
    for first in range(1, 2001, 500):
        topic.append("a", range(first, first + 500))
    topic.append("b", [1, 2])
    result = tenant.run("replicate")
    assert result.status == 0, result.stderr
    assert [in_order for in_order, _ in found] == [False] * WAVES + [True]
    lengths = [number for _, number in found]
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == 2000
    assert len(events(tenant)) == 2002
