"""Projections of some persistence ids, and of kafka-journal's journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.project.projections import (
    START,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    counts,
    event,
)
from tests.integration.project.projections import totals as totals_of
from tests.integration.support import Journal
from tests.java_hash import java_hash
from tidemark.cassandra import connector
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables
from tidemark.journals.pekko import frames

SOME = TOTALS.replace("{tags: [red, blue]}", "{persistence-ids: [a|1, it's |2]}")
OTHER = ("b|1", "a|2")

LOG = """\
/*---
name: log
version: 1
source: {kafka-journal: orders}
mode: append
target: {keyspace}.log
event: kind STRING, amount INT, note STRING, raw BINARY
decoders:
  - {serializer-id: 0, manifest: json, kind: json}
  - {serializer-id: 0, manifest: text, kind: string, field: note}
  - {serializer-id: 0, manifest: binary, kind: bytes, field: raw}
  - {serializer-id: 0, manifest: '', kind: skip}
---*/

SELECT persistence_id, sequence_nr, timestamp AS at, time_bucket, array_join(tags, ' ') AS tags,
       coalesce(kind, note, decode(raw, 'UTF-8')) AS what, amount
FROM events
"""
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, at timestamp,
    time_bucket bigint, tags text, what text, amount int,
    PRIMARY KEY ((persistence_id), sequence_nr))"""


@pytest.fixture
def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every scan of a table of the journal fail."""
    scan = connector.read

    def read(
        spark: SparkSession, keyspace: str, table: str, *columns: str, **more: Any
    ) -> DataFrame:
        is_scan = more.get("keys") is None
        assert not (is_scan and keyspace.startswith("j_")), f"scans {table}"
        return scan(spark, keyspace, table, *columns, **more)

    monkeypatch.setattr(connector, "read", read)


@pytest.mark.usefixtures("no_scan")
def test_persistence_ids_are_read_by_key_and_nothing_else(projections: Projections) -> None:
    projections.define(SOME, TOTALS_TABLE)
    first = [
        event("a|1", 1, 0.1, kind="in", amount=1),
        event("a|1", 2, 1.1, kind="in", amount=10),
        event("it's |2", 5, 0.3, kind="out", amount=100),
    ]
    # Of this id, 1 to 4 are deleted.
    projections.journal.insert("metadata", [{"persistence_id": "it's |2", "deleted_to": 4}])
    others = [event(pid, 1, 0.2, kind="in", amount=-1) for pid in OTHER]
    projections.insert_messages(*first, *others)
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == 0, result.stderr
    assert result.report["counts"] == counts(
        events_read=3, rows_written=3, accepted=3, first_encounters=1
    )
    tagged = [replace(untagged, tags=frozenset({"red"})) for untagged in first]
    assert projections.journal.rows("totals") == totals_of(tagged)

    # A late event reopens its time bucket, an event behind a gap is held.
    late = event("a|1", 3, 0.9, kind="in", amount=1000)
    held = event("it's |2", 7, 2.5, kind="out", amount=5)
    projections.insert_messages(late, held)
    projections.validated(2)
    again = projections.run(2, 3)
    assert again.status == 0, again.stderr
    assert again.report["pieces"] == {"planned": 2, "done": 1, "held": 1, "failed": 0}
    assert projections.states() == [
        ("totals", 0, "done", None),
        ("totals", 1, "done", None),
        ("totals", 2, "held", "gap: it's |2 6 missing"),
    ]
    assert {key[1]: number for key, (_, number, _) in projections.offsets().items()} == {
        "a|1": 3,
        "it's |2": 5,
    }


def test_an_unknown_persistence_id_is_one_line_and_touches_nothing(
    projections: Projections,
) -> None:
    projections.define(SOME.replace("a|1,", "a|1, a|9, 'x ',"), TOTALS_TABLE)
    projections.insert_messages(event("a|1", 1, 0.1, kind="in", amount=1))
    projections.journal.insert("metadata", [{"persistence_id": "it's |2", "deleted_to": 4}])
    projections.validated(0)
    refused = projections.run(0, 1)
    assert refused.status == 2
    (line,) = refused.error_lines
    assert "the journal has no persistence id 'a|9', 'x ' (" in line
    assert "one.sql:4); write ids as the journal has them" in line
    assert projections.states() == []
    assert projections.offsets() == {}
    assert projections.journal.rows("totals") == []


class Orders:
    """kafka-journal's tables in the keyspace of a journal, and a topic in them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)

    def head(
        self,
        pid: str,
        last: int,
        delete_to: int | None = None,
        *,
        size: int | None = 2,
        segments: int = 10_000,
        topic: str = "orders",
    ) -> None:
        row = {
            "topic": topic,
            "segment": abs(java_hash(pid.lower())) % segments,
            "id": pid,
            "segment_size": size,
            "seq_nr": last,
            "delete_to": delete_to,
        }
        self._journal.insert("metajournal", [row])

    def append(
        self,
        pid: str,
        number: int,
        hours: float,
        *,
        size: int = 2,
        topic: str = "orders",
        **columns: Any,
    ) -> None:
        row = {
            "id": pid,
            "topic": topic,
            "segment": (number - 1) // size,
            "seq_nr": number,
            "timestamp": START + timedelta(hours=hours),
            **(
                columns
                or {
                    "payload_type": "json",
                    "payload_txt": json.dumps({"kind": f"k{number}", "amount": number}),
                }
            ),
        }
        self._journal.insert("journal", [row])


