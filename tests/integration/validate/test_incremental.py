"""The incremental validate, which finds in new time buckets all that a full look would find."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.integration.support import Journal, Result
from tests.integration.validate.test_validate import (
    DAYS,
    MESSAGES,
    SCANNING,
    START,
    TAG_VIEWS,
    bucket,
    delete,
    fill,
    findings,
    lose_tag_row,
    states,
    timestamp,
    warnings,
    write_out_of_order,
)
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces

PAYLOAD = {"ser_id": 20, "ser_manifest": "", "event_manifest": "", "event": b"e"}
NEWS = "looked at what is new"
EVERYTHING = "looked at everything: "


def validate(journal: Journal, first: int, end: int, *options: str) -> Result:
    """Run validate over days since START."""
    bounds = [(START + timedelta(days=day)).isoformat() for day in (first, end)]
    window = ("--window-start", bounds[0], "--window-end", bounds[1])
    return journal.run("validate", *window, *options)


@pytest.fixture
def days(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Journal:
    """Return an undamaged journal with days 0 and 1 passed and day 2 new; it is not scanned."""
    monkeypatch.setattr("tidemark.validate.reading.incremental.FEW_EVENTS", 0)
    monkeypatch.setattr("tidemark.validate.reading.incremental.NEWS_SHARE", 0)
    journal = make_journal(BUCKET_SIZE="Day", DATA_DOCS_DIR=str(tmp_path / "docs"))
    journal.index_timestamps()
    fill(journal, "one", "two", "three", "four", "five", "six")
    create_own_tables(journal.control, journal.settings())
    first = validate(journal, 0, 2)
    assert first.status == 0, first.stderr
    assert f"{EVERYTHING}time buckets after the first of these have passed, or" in first.stdout
    return journal


@pytest.mark.long
def test_a_settled_tail_does_not_have_everything_read_in_each_run(days: Journal) -> None:
    days.insert(SCANNING, [{"persistence_id": "lost", "sequence_nr": 3}])
    days.insert("all_persistence_ids", [{"persistence_id": "lost"}])
    assert "sequence_nr_lost_tail: lost" in validate(days, 2, DAYS).stdout
    which = ("--persistence-id", "lost", "--check", "sequence_nr_lost_tail")
    assert days.run("reconcile", "settle", *which, "--reason", "r", "--apply").status == 0
    assert validate(days, 2, DAYS).status == 0

    next_day = validate(days, DAYS, DAYS + 1)

    assert next_day.status == 0, next_day.stderr
    assert NEWS in next_day.stdout

    # It was settled as it stood.
    days.insert(SCANNING, [{"persistence_id": "lost", "sequence_nr": 4}])
    assert validate(days, DAYS + 1, DAYS + 2).status == 3


def test_what_is_whole_passes_by_what_is_new(days: Journal) -> None:
    # Actors delete the first events of an id, or all of its events.
    days.insert("metadata", [{"persistence_id": "one", "deleted_to": 4}])
    days.insert("metadata", [{"persistence_id": "two", "deleted_to": 6}])
    for persistence_id, deleted_to in (("one", 4), ("two", 6)):
        for number in range(1, deleted_to + 1):
            key = {"persistence_id": persistence_id, "partition_nr": 0, "sequence_nr": number}
            delete(days, MESSAGES, **key)

    new = validate(days, 2, DAYS)

    assert new.status == 0, new.stderr
    assert NEWS in new.stdout
    assert new.report["details"]["scope"] == "new"
    assert new.report["counts"] == {
        "messages_checked": 10, "tag_rows_checked": 12, "findings": 0
    }  # fmt: skip
    assert states(days) == {0: "done", 1: "done", 2: "done"}
    tails = days.own_rows("validate_tail")
    assert {(row["tag"], row["tag_pid_sequence_nr"], row["timestamp"]) for row in tails} == {
        ("t", 6, timestamp(2, 6))
    }


@pytest.mark.long
def test_what_warns_in_a_new_bucket_is_told_by_what_is_new(
    days: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.validate.findings.partition_size.ROWS_ADVISED", 11)
    write_out_of_order(days, day=2)

    new = validate(days, 2, DAYS)

    assert new.status == 0, new.stderr
    assert NEWS in new.stdout
    assert warnings(days) == {
        ("event_out_of_order", "late", "", 2, bucket(2)),
        ("tag_partition_too_large", "", "t", 12, bucket(2)),
    }


@pytest.mark.long
def test_the_last_event_in_a_wrong_partition_is_found_by_what_is_new(days: Journal) -> None:
    [event] = [
        row
        for row in days.rows(MESSAGES)
        if (row["persistence_id"], row["sequence_nr"]) == ("two", 6)
    ]
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=6)
    days.insert(MESSAGES, [{**event, "partition_nr": 2}])
    # Nobody has said that there is such an event.
    days.control.execute(f"TRUNCATE {table(days.keyspace, SCANNING)}")

    result = validate(days, 2, DAYS)

    assert result.status == 3, result.stderr
    assert findings(days) == {("wrong_partition_nr", "two", "", 6, None, bucket(2))}


def test_what_is_damaged_in_a_new_bucket_is_found(days: Journal) -> None:
    lose_tag_row(days, "one", 5)
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=5)
    delete(days, MESSAGES, persistence_id="three", partition_nr=0, sequence_nr=6)
    # A second writer goes on from where it was before the first one took over.
    again = {"persistence_id": "four", "sequence_nr": 2, "timestamp": timestamp(2, 60), **PAYLOAD}
    days.insert(MESSAGES, [{**again, "partition_nr": 0, "timebucket": "0"}])
    twice = {"persistence_id": "five", "sequence_nr": 6, "timestamp": timestamp(2, 6), **PAYLOAD}
    days.insert(
        TAG_VIEWS,
        [{**twice, "tag_name": "t", "timebucket": bucket(2), "tag_pid_sequence_nr": 7}],
    )

    failed = validate(days, 2, DAYS)

    assert failed.status == 3
    assert f"{EVERYTHING}in doubt: five, tag_pid_sequence_nr_duplicate" in failed.stdout
    assert {finding[:5] for finding in findings(days)} == {
        ("untagged_event", "one", "t", 5, None),
        ("sequence_nr_gap", "two", "", 6, 5),
        ("sequence_nr_lost_tail", "three", "", 5, 6),
        ("sequence_nr_duplicate", "four", "", 2, 2),
        ("doubled_row", "five", "t", 7, 6),
    }
    assert states(days) == {0: "done", 1: "done", 2: "failed"}


@pytest.mark.long
@pytest.mark.parametrize("lost", [pytest.param("event", marks=pytest.mark.long), "row"])
def test_what_lies_just_before_the_new_must_be_there(days: Journal, lost: str) -> None:
    if lost == "event":
        delete(days, MESSAGES, persistence_id="one", partition_nr=0, sequence_nr=4)
        expected = ("sequence_nr_gap", "one", "", 5, 4, bucket(2))
    else:
        lose_tag_row(days, "one", 4)
        expected = ("tag_pid_sequence_nr_gap", "one", "t", 5, 4, bucket(2))

    failed = validate(days, 2, DAYS)

    assert (failed.status, findings(days)) == (3, {expected})


@pytest.mark.long
def test_what_was_purged_before_the_new_is_no_doubt(days: Journal) -> None:
    purge = Pieces.of(days.control, days.settings(), "purge")
    started = purge.start(purge.plan([bucket(0), bucket(1)]), owner="o", run_id="r")
    purge.finish(started, State.DONE, owner="o")
    for day in (0, 1):
        delete(days, TAG_VIEWS, tag_name="t", timebucket=bucket(day))

    purged = validate(days, 2, DAYS)

    assert purged.status == 0, purged.stderr
    assert NEWS in purged.stdout


@pytest.mark.long
def test_a_look_at_everything_opens_what_had_passed(days: Journal) -> None:
    assert NEWS in validate(days, 2, DAYS).stdout
    lose_tag_row(days, "one", 1)
    skipped = validate(days, 2, DAYS, "--skip-passed")
    assert skipped.report["state"] == "nothing-to-do"

    everything = validate(days, 2, DAYS, "--scope", "all")

    assert everything.status == 3, everything.stderr
    assert {finding[:4] for finding in findings(days)} == {
        ("untagged_event", "one", "t", 1),
    }
    assert states(days) == {0: "failed", 1: "done", 2: "done"}
    assert everything.report["pieces"] == {"planned": 1, "done": 0, "held": 0, "failed": 1}
    fill(days, "one")
    healed = validate(days, 2, DAYS)
    assert (healed.status, findings(days)) == (0, set())
    assert states(days) == {0: "done", 1: "done", 2: "done"}


@pytest.mark.long
def test_a_look_at_everything_leaves_to_tag_write_what_came_late(days: Journal) -> None:
    """The event is in a passed time bucket, and no run of tag-write has seen it yet."""
    assert NEWS in validate(days, 2, DAYS).stdout
    written = Pieces.of(days.control, days.settings(), "tag-write")
    done = written.start(written.plan([bucket(day) for day in range(3)]), owner="o", run_id="r")
    written.finish(done, State.DONE, owner="o")
    late = {"persistence_id": "one", "sequence_nr": 7, "timestamp": timestamp(0, 50), **PAYLOAD}
    days.insert(MESSAGES, [{**late, "partition_nr": 0, "timebucket": "0", "tags": {"t"}}])

    result = validate(days, 2, DAYS, "--scope", "all")
    assert result.status == 0, result.stdout

    lose_tag_row(days, "two", 1)
    assert validate(days, 2, DAYS, "--scope", "all").status == 3
    assert {finding[:2] for finding in findings(days)} == {("untagged_event", "two")}


@pytest.mark.long
def test_without_an_index_everything_is_looked_at(
    days: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.journals.pekko.tables.has_time_index", lambda *_: False)

    everything = validate(days, 2, DAYS)

    assert everything.status == 0, everything.stderr
    assert f"{EVERYTHING}messages has no index on its timestamp" in everything.stdout
