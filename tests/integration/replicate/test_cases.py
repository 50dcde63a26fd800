"""Cases of kafka-journal's own suites, by their names, over a real Kafka and Cassandra.

They are those of TopicReplicatorSpec, ReplicatedCassandraTest and EventualJournalSpec, and the
states of storage that its notes for developers list. Each has a key of its own, so that three runs
of replicate do all of them. The wire fixtures are compared as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.replicate.replicator import segment_of
from tests.integration.support import Journal
from tests.unit.journals.test_kafka_journal_wire import RECORDS, record_of
from tests.unit.replicate.replication_model import Action
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables, table

pytestmark = pytest.mark.usefixtures("production")

SIZE = 2
MAX = 2**63 - 1
RECORD = UUID(int=7 << 64)


def append(*numbers: int, days: int | None = None) -> Action:
    return Action(0, "append", numbers, days=days)


def delete(to: int) -> Action:
    return Action(0, "delete", to=to)


PURGE = Action(0, "purge")
MARK = Action(0, "mark")


@dataclass(frozen=True)
class Case:
    """A case: what is stored before, what each of three runs replicates, and what is left.

    Attributes:
        suite: where the case comes from.
        name: its name there.
        rounds: the actions of each run.
        seq_nr: of the head in the end; None without a head.
        delete_to: of the head.
        numbers: the events that are stored.
        days: after which the head expires.
        head: columns of a head that is there before, always with offset -1.
        rows: the (segment, seq nr) of events that are there before.
        has_record_id: whether the head and its events have one.
    """

    suite: str
    name: str
    rounds: tuple[tuple[Action, ...], ...]
    seq_nr: int | None = None
    delete_to: int | None = None
    numbers: tuple[int, ...] = ()
    days: int | None = None
    head: Mapping[str, Any] | None = None
    rows: tuple[tuple[int, int], ...] = ()
    has_record_id: bool = True

    @property
    def key(self) -> str:
        return f"{self.suite}: {self.name}"


TOPIC, CASSANDRA, EVENTUAL = "TopicReplicatorSpec", "ReplicatedCassandraTest", "EventualJournalSpec"
CASES = [
    Case(TOPIC, "replicate appends", ((append(1), append(2, 3)),), 3, None, (1, 2, 3)),
    Case(
        TOPIC,
        "replicate expireAfter",
        ((append(1, days=1), append(2, days=2)),),
        *(2, None, (1, 2), 2),
    ),
    Case(
        TOPIC,
        "replicate appends of many polls",
        ((append(1),), (append(2), append(3, 4)), (append(5),)),
        *(5, None, (1, 2, 3, 4, 5)),
    ),
    Case(
        TOPIC,
        "replicate appends and ignore marks",
        ((MARK, append(1), MARK, append(2)), (MARK,)),
        *(2, None, (1, 2)),
    ),
    Case(TOPIC, "replicate marks only", ((MARK, MARK),)),
    Case(
        TOPIC,
        "replicate appends and deletes",
        ((append(1, 2), delete(1), append(3), delete(2)),),
        *(3, 2, (3,)),
    ),
    Case(
        TOPIC,
        "replicate appends and deletes of many polls",
        ((append(1, 2),), (delete(1), append(3)), (delete(2),)),
        *(3, 2, (3,)),
    ),
    Case(TOPIC, "replicate purge", ((append(1, 2), PURGE),)),
    Case(
        TOPIC,
        "replicate purge of many polls",
        ((append(1, 2),), (PURGE,), (append(1),)),
        1,
        None,
        (1,),
    ),
    Case(CASSANDRA, "append", ((append(1), append(2, 3, 4, 5)),), 5, None, (1, 2, 3, 4, 5)),
    Case(
        CASSANDRA,
        "append & override expireAfter",
        ((append(1, days=1),), (append(2, days=3),)),
        *(2, None, (1, 2), 3),
    ),
    Case(
        CASSANDRA,
        "not update expiry",
        ((append(1, days=1),), (append(2, days=1),)),
        2,
        None,
        (1, 2),
        1,
    ),
    Case(CASSANDRA, "remove expiry", ((append(1, days=1),), (append(2),)), 2, None, (1, 2)),
    Case(CASSANDRA, "delete", ((append(1),), (delete(MAX),), (delete(MAX),)), 1, 1),
    Case(
        CASSANDRA,
        "delete advances head's seq_nr",
        ((delete(200),),),
        *(400, 200, ()),
        head={"seq_nr": 300, "delete_to": 400},
    ),
    Case(CASSANDRA, "purge", ((append(1, 2, 3),), (PURGE,))),
    Case(CASSANDRA, "ignore purge without head", ((PURGE,),)),
    Case(
        CASSANDRA,
        "purge of never truncated journal",
        ((PURGE,),),
        head={"seq_nr": 10 * SIZE},
        rows=tuple(((number - 1) // SIZE, number) for number in range(1, 10 * SIZE + 3)),
    ),
    Case(
        CASSANDRA,
        "purge of inconsistent head",
        ((PURGE,),),
        head={"seq_nr": 6, "delete_to": 7},
        rows=((1, 4), (2, 6), (3, 7), (4, 9)),
    ),
    Case(
        CASSANDRA,
        "purge cleans previous, occupied and next segments",
        ((PURGE,),),
        head={"seq_nr": 6, "delete_to": 4},
        rows=((0, 2), (1, 4), (2, 5), (3, 7)),
    ),
    Case(
        CASSANDRA,
        "not set correlation id",
        ((append(2),),),
        *(2, None, (2,)),
        head={"seq_nr": 1, "record_id": None},
        has_record_id=False,
    ),
    Case(
        CASSANDRA,
        "not update correlation id",
        ((append(2),), (append(3),)),
        *(3, None, (2, 3)),
        head={"seq_nr": 1, "record_id": RECORD},
    ),
    Case(
        CASSANDRA, "batched appends and delete", ((append(1), append(2, 3), delete(2)),), 3, 2, (3,)
    ),
    Case(EVENTUAL, "append not from beginning", ((append(5, 6, 7),),), 7, 4, (5, 6, 7)),
    *(
        Case(
            EVENTUAL,
            f"delete to {to} on an empty journal, then append",
            ((delete(to),), (append(to + 1),)),
            *(to + 1, to, (to + 1,)),
            has_record_id=False,
        )
        for to in (1, 2, 5)
    ),
    Case(EVENTUAL, "delete twice", ((append(1, 2, 3),), (delete(1),), (delete(2),)), 3, 2, (3,)),
    Case(
        EVENTUAL,
        "delete all, then append",
        ((append(1, 2),), (delete(2),), (append(3),)),
        3,
        2,
        (3,),
    ),
]
STORAGE = {
    "A(seqNr: 3, deleteTo: none, segmentSize: 5)": (5, (append(1, 2, 3),)),
    "A(seqNr: 5, deleteTo: none, segmentSize: 3)": (3, (append(1, 2, 3, 4, 5),)),
    "A(seqNr: 5, deleteTo: 2, segmentSize: 3)": (3, (append(1, 2, 3, 4, 5), delete(2))),
    "A(seqNr: 5, deleteTo: 5, segmentSize: 3)": (3, (append(1, 2, 3, 4, 5), delete(5))),
}
"""The states of storage by their names; those with snapshots are the same, since kafka-journal has
no place for these."""
STORED = {
    "A(seqNr: 3, deleteTo: none, segmentSize: 5)": [(1, 0), (2, 0), (3, 0)],
    "A(seqNr: 5, deleteTo: none, segmentSize: 3)": [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1)],
    "A(seqNr: 5, deleteTo: 2, segmentSize: 3)": [(3, 0), (4, 1), (5, 1)],
    "A(seqNr: 5, deleteTo: 5, segmentSize: 3)": [],
}


@dataclass(frozen=True)
class Played:
    """The tables after all cases."""

    journal: Journal
    topic: Topic

    def head(self, key: str) -> Row | None:
        rows = self.journal.control.execute(
            f"SELECT * FROM {table(self.journal.keyspace, 'metajournal')}"
            " WHERE topic = ? AND segment = ? AND id = ?",
            (self.topic.name, segment_of(key), key),
        )
        return rows[0] if rows else None

    def events(self, key: str) -> list[Row]:
        rows = (row for row in self.journal.rows("journal") if row["id"] == key)
        return sorted(rows, key=lambda row: (row["segment"], row["seq_nr"]))


def store(journal: Journal, topic: Topic, cases: Iterable[Case]) -> None:
    """Store what is there before."""
    create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)
    for case in cases:
        of_key = {"topic": topic.name, "id": case.key}
        if case.head is not None:
            own = {"partition": 0, "offset": -1, "segment_size": SIZE, "record_id": RECORD}
            head = {**of_key, "segment": segment_of(case.key), **own, **case.head}
            journal.insert("metajournal", [head])
        journal.insert(
            "journal",
            [
                {**of_key, "segment": segment, "seq_nr": number, "timestamp": 0, "offset": -1}
                for segment, number in case.rows
            ],
        )


@pytest.fixture(scope="module")
def played(kafka: str, make_journals: Callable[..., Journal]) -> Played:
    """Replicate all cases by three runs."""
    topic, journal = Topic(kafka), make_journals()
    topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE=str(SIZE))
    store(journal, topic, CASES)
    for turn in range(3):
        for case in CASES:
            for action in case.rounds[turn] if turn < len(case.rounds) else ():
                topic.write(case.key, action)
        topic.flush()
        result = journal.run("replicate")
        assert result.status == 0, result.stderr
    return Played(journal, topic)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_case(played: Played, case: Case) -> None:
    head, events = played.head(case.key), played.events(case.key)
    assert [row["seq_nr"] for row in events] == list(case.numbers)
    assert (head is None) == (case.seq_nr is None)
    if head is None:
        return
    assert (head["seq_nr"], head["delete_to"]) == (case.seq_nr, case.delete_to)
    after = head["expire_after"]
    assert (after and after.days) == case.days
    assert (head["expire_on"] is None) == (case.days is None)
    record_ids = {row["meta_record_id"] for row in events}
    assert record_ids <= {head["record_id"]}
    assert (head["record_id"] is not None) == case.has_record_id
    if case.head is not None:
        assert head["record_id"] == case.head.get("record_id", RECORD)


def test_a_reader_reads_each_case(played: Played) -> None:
    reader = Reader(played.journal, played.topic)
    found = {case.key: tuple(reader.read(case.key, 0)) for case in CASES}
    assert found == {case.key: case.numbers for case in CASES}


def test_ignore_already_replicated_data(played: Played) -> None:
    """Nor is anything applied twice if the pointers are lost: heads have seen it."""
    names = ("journal", "metajournal")
    before = {name: played.journal.rows(name) for name in names}
    control = played.journal.control
    control.execute_ddl(f"TRUNCATE {table(played.journal.keyspace, 'pointer2')}")
    result = played.journal.run("replicate")
    assert result.status == 0, result.stderr
    assert {name: played.journal.rows(name) for name in names} == before


def test_consume_since_replicated_offset(kafka: str, make_journal: Callable[..., Journal]) -> None:
    topic, journal = Topic(kafka, 3), make_journal()
    topic.feeds(journal)
    create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)
    for partition in range(3):
        for number in range(1, 5):
            topic.append(f"key {partition}", [number], partition=partition)
        pointer = {"topic": topic.name, "partition": partition, "offset": partition}
        journal.insert("pointer2", [pointer])
    topic.flush()
    result = journal.run("replicate")
    assert result.status == 0, result.stderr
    found = sorted((row["partition"], row["seq_nr"]) for row in journal.rows("journal"))
    assert found == [(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)]
    assert {row["partition"]: row["offset"] for row in journal.rows("pointer2")} == dict.fromkeys(
        range(3), 3
    )


def test_states_of_storage(kafka: str, make_journal: Callable[..., Journal]) -> None:
    journal, topics = make_journal(), {}
    for size in (3, 5):
        topic = topics[size] = Topic(kafka)
        topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE=str(size))
        for name, (own_size, actions) in STORAGE.items():
            for action in actions if own_size == size else ():
                topic.write(name, action)
        topic.flush()
        result = journal.run("replicate")
        assert result.status == 0, result.stderr
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in STORAGE}
    for row in journal.rows("journal"):
        found[row["id"]].append((row["seq_nr"], row["segment"]))
    assert {name: sorted(rows) for name, rows in found.items()} == STORED
    heads = {
        f"A(seqNr: {row['seq_nr']}, deleteTo: {row['delete_to'] or 'none'},"
        f" segmentSize: {row['segment_size']})": row["id"]
        for row in journal.rows("metajournal")
    }
    assert heads == {name: name for name in STORAGE}


def test_records_of_the_wire_fixtures_become_the_rows_of_kafka_journal(
    kafka: str, make_journal: Callable[..., Journal]
) -> None:
    """Column by column, those that are unset included; each record has a key of its own."""
    topic, journal = Topic(kafka), make_journal()
    topic.feeds(journal)
    for fixture in RECORDS:
        record = record_of(fixture)
        assert record.timestamp is not None
        topic.publish(fixture["name"].encode(), record.value, record.headers, record.timestamp)
    topic.flush()
    result = journal.run("replicate")
    assert result.status == 0, result.stderr
    stored: dict[str, list[Row]] = {}
    for row in journal.rows("journal"):
        stored.setdefault(row["id"], []).append(row)
    for offset, fixture in enumerate(RECORDS):
        decoded = fixture["decoded"]
        found = sorted(stored.pop(fixture["name"], []), key=lambda row: row["seq_nr"])
        assert len(found) == len(decoded.get("rows", [])), fixture["name"]
        for row, wanted in zip(found, decoded.get("rows", []), strict=True):
            payload = row["payload_bin"]
            assert {
                **{name: row[name] for name in ("payload_type", "payload_txt", "metadata")},
                "seq_nr": row["seq_nr"],
                "tags": sorted(row["tags"] or ()),
                "payload_bin_hex": None if payload is None else payload.hex(),
                "headers": dict(row["headers"] or {}),
            } == {**wanted, "tags": sorted(wanted["tags"])}, fixture["name"]
            assert (row["partition"], row["offset"]) == (0, offset)
            assert (row["origin"], row["version"]) == (decoded["origin"], decoded["version"])
            assert row["timestamp"].isoformat(timespec="milliseconds") == "2019-12-12T10:10:10.123"
    assert stored == {}