@pytest.fixture
def orders(make_journal: Callable[..., Journal], tmp_path: Path) -> tuple[Projections, Orders]:
    """Return projections without a Pekko journal, none of whose tables is needed."""
    journal = make_journal()
    return Projections(journal, tmp_path), Orders(journal)


def test_kafka_journal_is_a_source_with_the_same_envelope(
    orders: tuple[Projections, Orders],
) -> None:
    projections, topic = orders
    projections.define(LOG, LOG_TABLE)
    for number in (1, 2, 3):
        topic.append("A-1", number, 0.1 * number)
    topic.head("A-1", 3)
    # An old release's segment of metajournal, the default segment size, every type of payload.
    topic.append(
        "b", 1, 0.5, size=10_000, payload_type="text", payload_txt="héllo", tags={"y", "x"}
    )
    topic.append("b", 2, 1.5, size=10_000, payload_type="binary", payload_bin=b"bytes")
    topic.append("b", 3, 1.6, size=10_000, origin="no payload")
    topic.head("b", 3, size=None, segments=100)
    # 1 and 2 were deleted, 2 was left behind by a crash; gone has no head; another topic.
    topic.append("c", 2, 0.7)
    topic.append("c", 3, 0.8)
    topic.head("c", 3, delete_to=2)
    topic.append("gone", 1, 0.2)
    topic.append("A-1", 1, 0.2, topic="others")
    topic.head("A-1", 1, topic="others")

    run = projections.run
    no_pekko = {
        **projections.journal.environment,
        "TIDEMARK_JOURNAL_KEYSPACE": "absent",
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": projections.journal.keyspace,
    }
    projections.journal.environment = no_pekko | {"TIDEMARK_KAFKA_JOURNAL_DELAY": str(10**9)}
    early = run(0, 2)
    assert early.report["pieces"] == {"planned": 2, "done": 0, "held": 2, "failed": 0}
    assert {error for _, _, _, error in projections.states()} == {"not replicated yet"}

    projections.journal.environment = no_pekko
    first = run(0, 2)
    assert first.status == 0, first.stderr
    assert first.report["pieces"] == {"planned": 2, "done": 2, "held": 0, "failed": 0}
    assert first.report["counts"] == counts(
        events_read=7, rows_written=6, accepted=7, first_encounters=1
    )
    assert shown(projections) == {
        "A-1": {1: "k1", 2: "k2", 3: "k3"},
        "b": {1: "héllo", 2: "bytes"},
        "c": {3: "k3"},
    }
    (b_1,) = [row for row in projections.journal.rows("log") if row["what"] == "héllo"]
    assert b_1["tags"] == "x y"
    assert b_1["at"] == (START + timedelta(hours=0.5)).replace(tzinfo=None)

    # Events over a border of segments, late, and behind a gap.
    for number in (4, 5, 6):
        topic.append("A-1", number, 2.0 + number / 10)
    topic.head("A-1", 6)
    topic.append("b", 4, 0.9, size=10_000, payload_type="text", payload_txt="late")
    topic.append("c", 5, 2.2)
    second = run(2, 3)
    assert second.status == 0, second.stderr
    assert second.report["pieces"] == {"planned": 2, "done": 1, "held": 1, "failed": 0}
    assert projections.states() == [
        ("log", 0, "done", None),
        ("log", 1, "done", None),
        ("log", 2, "held", "gap: c 4 missing"),
    ]
    assert shown(projections) == {
        "A-1": {number: f"k{number}" for number in range(1, 7)},
        "b": {1: "héllo", 2: "bytes", 4: "late"},
        "c": {3: "k3"},
    }
    assert {key[1]: number for key, (_, number, _) in projections.offsets().items()} == {
        "A-1": 6,
        "b": 4,
        "c": 3,
    }
    status = projections.journal.run(
        "project", "status", PROJECTIONS_DIR=str(projections.directory)
    )
    assert status.status == 0, status.stderr
    assert "log version 1: 2 done, 1 held," in status.stdout


