"""What stops one key or topic partition of `replicate`, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.replicate.test_refusals import done, quarantine, refused
from tests.integration.replicate.test_replicate import events, pointers
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import window
from tidemark.cassandra.schema import table


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic of two partitions."""
    return Topic(kafka, 2)


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace for the topic."""
    journal = make_journal()
    topic.feeds(journal)
    return journal


REPLICATED = "and those of another partition, which are replicated,"


def numbers(journal: Journal, key: str) -> list[int]:
    return [event[2] for event in events(journal) if event[0] == key]


def set_pointer(journal: Journal, topic: Topic, offset: int) -> None:
    cql = table(journal.keyspace, "pointer2")
    where = f"UPDATE {cql} SET offset = ? WHERE topic = ? AND partition = ?"
    journal.control.execute(where, (offset, topic.name, 0))


def test_a_key_that_has_moved_to_another_partition_is_replicated_in_its_order(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("moves", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("moves", [2])
    topic.append("moves", [3, 4], partition=1)
    topic.delete("moves", 1, partition=1)
    topic.append("stays", [1], partition=1)
    topic.flush()
    done(tenant.run("replicate"))
    assert (numbers(tenant, "moves"), numbers(tenant, "stays")) == ([2, 3, 4], [1])
    assert quarantine(tenant) == []
    assert pointers(tenant) == {0: 1, 1: 2}
    topic.append("moves", [5], partition=1)
    topic.append("moves", [6])
    topic.flush()
    done(tenant.run("replicate"))
    assert numbers(tenant, "moves") == [2, 3, 4, 5, 6]
    [head] = [row for row in tenant.rows("metajournal") if row["id"] == "moves"]
    assert (head["partition"], head["seq_nr"], head["delete_to"]) == (0, 6, 1)


@pytest.mark.long
def test_a_key_without_a_head_whose_records_lie_in_two_partitions_begins_with_the_older_ones(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("moves", [1], partition=1)
    topic.append("moves", [2])
    topic.flush()
    done(tenant.run("replicate"))
    assert numbers(tenant, "moves") == [1, 2]
    [head] = tenant.rows("metajournal")
    assert (head["partition"], head["seq_nr"]) == (0, 2)


@pytest.mark.long
def test_records_of_a_moved_key_wait_for_those_that_are_held_where_it_came_from(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("moves", [1])
    topic.unreadable("moves")
    topic.append("stays", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("moves", [3], partition=1)
    topic.append("stays", [2])
    topic.flush()
    done(tenant.run("replicate"))
    assert (numbers(tenant, "moves"), numbers(tenant, "stays")) == ([1], [1, 2])
    waiting = [row[2:] for row in quarantine(tenant) if row[1] == 0]
    assert waiting == [("waiting", None)]
    done(tenant.run("replicate", "replay", "--key", "moves", "--skip", "1", "--apply"))
    done(tenant.run("replicate"))
    assert numbers(tenant, "moves") == [1, 3]
    assert {row[2] for row in quarantine(tenant)} == {"skipped"}


@pytest.mark.long
def test_records_of_the_old_partition_that_are_read_again_do_not_move_a_key_back(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("moves", [1])
    topic.append("moves", [2])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("moves", [3], partition=1)
    topic.flush()
    done(tenant.run("replicate"))
    set_pointer(tenant, topic, 0)
    done(tenant.run("replicate"))
    assert numbers(tenant, "moves") == [1, 2, 3]
    [head] = tenant.rows("metajournal")
    assert (head["partition"], head["seq_nr"]) == (1, 3)
    assert (pointers(tenant), quarantine(tenant)) == ({0: 1, 1: 0}, [])
    topic.delete("moves", 2, partition=1)
    topic.flush()
    done(tenant.run("replicate"))
    # What is deleted cannot be told from what was never there.
    set_pointer(tenant, topic, 0)
    done(tenant.run("replicate"))
    [(_, offset, state, cause)] = quarantine(tenant)
    assert (offset, state, cause) == (1, "held", f"its events end at seq_nr 2, {REPLICATED} at 3")
    assert (numbers(tenant, "moves"), pointers(tenant)) == ([3], {0: 0, 1: 1})
    still = done(tenant.run("replicate", "replay", "--apply"))
    assert (still["records_replayed"], still["records_still_held"]) == (0, 1)
    done(tenant.run("replicate", "replay", "--key", "moves", "--skip", "1", "--apply"))
    assert (numbers(tenant, "moves"), pointers(tenant)) == ([3], {0: 1, 1: 1})


def test_partitions_can_be_added_to_a_topic(tenant: Journal, topic: Topic) -> None:
    topic.append("moves", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.add_partitions(3)
    topic.append("moves", [2], partition=2)
    topic.flush()
    done(tenant.run("replicate"))
    assert numbers(tenant, "moves") == [1, 2]


def test_a_partition_that_was_added_is_not_read_before_what_is_older(
    tenant: Journal, topic: Topic
) -> None:
    for number in range(1, 9):
        topic.append("stays", [number])
    topic.append("moves", [1, 2])
    topic.append("moves", [3, 4], partition=1)
    topic.append("moves", [5, 6], partition=1)
    topic.append("stays", [9])
    topic.flush()
    done(tenant.run("replicate", REPLICATE_MAX_RECORDS="4"))
    assert numbers(tenant, "stays") == list(range(1, 10))
    assert numbers(tenant, "moves") == list(range(1, 7))
    assert quarantine(tenant) == []
    assert pointers(tenant) == {0: 9, 1: 1}


def test_a_range_that_was_not_ended_gives_way_to_the_pointer_of_another_replicator(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate"))
    topic.append("a", [2])
    topic.append("a", [3])
    topic.flush()
    with dying_after(Seam.REPLICATED_EVENTS_WRITTEN, 1):
        tenant.run("replicate", REPLICATE_MAX_RECORDS="1")
    set_pointer(tenant, topic, 2)
    topic.append("b", [1])
    topic.flush()
    done(tenant.run("replicate"))
    assert numbers(tenant, "b") == [1]
    assert pointers(tenant) == {0: 3}
    assert [row["state"] for row in tenant.own_rows("offset_range")] == [
        *("done", "superseded", "done"),
    ]
    assert done(tenant.run("replicate", "replay")) == {}


@pytest.mark.long
def test_the_loss_of_an_unfinished_range_can_be_accepted(tenant: Journal, topic: Topic) -> None:
    topic.append("a", [1])
    topic.flush()
    done(tenant.run("replicate"))
    for number in (2, 3, 4, 5):
        topic.append("a", [number])
    topic.flush()
    with dying_after(Seam.RANGES_STARTED, 1):
        tenant.run("replicate", REPLICATE_MAX_RECORDS="2")
    topic.drop_before(4)
    line = refused(tenant.run("replicate"))
    assert "offsets 1 to 3 were not replicated, and Kafka does not hold them any more" in line
    assert "set the pointer to 3" in line
    set_pointer(tenant, topic, 3)
    done(tenant.run("replicate"))
    assert numbers(tenant, "a") == [1, 5]


def test_the_pointer_stays_below_what_is_held_and_nothing_is_read_twice(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("good", [1])
    topic.unreadable("bad")
    topic.append("bad", [2])
    topic.append("good", [2])
    topic.delete("good", 1)
    topic.flush()
    result = tenant.run("replicate")
    assert done(result)["records"] == 5
    assert_held_are_told(result.report["lines"], 1, 2)
    assert pointers(tenant) == {0: 0}
    assert Reader(tenant, topic).read("good", 0) == [2]
    topic.append("good", [3])
    topic.flush()
    result = tenant.run("replicate")
    assert done(result)["records"] == 1
    assert_held_are_told(result.report["lines"], 1, 2)
    assert_held_are_told(tenant.run("replicate").report["lines"], 1, 2)
    assert Reader(tenant, topic).read("good", 0) == [2, 3]
    assert pointers(tenant) == {0: 0}
    looked = tenant.run("validate", *window(0, 1), "--layer", "kafka_journal")
    assert "kafka_held_records" in refused(looked)
    [finding] = tenant.own_rows("finding")
    assert (finding["persistence_id"], finding["tag"], finding["number"]) == ("bad", topic.name, 1)
    done(tenant.run("replicate", "replay", "--key", "bad", "--skip", "1", "--apply"))
    assert tenant.run("validate", *window(0, 1)).status == 0
    assert pointers(tenant) == {0: 5}
    assert tenant.run("replicate").report["state"] == "nothing-to-do"
    # What is read once more is passed over for good.
    set_pointer(tenant, topic, 0)
    assert done(tenant.run("replicate"))["unreadable"] == 0
    assert pointers(tenant) == {0: 5}
    assert {row[2] for row in quarantine(tenant)} == {"skipped"}


@pytest.mark.long
def test_without_a_record_before_what_is_held_there_is_no_pointer(
    tenant: Journal, topic: Topic
) -> None:
    topic.unreadable("bad")
    topic.append("good", [1])
    topic.flush()
    done(tenant.run("replicate"))
    assert pointers(tenant) == {}
    topic.append("good", [2])
    topic.flush()
    done(tenant.run("replicate"))
    assert tenant.run_alone("replicate", "wait", "--timeout", "0").status == 0
    done(tenant.run("replicate", "replay", "--key", "bad", "--skip", "0", "--apply"))
    assert pointers(tenant) == {0: 2}
    assert numbers(tenant, "good") == [1, 2]


@pytest.mark.long
def test_quarantine_of_a_topic_that_was_made_anew_is_of_no_other_record(
    tenant: Journal, topic: Topic
) -> None:
    topic.append("a", [1])
    topic.unreadable("b")
    topic.flush()
    done(tenant.run("replicate"))
    done(tenant.run("replicate", "replay", "--key", "b", "--skip", "1", "--apply"))
    topic.append("c", [1])
    topic.unreadable("c")
    topic.flush()
    done(tenant.run("replicate"))
    for name in ("journal", "metajournal", "pointer2"):
        tenant.control.execute_ddl(f"TRUNCATE {table(tenant.keyspace, name)}")
    topic.make_anew()
    for number in (1, 2, 3, 4, 5):
        topic.append("c", [number])
    topic.flush()
    done(tenant.run("replicate"))
    assert numbers(tenant, "c") == [1, 2, 3, 4, 5]
    assert pointers(tenant) == {0: 4}


def assert_held_are_told(lines: Sequence[str], keys: int, records: int) -> None:
    [line] = [line for line in lines if "held" in line]
    assert line.startswith(f"{keys} key with {records} records held in quarantine since ")
