"""Held records that get another content, over a real Kafka and Cassandra."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.test_refusals import done, quarantine, refused
from tests.integration.replicate.test_replicate import events
from tests.integration.support import Journal
from tidemark.cassandra.schema import table

CAUSE = "the header journal.action is not JSON: Expecting value: line 1 column 1 (char 0)"
HEADER = {
    "append": {"range": {"from": 2, "to": 2}, "payloadType": "json", "metadata": {}},
}
EVENT = {"seqNr": 2, "tags": [], "payloadType": "text", "payload": "two"}
VALUE = {"events": [EVENT], "metadata": {}}


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic with a key that is held, and another."""
    one = Topic(kafka)
    one.append("bad", [1])
    one.record(b"bad", b"no JSON", b"\xff", headers=[("h", b"x"), ("raw", b"\xfe")])
    one.append("bad", [3])
    one.append("good", [1])
    one.flush()
    return one


@pytest.fixture
def tenant(make_journal: Callable[..., Journal], topic: Topic) -> Journal:
    """Return a keyspace that the topic was replicated into."""
    journal = make_journal(LOCK_TTL="5")
    topic.feeds(journal)
    done(journal.run("replicate"))
    return journal


def held(tenant: Journal, *options: str) -> list[dict[str, Any]]:
    """Return what the command shows."""
    result = tenant.run("replicate", "held", *options)
    assert result.status == 0, result.stderr
    return [json.loads(line) for line in result.report["lines"]]


def edited(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a record that appends event 2, or something else."""
    headers = [{"key": "journal.action", "value": json.dumps(HEADER)}]
    new = {name: record[name] for name in record if name != "value_base64"}
    return {**new, "headers": headers, "value": json.dumps(VALUE), **fields}


def written(folder: Path, *records: dict[str, Any]) -> str:
    file = folder / "held.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(file)


def test_a_mended_record_is_replayed_in_its_place_and_read_so_ever_after(
    tenant: Journal, topic: Topic, tmp_path: Path
) -> None:
    [record] = held(tenant)
    assert record == {
        **{"topic": topic.name, "partition": 0, "offset": 1, "id": "bad", "cause": CAUSE},
        "headers": [
            {"key": "journal.action", "value": "no JSON"},
            {"key": "h", "value": "x"},
            {"key": "raw", "value_base64": "/g=="},
        ],
        "value_base64": "/w==",
    }
    file = written(tmp_path, edited(record))
    shown = tenant.run("replicate", "mend", file)
    assert f"{topic.name}/0 offset 1 of bad: append of seq_nr 2" in shown.report["lines"][0]
    assert held(tenant) == [record]
    assert done(tenant.run("replicate", "mend", file, "--apply"))["records_mended"] == 1
    [mended] = held(tenant, "--key", "bad")
    assert json.loads(mended["value"]) == VALUE
    assert done(tenant.run("replicate", "mend", file, "--apply"))["records_unchanged"] == 1
    done(tenant.run("replicate", "replay", "--apply"))
    expected = [("bad", 0, 1, "1"), ("bad", 0, 2, "two"), ("bad", 0, 3, "3"), ("good", 0, 1, "1")]
    assert events(tenant) == expected
    assert quarantine(tenant) == [("bad", 1, "mended", CAUSE)]
    [kept] = tenant.own_rows("quarantined_record")
    assert kept["value"] == b"\xff"
    result = tenant.run("replicate", "verify")
    assert (result.status, tenant.own_rows("finding")) == (0, []), result.stderr
    topic.append("bad", [4])
    topic.flush()
    done(tenant.run("replicate"))
    assert [event[2] for event in events(tenant) if event[0] == "bad"] == [1, 2, 3, 4]


def test_all_held_records_are_saved_and_the_first_shown(
    tenant: Journal, topic: Topic, tmp_path: Path
) -> None:
    for number in range(24):
        topic.record(f"bad-{number:02}".encode(), b"{")
    topic.flush()
    done(tenant.run("replicate"))
    file = tmp_path / "held.jsonl"
    shown = tenant.run("replicate", "held", "--save", str(file)).report
    assert shown["counts"] == {"records_held": 25}
    *lines, more = shown["lines"]
    saved = file.read_text().splitlines()
    assert (len(saved), saved[:20]) == (25, lines)
    assert more == "and 5 more; name keys, or save all to a file"
    mended = tenant.run("replicate", "mend", str(file))
    assert mended.report["counts"] == {"records_mended": 0, "records_unchanged": 25}
    refused = tenant.run("replicate", "held", "--save", str(tmp_path / "no" / "file"))
    assert refused.status == 2
    assert "cannot be saved: No such file or directory" in refused.error_lines[0]


@pytest.mark.long
def test_a_keyspace_that_is_emptied_and_filled_anew_has_the_mended_record(
    tenant: Journal, topic: Topic, tmp_path: Path
) -> None:
    [record] = held(tenant)
    done(tenant.run("replicate", "mend", written(tmp_path, edited(record)), "--apply"))
    done(tenant.run("replicate", "replay", "--apply"))
    before = events(tenant)
    for name in ("journal", "metajournal", "pointer2"):
        tenant.control.execute_ddl(f"TRUNCATE {table(tenant.keyspace, name)}")
    done(tenant.run("replicate"))
    assert events(tenant) == before
    assert quarantine(tenant) == [("bad", 1, "mended", CAUSE)]


@pytest.mark.long
@pytest.mark.parametrize(
    "seam",
    [
        Seam.REPLICATED_EVENTS_WRITTEN,
        Seam.REPLICATED_HEADS_WRITTEN,
        Seam.MENDED_RECORDS_KEPT,
        Seam.RECORDS_RELEASED,
    ],
)
def test_a_replay_that_dies_is_done_again_with_the_mended_content(
    tenant: Journal, topic: Topic, tmp_path: Path, seam: Seam
) -> None:
    [record] = held(tenant)
    done(tenant.run("replicate", "mend", written(tmp_path, edited(record)), "--apply"))
    with dying_after(seam, 1):
        tenant.run("replicate", "replay", "--apply")
    done(tenant.run("replicate", "replay", "--apply"))
    assert [event[2:] for event in events(tenant) if event[0] == "bad"] == [
        (1, "1"),
        (2, "two"),
        (3, "3"),
    ]
    assert quarantine(tenant) == [("bad", 1, "mended", CAUSE)]


def test_what_cannot_be_mended_is_refused_in_one_line(
    tenant: Journal, topic: Topic, tmp_path: Path
) -> None:
    [record] = held(tenant)
    other = [{"key": "other", "value": "x"}]
    for lines, says in (
        ([edited(record, value="{")], "the new content cannot be read: the value"),
        ([edited(record, headers=other)], "kafka-journal passes over a record like this"),
        ([edited(record, offset=2, id="other")], "no such record is held"),
        ([edited(record, offset="first")], "offset: Input should be a valid integer"),
        ([edited(record, payload="x")], "payload: Extra inputs are not permitted"),
    ):
        line = refused(tenant.run("replicate", "mend", written(tmp_path, *lines), "--apply"), 2)
        assert says in line
    absent = str(tmp_path / "absent")
    assert "cannot be read" in refused(tenant.run("replicate", "mend", absent), 2)
    assert held(tenant) == [record]
