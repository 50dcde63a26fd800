"""Projections of a topic that `replicate` replicates: its progress says what is complete."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import START as FIRST
from tests.integration.kafka_topic import Topic
from tests.integration.project.projections import Projections
from tests.integration.project.test_sources import LOG, LOG_TABLE
from tidemark.cassandra.schema import table
from tidemark.replicate.kafka.topics import Topics
from tidemark.window import iso

REPLICATED, RANGES = "replicated_topic", "offset_range"
FOR_EVER = {"KAFKA_JOURNAL_DELAY": str(10**9)}


def define(projections: Projections, topic: Topic) -> None:
    """Define a projection that logs the events of a topic."""
    definition = LOG.replace("kafka-journal: orders", f"kafka-journal: {topic.name}")
    projections.define(definition, LOG_TABLE)


def test_time_bucket_is_complete_when_the_topic_is_replicated_up_to_its_end(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka)
    # It is not the delay that says so.
    topic.feeds(journal, **FOR_EVER)
    define(projections, topic)

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
    define(projections, topic)
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


def test_what_is_appended_while_offsets_are_asked_is_no_open_transaction(
    projections: Projections, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, topic = projections.journal, Topic(kafka)
    topic.feeds(journal)
    topic.append("a", [1])
    topic.flush()
    ask, asked = Topics._ask, itertools.count(1)

    def ask_and_append(self: Topics, *arguments: Any) -> Any:
        answer = ask(self, *arguments)
        if next(asked) == 1:
            topic.append("a", [2])
            topic.flush()
        return answer

    monkeypatch.setattr(Topics, "_ask", ask_and_append)
    report = journal.run("replicate").report
    assert report["details"]["topics"].keys() == {topic.name}
    assert report["lines"] == []


def test_a_key_with_records_in_each_run_after_it_has_moved_holds_up_only_what_is_new(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka, partitions=2)
    # Nor does the time count for which Pekko's readers wait.
    topic.feeds(journal, **FOR_EVER, EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY=str(10**8))
    define(projections, topic)
    topic.append("moves", [1])
    topic.flush()
    assert journal.run("replicate").status == 0
    for number in range(2, 5):
        topic.append("moves", [number], partition=1)
        topic.flush()
        assert journal.run("replicate").status == 0
    reached = {row["partition"]: row["replicated_to"] for row in journal.own_rows(REPLICATED)}
    waiting = [row["timestamp"] for row in journal.own_rows("quarantined_record")]
    if waiting:
        assert reached[1] == min(waiting)
    assert reached[1] >= FIRST.replace(tzinfo=None)
    topic.append("moves", [5], partition=1)
    topic.flush()
    for _ in range(2):
        assert journal.run("replicate").status == 0
    assert projections.run(12, 13).report["pieces"]["done"] == 1
    assert [row["what"] for row in journal.rows("log")] == list("12345")


def test_pointers_that_another_replicator_has_left_are_not_those_of_one_that_goes_on(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka, partitions=2)
    topic.feeds(journal, **FOR_EVER)
    define(projections, topic)
    topic.append("a", [1])
    topic.append("b", [1], partition=1)
    topic.flush()
    assert journal.run("replicate").status == 0
    for name in (RANGES, REPLICATED):
        journal.control.execute(f"TRUNCATE {table(journal.own_keyspace, name)}")
    topic.append("a", [2])
    topic.flush()
    assert journal.run("replicate").status == 0
    assert projections.run(12, 13).report["pieces"]["done"] == 1


def test_a_keyspace_that_was_emptied_is_not_complete_before_it_is_replicated_anew(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka)
    topic.feeds(journal, **FOR_EVER)
    define(projections, topic)
    topic.append("a", [1])
    topic.flush()
    assert journal.run("replicate").status == 0
    for name in ("journal", "metajournal", "pointer2"):
        journal.control.execute(f"TRUNCATE {table(journal.keyspace, name)}")
    with dying_after(Seam.RANGES_STARTED, 1):
        journal.run("replicate")
    assert projections.run(12, 13).report["pieces"]["held"] == 1
    assert journal.run("replicate").status == 0
    assert projections.run(12, 13).report["pieces"]["done"] == 1
    assert [row["what"] for row in journal.rows("log")] == ["1"]


def test_partitions_that_kafka_has_no_more_hold_up_nothing(
    projections: Projections, kafka: str
) -> None:
    journal, topic = projections.journal, Topic(kafka)
    topic.feeds(journal)
    topic.append("a", [1])
    topic.flush()
    assert journal.run("replicate").status == 0
    own = table(journal.own_keyspace, REPLICATED)
    journal.control.execute(
        f"INSERT INTO {own} (journal_keyspace, topic, partition, replicated_to, end_offset)"
        " VALUES (?, ?, 1, 0, 0)",
        (journal.keyspace, topic.name),
    )
    report = journal.run("replicate").report
    assert report["details"]["topics"].keys() == {topic.name}
    assert [row["partition"] for row in journal.own_rows(REPLICATED)] == [0]


def test_a_first_record_of_the_future_holds_up_nothing(
    projections: Projections, kafka: str
) -> None:
    # As brokers before 4.0 take them.
    topic = Topic(kafka, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    journal = projections.journal
    topic.feeds(journal)
    mark = b'{"mark": {"id": "0b0f4a3e-6f1c-4d8e-9a57-1f2c3d4e5f60"}}'
    topic.publish(b"a", None, [("journal.action", mark)], datetime(2999, 1, 1, tzinfo=UTC))
    topic.flush()
    report = journal.run("replicate").report
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert report["details"]["topics"] == {
        topic.name: {"done_start": iso(end - timedelta(hours=1)), "done_end": iso(end)}
    }


@pytest.mark.long
def test_partition_that_stops_holds_the_time_bucket(projections: Projections, kafka: str) -> None:
    journal, topic = projections.journal, Topic(kafka, partitions=2)
    topic.feeds(journal, KAFKA_JOURNAL_POISON="stop")
    define(projections, topic)
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
