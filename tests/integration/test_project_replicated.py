"""Projections of a topic that `replicate` replicates: its progress says what is complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.kafka_topic import START as FIRST
from tests.integration.kafka_topic import Topic
from tests.integration.projections import Projections
from tests.integration.test_project_sources import LOG, LOG_TABLE
from tidemark.cassandra.schema import table
from tidemark.window import iso

FOR_EVER = {"KAFKA_JOURNAL_DELAY": str(10**9)}


def test_time_bucket_is_complete_when_the_topic_is_replicated_up_to_its_end(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka)
    # It is not the delay that says so.
    topic.feeds(journal, **FOR_EVER)
    definition = LOG.replace("kafka-journal: orders", f"kafka-journal: {topic.name}")
    projections.define(definition, LOG_TABLE)

    def replicate(number: int) -> None:
        topic.append("a", [number])
        topic.flush()
        assert journal.run("replicate").status == 0

    def reached(at: datetime) -> None:
        """Let the last run of replicate have been at a time."""
        own = table(journal.own_keyspace, "replicated_topic")
        [row] = journal.own_rows("replicated_topic")
        place = row["journal_keyspace"], row["topic"], row["partition"]
        journal.control.execute(
            f"DELETE FROM {own} WHERE journal_keyspace = ? AND topic = ?", place[:2]
        )
        journal.control.execute(
            f"INSERT INTO {own} (journal_keyspace, topic, partition, replicated_to)"
            " VALUES (?, ?, ?, ?)",
            (*place, at),
        )

    def pieces() -> dict[str, int]:
        return dict(projections.run(12, 13).report["pieces"])

    held = {"planned": 1, "done": 0, "held": 1, "failed": 0}
    done = {"planned": 1, "done": 1, "held": 0, "failed": 0}
    replicate(1)
    # The last run was before the time bucket had ended: what came since is not known.
    reached(FIRST + timedelta(minutes=30))
    assert pieces() == held
    assert {error for *_, error in projections.states()} == {"not replicated yet"}
    # A foreign replicator goes on: only the delay is left to say it.
    pointer = table(journal.keyspace, "pointer2")
    statement = f"UPDATE {pointer} SET offset = ? WHERE topic = ? AND partition = 0"
    journal.control.execute(statement, (7, topic.name))
    assert pieces() == held
    topic.feeds(journal, KAFKA_JOURNAL_DELAY="300")
    assert pieces() == done
    assert [row["what"] for row in journal.rows("log")] == ["1"]


def test_runs_of_replicate_say_how_far_they_are(projections: Projections, kafka: str) -> None:
    journal, topic = projections.journal, Topic(kafka, partitions=2)
    topic.feeds(journal, **FOR_EVER)
    definition = LOG.replace("kafka-journal: orders", f"kafka-journal: {topic.name}")
    projections.define(definition, LOG_TABLE)
    topic.append("a", [1])
    topic.flush()
    report = journal.run("replicate").report
    hour = (report["done_start"], report["done_end"])
    assert hour[0] == iso(FIRST)
    assert report["details"] == {
        "topics": {topic.name: {"done_start": hour[0], "done_end": hour[1]}}
    }
    first = {row["partition"]: row["replicated_to"] for row in journal.own_rows("replicated_topic")}
    assert set(first) == {0, 1}
    reached = min(first.values())
    assert hour[1] == iso(reached.replace(minute=0, second=0, microsecond=0, tzinfo=UTC))
    # A run that finds nothing new knows that there is nothing.
    idle = journal.run("replicate").report
    assert idle["state"] == "nothing-to-do"
    assert idle["done_start"] == hour[0]
    assert idle["done_end"] >= hour[1]
    again = {row["partition"]: row["replicated_to"] for row in journal.own_rows("replicated_topic")}
    assert all(again[one] > first[one] for one in first)
    assert projections.run(12, 13).report["pieces"]["done"] == 1


@pytest.mark.long
def test_partition_that_stops_holds_the_time_bucket(projections: Projections, kafka: str) -> None:
    journal, topic = projections.journal, Topic(kafka, partitions=2)
    topic.feeds(journal, KAFKA_JOURNAL_POISON="stop")
    definition = LOG.replace("kafka-journal: orders", f"kafka-journal: {topic.name}")
    projections.define(definition, LOG_TABLE)
    topic.append("a", [1])
    topic.record(b"b", b"{", partition=1)
    topic.flush()
    stopped = journal.run("replicate")
    assert stopped.status != 0
    assert stopped.report["done_start"] is None
    assert projections.run(12, 13).report["pieces"]["held"] == 1
    topic.feeds(journal, KAFKA_JOURNAL_POISON="skip")
    assert journal.run("replicate").status == 0
    assert projections.run(12, 13).report["pieces"]["done"] == 1