@pytest.mark.long
def test_managing_what_reads_kafka_journal_needs_no_pekko_journal(
    orders: tuple[Projections, Orders],
) -> None:
    projections, topic = orders
    projections.define(LOG, LOG_TABLE)
    topic.append("a", 1, 0.1)
    topic.head("a", 1)
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_JOURNAL_KEYSPACE": "absent",
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": projections.journal.keyspace,
    }
    first_hour = ("--window-start", "2024-03-01T00:00Z", "--window-end", "2024-03-01T01:00Z")
    planned = projections.manage("plan", *first_hour)
    assert planned.status == 0, planned.stderr
    assert planned.report["pieces"]["planned"] == 1
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    for command, expected in (
        (("get-offset", "log"), "1 series in 1 slice"),
        (("get-offset", "log", "--persistence-id", "a"), "a: 1"),
        (("releases",), "log: in place"),
        (("clear", "log", "--apply"), "log: forgets the offsets of 1 series"),
    ):
        result = projections.manage(*command)
        assert (result.status, expected in result.stdout) == (0, True), result.stderr
    assert projections.offsets() == {}
    dropped = projections.manage("drop-release", "log", "--version", "2")
    assert "log has no version 2 of its own" in dropped.error_lines[0]


@pytest.mark.long
def test_numbers_that_an_append_left_out_hold_nothing_back(
    orders: tuple[Projections, Orders],
) -> None:
    """The head is written after the events: new events can appear only above it."""
    projections, topic = orders
    projections.define(LOG, LOG_TABLE)
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": projections.journal.keyspace,
    }
    run = projections.run
    topic.append("a", 1, 0.1)
    topic.append("a", 3, 0.2)
    topic.head("a", 1)
    # The numbers span many segments; the event before 9 is in a time bucket that is not over.
    for number, hours in ((1, 0.3), (60, 0.4), (61, 0.5)):
        topic.append("b", number, hours)
    topic.head("b", 61)
    for number, hours in ((1, 0.6), (5, 1.1), (9, 0.7)):
        topic.append("c", number, hours)
    topic.head("c", 9)
    first = run(0, 1)
    assert first.status == 0, first.stderr
    assert projections.states() == [("log", 0, "held", "gap: a 2 missing, c 5 held")]
    assert {pid: sorted(numbers) for pid, numbers in shown(projections).items()} == {
        "a": [1],
        "b": [1, 60, 61],
        "c": [1],
    }
    topic.head("a", 3)
    topic.append("b", 1000, 1.2)
    topic.head("b", 1000)
    second = run(1, 2)
    assert second.status == 0, second.stderr
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    assert {pid: sorted(numbers) for pid, numbers in shown(projections).items()} == {
        "a": [1, 3],
        "b": [1, 60, 61, 1000],
        "c": [1, 5, 9],
    }


@pytest.mark.long
def test_a_gap_of_kafka_journal_is_passed_by_hand(orders: tuple[Projections, Orders]) -> None:
    projections, topic = orders
    projections.define(LOG, LOG_TABLE)
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_JOURNAL_KEYSPACE": "absent",
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": projections.journal.keyspace,
    }
    for number in (1, 4, 5, 6):
        topic.append("a", number, 0.1 * number)
    topic.append("b", 3, 0.2)
    topic.head("a", 1)
    topic.head("b", 1, segments=100)
    assert projections.run(0, 1).report["pieces"]["held"] == 1

    manage, of_a = projections.manage, ("log", "--persistence-id", "a")
    gaps = manage("skip", "log", "--gaps", "--apply")
    assert gaps.report["counts"] == {"series_skipped": 2, "numbers_missing": 4}, gaps.stderr
    poison = manage("skip", *of_a, "--apply")
    assert "a: skips 4, the event with sequence nr 4 of 2024-03-01 00:00" in poison.stdout
    [dead] = projections.journal.own_rows("quarantine")
    assert json.loads(dead["event"]) == {"kind": "k4", "amount": 4}
    forward = manage("set-offset", *of_a, "--to", "5", "--apply")
    assert "a: from 4 forward to 5: 1 events and 0 missing numbers" in forward.stdout
    beyond = manage("set-offset", *of_a, "--to", "7")
    assert "7 lies in the future of a: its highest number is 6" in beyond.error_lines[0]
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    assert shown(projections) == {"a": {1: "k1", 6: "k6"}, "b": {3: "k3"}}

    back = manage("set-offset", *of_a, "--to", "4", "--apply")
    assert "a: from 6 back to 4: 2 events in 1 time buckets" in back.stdout
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    assert shown(projections)["a"] == {1: "k1", 5: "k5", 6: "k6"}


