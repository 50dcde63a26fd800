"""Tags by rule: a new tag for old events, bucket by bucket; a changed rule needs a rebuild."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pekko_journals import delete_messages
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import (
    comparable,
    expected_tag_views,
    message,
    window,
)

LATE = """\
/*---
tag: late
event: delay INT
---*/

delay > 30
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return an empty directory of tag rules."""
    directory = tmp_path / "tagging"
    directory.mkdir()
    return directory


def delays(hours: float = 3.0) -> list[dict[str, Any]]:
    """Return two ids whose events have a delay of 0, 20, 40, 60, 0, …; one event is not JSON."""
    events = [
        message(
            pid,
            nr,
            hours * (nr - 1) / 12,
            {"all"},
            event=json.dumps({"delay": 20 * ((nr + shift) % 4)}).encode(),
        )
        for shift, pid in enumerate(["a", "ü|✓"])
        for nr in range(1, 13)
    ]
    return [*events, message("plain", 1, 0.5, {"all"}, event=b"\xff\x00")]


def with_late(events: list[dict[str, Any]], above: int = 30) -> list[dict[str, Any]]:
    """Return the events with the tag that the rule gives."""

    def tags(row: dict[str, Any]) -> set[str]:
        is_late = row["event"][:1] == b"{" and json.loads(row["event"])["delay"] > above
        return {*row["tags"], "late"} if is_late else set(row["tags"])

    return [{**row, "tags": tags(row)} for row in events]


def run(journal: Journal, rules: Path, application: str, *options: str) -> Any:
    return journal.run(application, *options, TAGGING_DIR=str(rules))


def test_new_tag_is_given_to_old_events_bucket_by_bucket(journal: Journal, rules: Path) -> None:
    """The windows come in any order; numbers and progress are as after one pass in order."""
    journal.insert("messages", delays())
    assert run(journal, rules, "tag_write", *window(0, 3)).status == 0
    (rules / "late.sql").write_text(LATE)
    for first in (2, 0, 1):
        result = run(journal, rules, "tag_write", *window(first, first + 1))
        assert result.status == 0, result.stderr
    expected = expected_tag_views(with_late(delays()))
    assert comparable(journal.rows("tag_views")) == comparable(expected)
    numbers = {
        (row["persistence_id"], row["tag"]): row["tag_pid_sequence_nr"]
        for row in journal.rows("tag_write_progress")
    }
    last = {
        (row["persistence_id"], row["tag_name"]): row["tag_pid_sequence_nr"] for row in expected
    }
    assert numbers == last


def test_changed_rule_is_refused_until_its_tag_is_rebuilt(journal: Journal, rules: Path) -> None:
    journal.insert("messages", delays())
    (rules / "late.sql").write_text(LATE)
    assert run(journal, rules, "tag_write", *window(0, 2)).status == 0
    before = journal.tag_tables()

    (rules / "late.sql").write_text(LATE.replace("30", "10"))
    refused = run(journal, rules, "tag_write", *window(2, 3))
    assert refused.status == 3
    [line] = refused.error_lines
    assert "the rule of tag late has changed: its numbers would shift" in line
    assert "rebuild --tag late --apply" in line
    assert journal.tag_tables() == before

    delete_messages(journal, "a", 3)
    refused = run(journal, rules, "reconcile", "rebuild", "--tag", "late", "--apply")
    assert refused.status == 3
    [line] = refused.error_lines
    assert "2 rows would go with the tag that cannot be written again" in line
    assert journal.tag_tables() == before

    assert run(journal, rules, "reconcile", "delete", "--tag", "late", "--apply").status == 0
    rebuilt = run(journal, rules, "reconcile", "rebuild", "--tag", "late", "--apply")
    assert rebuilt.status == 0, rebuilt.stderr
    assert run(journal, rules, "tag_write", *window(2, 3)).status == 0
    events = with_late(delays(), above=10)
    left = [row for row in events if row["persistence_id"] != "a" or row["sequence_nr"] > 3]
    expected = [
        *(row for row in expected_tag_views(events) if row["tag_name"] == "all"),
        *(row for row in expected_tag_views(left) if row["tag_name"] == "late"),
    ]
    assert comparable(journal.rows("tag_views")) == comparable(expected)


@pytest.mark.long
def test_tag_that_only_its_rule_knows_can_be_rebuilt(journal: Journal, rules: Path) -> None:
    journal.insert("messages", delays())
    assert run(journal, rules, "tag_write", *window(0, 3)).status == 0
    (rules / "late.sql").write_text(LATE)
    rebuilt = run(journal, rules, "reconcile", "rebuild", "--tag", "late", "--apply")
    assert rebuilt.status == 0, rebuilt.stderr
    expected = expected_tag_views(with_late(delays()))
    assert comparable(journal.rows("tag_views")) == comparable(expected)


def test_a_run_without_a_rule_that_gave_tags_changes_nothing(
    journal: Journal, rules: Path, tmp_path: Path
) -> None:
    """As if it had been started where another directory has the rules."""
    journal.insert("messages", delays())
    (rules / "late.sql").write_text(LATE)
    assert run(journal, rules, "tag_write", *window(0, 2)).status == 0
    before = journal.tag_tables()

    other_directory = tmp_path / "other"
    other_directory.mkdir()
    for command in (
        ("tag_write", *window(2, 3)),
        ("reconcile", "repair", "--apply"),
        ("reconcile", "rebuild", "--all", "--apply"),
        ("reconcile", "rebuild", "--persistence-id", "a", "--apply"),
    ):
        result = run(journal, other_directory, *command)
        assert result.status == 2, (command, result.stderr)
        [line] = result.error_lines
        assert "there is no rule of late any more" in line
        assert f"({other_directory})" in line
        assert "delete --tag late --apply" in line
    assert journal.tag_tables() == before


def test_a_rule_is_removed_with_the_rows_of_its_tag(journal: Journal, rules: Path) -> None:
    """Afterwards the tag is one that events alone give."""
    journal.insert("messages", delays())
    (rules / "late.sql").write_text(LATE)
    assert run(journal, rules, "tag_write", *window(0, 2)).status == 0
    (rules / "late.sql").unlink()
    assert run(journal, rules, "reconcile", "delete", "--tag", "late", "--apply").status == 0

    [event] = [message("b", 1, 2.5, {"late"})]
    journal.insert("messages", [event])
    for first in (2, 0):
        result = run(journal, rules, "tag_write", *window(first, first + 1), "--force")
        assert result.status == 0, result.stderr
    rows = journal.rows("tag_views")
    assert [row["persistence_id"] for row in rows if row["tag_name"] == "late"] == ["b"]


def test_rule_for_a_tag_that_has_rows_already_is_refused(journal: Journal, rules: Path) -> None:
    journal.insert("messages", delays())
    assert run(journal, rules, "tag_write", *window(0, 1)).status == 0
    (rules / "all.sql").write_text(LATE.replace("late", "all"))
    [line] = run(journal, rules, "tag_write", *window(1, 2)).error_lines
    assert "the rule of tag all is new, and the tag has rows already" in line


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"late.sql": LATE.replace("delay >", "dealy >")}, "dealy"),
        ({"late.sql": LATE.replace("delay > 30", "delay + 30")}, "the predicate is int"),
        ({"late.sql": LATE, "z.sql": LATE}, "the tag late is given by late.sql already"),
        ({"late.sql": LATE.replace("delay INT", "delay NUMBER")}, "NUMBER"),
        ({"late.sql": LATE.replace("tag: late\n", "")}, "tag is missing"),
        ({"late.sql": LATE.replace("30", "30 AND rand() < 0.5")}, "rand may give another tag"),
        ({"late.sql": LATE.replace("30", "hour(now())")}, "now may give another tag"),
    ],
    ids=[
        "unknown field",
        "not boolean",
        "given twice",
        "unknown type",
        "no tag",
        "chance",
        "time of the run",
    ],
)
def test_rule_that_cannot_be_used_is_refused_with_its_file(
    journal: Journal, rules: Path, files: dict[str, str], expected: str
) -> None:
    journal.insert("messages", delays())
    for name, text in files.items():
        (rules / name).write_text(text)
    result = run(journal, rules, "tag_write", *window(0, 3))
    assert result.status == 2, result.stderr
    [line] = result.error_lines
    assert expected in line
    assert str(rules / sorted(files)[-1]) in line
    assert journal.rows("tag_views") == []
