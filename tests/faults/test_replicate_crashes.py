"""replicate, killed with SIGKILL after each kind of write, then run again.

After the kill a reader gets what it would get if all were replicated; after the second run the
tables are those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.fencing import CHECK, Step, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal

KEYS = {"grows": [5, 6, 7, 8, 9, 10], "shrinks": [4], "ends": [], "new": [1, 2, 3, 4]}
"""The events of each journal that a reader gets once all is replicated."""
WRITES = (
    Seam.RECORDS_QUARANTINED,
    Seam.DELETIONS_NOTED,
    Seam.PURGED_HEADS_MARKED,
    Seam.REPLICATED_EVENTS_WRITTEN,
    Seam.REPLICATED_HEADS_WRITTEN,
    Seam.EXPIRY_REMOVED,
    Seam.DELETIONS_FORGOTTEN,
    Seam.POINTERS_WRITTEN,
)
BETWEEN = (
    Seam.RANGES_STARTED,
    Seam.REPLICATED_EVENTS_DELETED,
    Seam.PURGES_DONE,
    Seam.DELETES_DONE,
    Seam.RANGE_FINISHED,
)
LONG = (Seam.PURGED_HEADS_MARKED, Seam.REPLICATED_HEADS_WRITTEN)
"""Near to them are the deaths of test_replicate_histories.py, inside the tests' own process."""
CASES = [
    pytest.param(seam, marks=pytest.mark.long if seam in LONG else pytest.mark.soak)
    for seam in (*WRITES, *BETWEEN)
]
OF_A_RUN = ("created", "created_date", "updated", "expire_on", "record_id", "meta_record_id")
"""Columns that depend on when a run was, or on the topic's name."""


def fill(topic: Topic) -> None:
    """Write the journals as they are before the run that is killed."""
    for key in ("grows", "shrinks", "ends"):
        topic.append(key, [1, 2, 3, 4], expire_after="1 day")
    topic.flush()


def go_on(topic: Topic) -> None:
    """Write what that run replicates: each kind of action, and a record that cannot be read."""
    topic.append("grows", [5, 6, 7])
    topic.record(b"bad", b"no JSON")
    topic.log[0].append(("bad", topic.log[0][-1][1]._replace(kind="mark")))
    topic.append("new", [1, 2, 3, 4])
    topic.delete("grows", 4)
    topic.append("grows", [8, 9, 10])
    topic.purge("ends")
    topic.delete("shrinks", 3)
    topic.flush()


def prepare(kafka: str, make: Callable[..., Journal]) -> tuple[Journal, Topic]:
    topic, journal = Topic(kafka), make(LOCK_TTL="5")
    topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE="3")
    fill(topic)
    result = journal.run("replicate")
    assert result.status == 0, result.stderr
    go_on(topic)
    return journal, topic


def state(journal: Journal) -> dict[str, list[Any]]:
    """Return all rows, without names of the topic and times of the run."""
    own = ("kafka_journal_deletion", "quarantined_record", "offset_range")
    tables = {name: journal.rows(name) for name in ("journal", "metajournal", "pointer2")}
    tables |= {name: journal.own_rows(name) for name in own}
    left_out = {
        *(*OF_A_RUN, "topic", "journal_keyspace", "run_id", "owner", "found_at", "attempt"),
        *("at", "write_time_base", "counts", "started_at", "finished_at"),
    }
    return {
        name: sorted(
            ({column: row[column] for column in row.keys() - left_out} for row in rows),
            key=lambda row: str(sorted(row.items())),
        )
        for name, rows in tables.items()
    }


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run leaves, and the order of its checks and writes."""

    state: dict[str, list[Any]]
    trace: list[Step]


@pytest.fixture(scope="module")
def undisturbed(kafka: str, make_journals: Callable[..., Journal]) -> Undisturbed:
    """Replicate without a kill."""
    journal, _ = prepare(kafka, make_journals)
    with pytest.MonkeyPatch.context() as patched:
        trace = traced(patched, WRITES)
        result = journal.run("replicate")
    assert result.status == 0, result.stderr
    return Undisturbed(state(journal), trace)


def test_it_asks_for_its_locks_before_each_write(undisturbed: Undisturbed) -> None:
    assert set(undisturbed.trace) == {CHECK, *WRITES}
    assert is_checked_before_each(undisturbed.trace)


@pytest.mark.parametrize("seam", CASES)
def test_killed_after_a_write_and_run_again(
    kafka: str,
    make_journal: Callable[..., Journal],
    undisturbed: Undisturbed,
    seam: Seam,
) -> None:
    journal, topic = prepare(kafka, make_journal)
    kill_after(journal, seam, "replicate")
    reader = Reader(journal, topic)
    found = {key: reader.read(key, 0) for key in KEYS}
    assert found == KEYS
    result = journal.run("replicate")
    assert result.status == 0, result.stderr
    assert state(journal) == undisturbed.state
    assert {key: reader.read(key, 0) for key in KEYS} == KEYS
