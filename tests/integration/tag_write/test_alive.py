"""The runs of tag-write and rebuild while actors delete, between any two reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.integration.pekko_journals import delete_messages
from tests.integration.support import Journal
from tests.integration.tag_write.test_increments import insert
from tests.integration.tag_write.test_tag_write import (
    START,
    comparable,
    expected_tag_views,
    message,
    window,
)
from tidemark import clock
from tidemark.reconcile.rebuild import rows
from tidemark.tag_write.job import TagWriteJob


def before(function: Callable[..., Any], happens: Callable[[], None]) -> Callable[..., Any]:
    """Return the function with something that happens just before it."""

    def replaced(*args: Any, **kwargs: Any) -> Any:
        happens()
        return function(*args, **kwargs)

    return replaced


@pytest.mark.parametrize("strategy", ["scan", "tails"])
def test_numbers_come_from_the_same_read_as_the_events(journal: Journal, strategy: str) -> None:
    """An actor deletes events after their numbering and before their rows are written."""
    messages = [message("p", nr, 0.01 * nr, {"t"}) for nr in range(1, 101)]
    insert(journal, [*messages[:80], message("q", 1, 0.5, {"t"})])
    options = ("--strategy", strategy)
    if strategy == "tails":
        # At the start q is known, and p has not been seen.
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages WHERE persistence_id = 'p'"
            " AND partition_nr = 0"
        )
        assert journal.run("tag_write", *window(0, 1)).status == 0
        messages = [message("p", nr, 1 + 0.005 * nr, {"t"}) for nr in range(1, 101)]
        insert(journal, messages[:80])
    late = [message("q", 2, 0.6, {"t"})]
    insert(journal, [*messages[80:], *late])

    def deleted() -> None:
        delete_messages(journal, "p", 60)

    with patch.object(TagWriteJob, "_write_rows", before(TagWriteJob._write_rows, deleted)):
        result = journal.run("tag_write", *window(0, 2), *options)
    assert result.status == 0, result.stderr
    expected = [*messages, message("q", 1, 0.5, {"t"}), *late]
    assert comparable(journal.rows("tag_views")) == comparable(expected_tag_views(expected))


@pytest.mark.long
def test_an_event_ahead_of_its_time_has_its_number_and_waits(journal: Journal) -> None:
    """The writer's clock is two days ahead; rebuild and tag-write treat the event alike."""
    ahead = (datetime.now(UTC) - START) / timedelta(hours=1) + 48
    messages = [message("p", nr, 0.1 * nr, {"t"}) for nr in (1, 3)]
    insert(journal, [messages[0], early := message("p", 2, ahead, {"t"}), messages[1]])
    insert(journal, [message("q", nr, 0.1 * nr, {"t"}) for nr in (1, 2)])

    def state() -> list[dict[str, int]]:
        return [
            {
                row["persistence_id"]: row["tag_pid_sequence_nr"]
                for row in journal.rows("tag_write_progress")
            },
            {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("tag_scanning")},
            {
                row["persistence_id"]: row["sequence_nr"]
                for row in journal.own_rows("tag_write_tail")
            },
        ]

    result = journal.run("tag_write", *window(0, 1))
    assert result.status == 0, result.stderr
    assert result.report["counts"]["quarantined"] == 0
    expected = expected_tag_views(
        [*messages, early, *(message("q", n, 0.1 * n, {"t"}) for n in (1, 2))]
    )
    written = [row for row in expected if row["sequence_nr"] != 2 or row["persistence_id"] == "q"]
    assert comparable(journal.rows("tag_views")) == comparable(written)
    assert state() == [{"p": 1, "q": 2}] * 3

    rebuilt = journal.run("reconcile", "rebuild", "--all", "--apply")
    assert rebuilt.status == 0, rebuilt.stderr
    # The id's later events are left to tag-write as well, which finds them as late.
    assert comparable(journal.rows("tag_views")) == comparable(
        [row for row in written if row["persistence_id"] == "q" or row["sequence_nr"] == 1]
    )
    assert state() == [{"p": 1, "q": 2}] * 3
    assert journal.run("tag_write", *window(1, 2), "--strategy", "tails").status == 0
    assert comparable(journal.rows("tag_views")) == comparable(written)
    three_days_on = clock.now() + timedelta(days=3)
    with patch.object(clock, "now", lambda: three_days_on):
        hour = int(ahead)
        # Two years of hours are missed before it; this run need take up only its hour.
        its_hour = (*window(hour, hour + 1), "--force")
        assert journal.run("tag_write", *its_hour, CATCH_UP_BUCKETS="1").status == 0
        checked = journal.run("reconcile", "check")
    assert comparable(journal.rows("tag_views")) == comparable(expected)
    assert checked.status == 0, checked.stderr
    assert state() == [{"p": 3, "q": 2}] * 3