def shown(projections: Projections) -> dict[str, dict[int, str]]:
    rows: dict[str, dict[int, str]] = {}
    for row in projections.journal.rows("log"):
        rows.setdefault(row["persistence_id"], {})[row["sequence_nr"]] = row["what"]
    return rows


ANEW = TOTALS.replace("{tags: [red, blue]}", "messages").replace(
    "event:", "accept-sequence-number-reset-after: 10 m\nevent:"
)


@pytest.mark.long
def test_a_persistence_id_that_began_anew_is_consumed_from_1(projections: Projections) -> None:
    """The id is found by key, although its second life is shorter than its first."""
    projections.define(ANEW, TOTALS_TABLE)
    former = [
        event("a|1", number, 0.1 * number, "red", kind="in", amount=1) for number in (1, 2, 3)
    ]
    quiet = event("b|1", 1, 0.2, "red", kind="in", amount=10)
    projections.insert_messages(*former, quiet)
    projections.list_persistence_ids()
    projections.validated(0)
    assert projections.run(0, 1).status == 0
    projections.journal.control.execute(
        f"DELETE FROM {projections.journal.keyspace}.messages"
        " WHERE persistence_id = 'a|1' AND partition_nr = 0"
    )
    anew = [
        event("a|1", number, 1.0 + number / 10, "red", kind="in", amount=7) for number in (1, 2)
    ]
    projections.insert_messages(*anew)
    projections.validated(1)
    second = projections.run(1, 2)
    assert second.status == 0, second.stderr
    assert second.report["counts"] == counts(events_read=2, rows_written=1, accepted=2)
    assert projections.journal.rows("totals") == totals_of([*former, quiet, *anew])
    offsets = {key[1]: number for key, (_, number, _) in projections.offsets().items()}
    assert offsets == {"a|1": 2, "b|1": 1}
    # The events are consumed once: another run takes them for duplicates.
    again = projections.run(1, 2, "--force")
    assert again.report["counts"] == counts(events_read=2, rows_written=1, duplicate=2)


@pytest.mark.long
def test_by_the_index_on_their_time_only_the_planned_messages_are_read(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are at borders of time buckets, and a late one is in a done bucket."""
    history = [event("a|1", nr, nr - 1, "red", kind="in", amount=nr) for nr in range(1, 11)]
    news = [
        event("a|1", 11, 10.0, "red", kind="in", amount=1),
        event("b|1", 1, 10.999_999, "red", kind="out", amount=2),
    ]
    late = event("b|1", 2, 4.5, "red", kind="in", amount=7)
    journal = projections.journal
    projections.define(TOTALS.replace("{tags: [red, blue]}", "messages"), TOTALS_TABLE)
    projections.insert(*history)
    projections.list_persistence_ids()
    projections.validated(*range(11), messages_checked=1)
    assert projections.run(0, 10).report["pieces"]["done"] == 10

    journal.index_timestamps()
    projections.insert(*news, late)
    projections.list_persistence_ids()
    monkeypatch.setattr(frames, "messages_between", _no_scan)
    result = projections.run(10, 11)
    assert result.status == 0, result.stderr
    assert result.report["counts"]["accepted"] == 3
    assert journal.rows("totals") == totals_of([*history, *news, late])

    monkeypatch.undo()
    forced = projections.run(0, 11, "--force")
    assert forced.report["counts"]["events_read"] == 13
    assert journal.rows("totals") == totals_of([*history, *news, late])


def _no_scan(*arguments: object) -> DataFrame:
    raise AssertionError("scans messages with their payloads")
