"""Excuses for missing rows: TTLs, purges, tag rules, and events that nobody can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window
from tidemark.cassandra.schema import table
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces

A_DAY = "86400"
HOUR_MS = 3_600_000
FIRST = 1_709_251_200_000
"""2024-03-01T00:00:00Z in epoch ms."""


@pytest.fixture
def hours(make_journal: Callable[..., Journal], tmp_path: Path) -> Journal:
    """Return an empty journal in Hour buckets, with its own directories of rules and Data Docs."""
    for name in ("tagging", "projections"):
        (tmp_path / name).mkdir()
    return make_journal(
        DATA_DOCS_DIR=str(tmp_path / "docs"),
        TAGGING_DIR=str(tmp_path / "tagging"),
        PROJECTIONS_DIR=str(tmp_path / "projections"),
    )


def lose_rows(journal: Journal, tag: str, hour: int) -> None:
    """Empty a partition, as an expiry or a purge of its rows does."""
    journal.control.execute(
        f"DELETE FROM {table(journal.keyspace, 'tag_views')} WHERE tag_name = ? AND timebucket = ?",
        [tag, FIRST + hour * HOUR_MS],
    )


def findings(journal: Journal) -> set[tuple[str, str, str, int]]:
    names = ("check_name", "persistence_id", "tag", "number")
    # What is said of the tables' lifetimes and compaction is no finding of rows.
    rows = [row for row in journal.own_rows("finding") if row["layer"] != "storage"]
    return {tuple(row[name] for name in names) for row in rows}


@pytest.mark.long
def test_rows_that_expired_by_tidemarks_own_time_to_live_are_no_findings(hours: Journal) -> None:
    hours.insert("messages", [message("p", n, n - 0.5, {"t"}) for n in (1, 2)])
    ttl = {"EVENTS_BY_TAG_TIME_TO_LIVE": A_DAY}
    assert hours.run("tag_write", *window(0, 2), **ttl).status == 0
    lose_rows(hours, "t", 0)

    without = hours.run("validate", *window(1, 2))
    assert without.status == 3
    assert findings(hours) == {("tag_pid_sequence_nr_missing_head", "p", "t", 2)}

    excused = hours.run("validate", *window(0, 2), **ttl)
    assert excused.status == 0, excused.stderr
    assert findings(hours) == set()


def test_tags_that_rules_give_are_checked_and_known_to_have_been_purged(
    hours: Journal, tmp_path: Path
) -> None:
    late = "/*---\ntag: late\nevent: delay INT\n---*/\ndelay > 30\n"
    (tmp_path / "tagging" / "late.sql").write_text(late)
    event = json.dumps({"delay": 40}).encode()
    hours.insert("messages", [message("p", n, n - 0.5, set(), event=event) for n in (1, 2, 3)])
    assert hours.run("tag_write", *window(0, 3)).status == 0
    purge = Pieces(
        hours.control, hours.own_keyspace, "purge", hours.keyspace, hours.settings().bucket_size
    )
    started = purge.start(purge.plan([FIRST]), owner="o", run_id="r")
    purge.finish(started, State.DONE, owner="o")
    lose_rows(hours, "late", 0)
    lose_rows(hours, "late", 2)
    hours.control.execute(f"TRUNCATE {table(hours.keyspace, 'tag_write_progress')}")

    damaged = hours.run("validate", *window(0, 3))

    assert damaged.status == 3, damaged.stderr
    assert findings(hours) == {
        ("untagged_event", "p", "late", 3),
        ("progress_missing", "p", "late", 0),
    }


@pytest.mark.long
def test_an_event_that_nobody_can_read_is_one_finding_until_somebody_settles_it(
    hours: Journal, tmp_path: Path
) -> None:
    (tmp_path / "projections" / "reds.sql").write_text(PROJECTION.format(keyspace=hours.keyspace))
    (tmp_path / "projections" / "all.sql").write_text(
        PROJECTION.format(keyspace=hours.keyspace)
        .replace("name: reds", "name: everything")
        .replace("source:\n  tags: [red]", "source: messages")
        .replace(".reds", ".everything")
    )
    for target in ("reds", "everything"):
        hours.control.execute_ddl(
            f"CREATE TABLE {table(hours.keyspace, target)}"
            " (persistence_id text PRIMARY KEY, sequence_nr bigint)"
        )
    event = b'{"kind": "a"}'
    hours.insert(
        "messages",
        [
            message("p", n, 0.2 * n, {"red", "blue"}, event=None if n == 2 else event)
            for n in (1, 2, 3)
        ],
    )
    assert hours.run("tag_write", *window(0, 1)).status == 0

    failed = hours.run("validate", *window(0, 1))

    assert failed.status == 3
    assert findings(hours) == {("unwritable_event", "p", "", 2)}
    (line,) = failed.error_lines
    assert "1 finding in 1 of 1 bucket (1 unwritable_event)" in line
    assert "p: sequence nr 2: the event cannot be written" in line
    assert "no payload" in line
    which = ("--check", "unwritable_event", "--persistence-id", "p", "--number", "2")
    assert f"`spark_apps/reconcile.py settle {' '.join(which)} --reason ...`" in line
    assert "repair --" not in line
    assert "tag_write.py --force" not in line

    settle = ("settle", *which)
    reason = ("--reason", "written by the import of 2023; nobody needs it")
    assert hours.run("reconcile", *settle).status == 2
    assert hours.run("reconcile", *settle, *reason).report["state"] == "planned"
    assert hours.own_rows("settled_finding") == []
    assert hours.run("reconcile", *settle, *reason, "--apply").status == 0
    (settled,) = hours.own_rows("settled_finding")
    assert (settled["persistence_id"], settled["number"]) == ("p", 2)
    assert "no payload" in settled["detail"]
    assert settled["reason"] == reason[1]
    audited = [row for row in hours.own_rows("audit") if not row["dry_run"]]
    assert {row["operation"] for row in audited} == {"settle started", "settle"}
    assert all(reason[1] in row["plan"] for row in audited)

    passed = hours.run("validate", *window(0, 1))
    assert passed.status == 0, passed.stderr
    assert [row["state"] for row in hours.own_rows("finding")] == ["settled"]
    projected = hours.run("project", *window(0, 1))
    assert projected.status == 0, projected.stderr
    assert {row["sequence_nr"] for row in hours.rows("reds")} == {3}
    assert {row["sequence_nr"] for row in hours.rows("everything")} == {3}
    again = hours.run("reconcile", *settle, *reason, "--apply")
    assert again.report["state"] == "nothing-to-do"


def test_what_validate_has_not_found_cannot_be_settled(hours: Journal) -> None:
    hours.insert("messages", [message("p", 1, 0.2, set())])
    assert hours.run("validate", *window(0, 1)).status == 0
    reason = ("--reason", "r")
    for options, why in (
        (("--persistence-id", "p", *reason), "there is no such open finding (p)"),
        (("--persistence-id", "p", "--reason", " "), "no reason"),
        (reason, "nothing says which findings"),
        (("--check", "no_such_check", *reason), "no_such_check"),
    ):
        result = hours.run("reconcile", "settle", *options, "--apply")
        assert result.status == 2, result.stderr
        assert why in result.error_lines[0]
    assert hours.own_rows("settled_finding") == []


PROJECTION = """\
/*---
name: reds
version: 1
source:
  tags: [red]
mode: upsert
on-error: skip
target: {keyspace}.reds
event: kind STRING
---*/
SELECT persistence_id, sequence_nr FROM events
"""