def require_nothing_is_skipped(journal: Journal, messages: list[dict[str, Any]]) -> None:
    """Require rows of all events up to progress and scanning, as a recovering actor skips them."""
    rows = expected_tag_views(messages)
    present = comparable(journal.rows("tag_views"))
    reached: dict[Any, int] = {}
    for row in journal.rows("tag_write_progress"):
        reached[row["persistence_id"], row["tag"]] = row["sequence_nr"]
    scanned = {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("tag_scanning")}
    for row in rows:
        key = (row["persistence_id"], row["tag_name"])
        if row["sequence_nr"] <= max(reached.get(key, 0), scanned.get(key[0], 0)):
            assert comparable([row])[0] in present


def test_progress_never_leads_while_the_journal_grows(journal: Journal, tmp_path: Path) -> None:
    """Windows out of order, a late event, a tag by rule, and Pekko's own progress, which lags."""
    (tmp_path / "even.sql").write_text(
        "/*---\ntag: even\nevent: x INT\n---*/\nsequence_nr % 2 = 0\n"
    )

    def by_rule(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**row, "tags": {*row["tags"], "even"}} if row["sequence_nr"] % 2 == 0 else row
            for row in rows
        ]

    messages = [message("p", nr, 0.5 * nr - 0.4, {"t"}) for nr in range(1, 7)]
    insert(journal, messages)
    for hour, more in (
        (1, []),
        (0, [message("p", 7, 0.2, {"t"})]),
        (2, [message("q", 1, 2.5, {"t"})]),
        (3, [message("p", 8, 3.1, {"t"}), message("q", 2, 0.1, {"t"})]),
    ):
        messages += more
        insert(journal, more)
        if hour == 2:
            lagging = {"persistence_id": "p", "tag": "t", "sequence_nr": 2}
            offset = {"tag_pid_sequence_nr": 2, "offset": messages[1]["timestamp"]}
            journal.insert("tag_write_progress", [lagging | offset])
        result = journal.run(
            "tag_write",
            *window(hour, hour + 1),
            *([] if hour == 1 else ["--strategy", "tails"]),
            TAGGING_DIR=str(tmp_path),
        )
        assert result.status == 0, result.stderr
        require_nothing_is_skipped(journal, by_rule(messages))
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views(by_rule(messages))
    )
    assert {
        (row["persistence_id"], row["tag"], row["sequence_nr"], row["tag_pid_sequence_nr"])
        for row in journal.rows("tag_write_progress")
    } == {("p", "t", 8, 8), ("p", "even", 8, 4), ("q", "t", 2, 2), ("q", "even", 2, 1)}


def test_a_window_is_rebuilt_from_the_read_that_it_was_numbered_with(journal: Journal) -> None:
    messages = [message("p", nr, 0.02 * nr, {"t"}) for nr in range(1, 101)]
    insert(journal, messages)
    assert journal.run("tag_write", *window(0, 3)).status == 0
    written = journal.rows("tag_views")

    def deleted() -> None:
        delete_messages(journal, "p", 60)

    with patch.object(rows, "_messages", before(rows._messages, deleted)):
        result = journal.run("reconcile", "rebuild", *window(1, 2), "--apply")
    assert result.status == 0, result.stderr
    assert journal.rows("tag_views") == written


@pytest.mark.long
def test_a_late_event_that_is_deleted_before_its_row_is_written_changes_no_number(
    journal: Journal,
) -> None:
    """A scan keeps only the events of its own buckets: nothing is written, and a retry helps."""
    messages = [message("p", nr, 0.1 * nr, {"t"}) for nr in range(1, 5)]
    insert(journal, messages[:2])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    written = journal.tag_tables()
    insert(journal, [*messages[2:], message("p", 5, 1.5, {"t"})])

    def deleted() -> None:
        delete_messages(journal, "p", 3)

    with patch.object(TagWriteJob, "_write_rows", before(TagWriteJob._write_rows, deleted)):
        result = journal.run("tag_write", *window(1, 2), "--strategy", "scan")
    assert result.status == 1
    assert "1 late event was deleted while it was numbered" in result.error_lines[0]
    assert journal.tag_tables() == written
    again = journal.run("tag_write", *window(1, 2), "--strategy", "scan")
    assert again.status == 0, again.stderr
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {1: 1, 2: 2, 4: 3, 5: 4}
