"""The application purge in a real Cassandra: the deleted and the kept rows, and the audit rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window
from tidemark.errors import LockLost
from tidemark.journals.pekko import tables, tag_views
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces
from tidemark.project.offset_store.offsets import OffsetStore

DEFINITION = """
/*---
name: reds
version: 1
source:
  tags: [red]
mode: upsert
target: nowhere.reds
on-error: skip
event: kind STRING
---*/
SELECT persistence_id, sequence_nr FROM events
"""


@pytest.fixture
def tagged(journal: Journal, tmp_path: Path) -> Journal:
    """Return a journal with three hours of the tags red and blue, and no projection."""
    journal.insert(
        "messages",
        [message("p", number, number - 0.5, {"red", "blue"}) for number in (1, 2, 3)],
    )
    (tmp_path / "projections").mkdir()
    assert journal.run("tag_write", *window(0, 3)).status == 0
    return Journal(
        journal.control,
        {
            **journal.environment,
            "TIDEMARK_PROJECTIONS_DIR": str(tmp_path / "projections"),
            "TIDEMARK_DATA_DOCS_DIR": str(tmp_path / "docs"),
        },
        journal.keyspace,
        journal.own_keyspace,
    )


def projections(journal: Journal) -> Path:
    return Path(journal.environment["TIDEMARK_PROJECTIONS_DIR"])


def numbers(journal: Journal) -> set[int]:
    return {row["sequence_nr"] for row in journal.rows("tag_views")}


def test_dry_run_is_the_default_and_leaves_an_audit_row(tagged: Journal) -> None:
    before = tagged.tag_tables()
    result = tagged.run("purge", *window(0, 2))
    assert result.report["state"] == "planned"
    assert result.report["pieces"]["planned"] == 2
    assert "2024-03-01 00:00  purge  2 tags: blue, red" in result.stdout
    assert tagged.tag_tables() == before
    [audited] = tagged.own_rows("audit")
    assert audited["dry_run"] is True
    assert audited["operation"] == "purge"
    assert "2024-03-01 01:00  purge" in audited["plan"]


def test_apply_deletes_exactly_the_planned_partitions(tagged: Journal) -> None:
    progress = tagged.rows("tag_write_progress")
    result = tagged.run("purge", *window(0, 2), "--apply")
    assert result.status == 0, result.stderr
    assert result.report["counts"] == {
        "buckets_purged": 2,
        "partitions_deleted": 4,
        "buckets_kept": 0,
        "event_groups_deleted": 0,
        "iceberg_snapshots_deleted": 0,
        "iceberg_orphans_deleted": 0,
    }
    assert numbers(tagged) == {3}
    assert tagged.rows("tag_write_progress") == progress
    operations = sorted(row["operation"] for row in tagged.own_rows("audit"))
    assert operations == ["purge", "purge started"]
    again = tagged.run("purge", *window(0, 2), "--apply")
    assert again.report["state"] == "nothing-to-do"


def test_bucket_that_a_projection_has_not_consumed_stays(tagged: Journal) -> None:
    (projections(tagged) / "reds.sql").write_text(DEFINITION.lstrip())
    result = tagged.run("purge", *window(0, 2), "--apply")
    assert result.report["state"] == "nothing-to-do"
    assert "keep: needed by reds" in result.stdout
    assert numbers(tagged) == {1, 2, 3}


def test_late_row_that_a_projection_has_not_consumed_stays(
    tagged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The projection is done with the bucket, but tag-write has added a row to it since."""
    # A time bucket may have millions of persistence ids: none is asked for by itself.
    monkeypatch.setattr(OffsetStore, "offset", None)
    (projections(tagged) / "reds.sql").write_text(
        DEFINITION.lstrip().replace("nowhere", tagged.keyspace)
    )
    tagged.control.execute_ddl(
        f"CREATE TABLE {tagged.keyspace}.reds (persistence_id text PRIMARY KEY, sequence_nr bigint)"
    )
    docs = str(projections(tagged) / "docs")
    assert tagged.run("validate", *window(0, 3), DATA_DOCS_DIR=docs).status == 0
    assert tagged.run("project", *window(0, 3)).status == 0
    assert tagged.run("purge", *window(0, 2)).report["pieces"]["planned"] == 2
    tagged.insert("messages", [message("late", 1, 0.4, {"red"})])
    written = tagged.run("tag_write", *window(3, 4))
    assert written.report["counts"]["late_tag_rows"] == 1, written.stderr

    kept = tagged.run("purge", *window(0, 2), "--apply")
    assert kept.report["counts"]["buckets_kept"] == 2, kept.stdout
    assert "keep: needed by reds" in kept.stdout
    assert tagged.run("validate", *window(3, 4), DATA_DOCS_DIR=docs).status == 0
    caught_up = tagged.run("project", *window(3, 4), PROJECT_LOOK_BACK="3")
    assert caught_up.report["counts"]["accepted"] == 1, caught_up.stderr
    purged = tagged.run("purge", *window(0, 2), "--apply")
    assert purged.report["counts"]["buckets_purged"] == 2, purged.stdout


@pytest.mark.long
def test_young_bucket_stays(tagged: Journal) -> None:
    result = tagged.run("purge", *window(0, 3), "--apply", "--retention-days", "36500")
    assert result.report["counts"]["buckets_kept"] == 3
    assert numbers(tagged) == {1, 2, 3}


def test_unreadable_projection_stops_the_purge(tagged: Journal) -> None:
    """The projection's needs are unknown, so nothing may go."""
    (projections(tagged) / "broken.sql").write_text("SELECT 1")
    result = tagged.run("purge", *window(0, 2), "--apply")
    assert result.status == 2
    assert "broken.sql" in result.error_lines[0]
    assert numbers(tagged) == {1, 2, 3}


@pytest.mark.long
def test_purged_bucket_is_not_written_again_by_the_next_tag_write(tagged: Journal) -> None:
    assert tagged.run("purge", *window(0, 2), "--apply").status == 0
    assert tagged.run("tag_write", *window(0, 3)).report["state"] == "nothing-to-do"
    assert numbers(tagged) == {3}


def test_purge_that_lost_its_lock_deletes_no_further_partition(
    tagged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may write these partitions by then."""
    row = next(row for row in tagged.rows("tag_views") if row["sequence_nr"] == 1)
    tagged.insert("tag_views", [{**row, "tag_name": f"tag-{n:03}"} for n in range(150)])
    delete = tag_views.delete_partitions

    def delete_and_lose(*arguments: Any) -> None:
        delete(*arguments)
        lost = LockLost("lost the lock")
        monkeypatch.setattr(Locks, "check", Mock(side_effect=lost))

    monkeypatch.setattr(tag_views, "delete_partitions", delete_and_lose)
    result = tagged.run("purge", *window(0, 1), "--apply")
    assert (result.status, len(tagged.rows("tag_views"))) == (1, 6 + 150 - 100)
    assert "purge: error: lost the lock" in result.stderr
    assert {row["state"] for row in tagged.own_rows("piece") if row["application"] == "purge"} == {
        "running"
    }


@pytest.mark.long
def test_purge_that_is_refused_the_lock_leaves_no_audit_row(tagged: Journal) -> None:
    """A purge that never began is not in the audit trail of deletions."""
    tagged.run("purge", *window(0, 1))
    before = tagged.own_rows("audit")
    own, resource = tagged.own_keyspace, tables.lock_of(tagged.settings())
    with Locks(tagged.control, own, [resource], owner="ops-1:7:r1", run_id="r1", ttl=60):
        refused = tagged.run("purge", *window(0, 2), "--apply")
    assert refused.status == 1
    assert "is held by ops-1:7:r1 since " in refused.error_lines[0]
    assert tagged.own_rows("audit") == before
    assert numbers(tagged) == {1, 2, 3}


@pytest.mark.long
def test_without_a_window_all_that_is_past_its_retention_goes(
    tagged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain runs purge so, because its newest window is never past the retention."""
    noon = datetime(2024, 3, 11, 1, 30, tzinfo=UTC)
    monkeypatch.setattr("tidemark.clock.now", lambda: noon)
    ten = {"RETENTION_DAYS": "10"}

    refused = tagged.run("purge", "--retention-days", "9", "--apply", **ten)
    assert refused.status == 2
    assert "9 days are less than the 10 of TIDEMARK_RETENTION_DAYS" in refused.error_lines[0]
    assert "--below-retention" in refused.error_lines[0]

    planned = tagged.run("purge", **ten)
    assert planned.report["window_start"] is None
    assert planned.report["pieces"]["planned"] == 1
    assert "2024-03-01 00:00  purge  2 tags: blue, red" in planned.stdout
    assert "dry run: nothing was changed; --apply does it" in planned.stdout
    assert tagged.run("purge", "--apply", **ten).report["counts"]["buckets_purged"] == 1
    assert numbers(tagged) == {2, 3}

    sooner = ("--retention-days", "9", "--below-retention", "--apply")
    assert tagged.run("purge", *sooner, **ten).report["counts"]["buckets_purged"] == 2
    assert numbers(tagged) == set()


def test_projection_whose_file_is_absent_holds_back_until_it_is_given_up(tagged: Journal) -> None:
    tagged.run("purge", *window(0, 1))  # makes the tables
    ledger = Pieces(
        tagged.control,
        tagged.own_keyspace,
        "project",
        f"{tagged.keyspace}/gone",
        tagged.settings().bucket_size,
    )
    first = 1_709_251_200_000
    ledger.finish(ledger.start(ledger.plan([first]), owner="o", run_id="r"), State.DONE, owner="o")

    held = tagged.run("purge", "--apply")
    assert held.report["counts"] == {
        "buckets_purged": 1,
        "partitions_deleted": 2,
        "buckets_kept": 2,
        "event_groups_deleted": 0,
        "iceberg_snapshots_deleted": 0,
        "iceberg_orphans_deleted": 0,
    }
    assert "gone holds back what it is not done with: it has run, but has no file" in held.stdout
    assert "`purge.py --give-up gone --apply`" in held.stdout
    assert numbers(tagged) == {2, 3}

    assert tagged.run("purge", "--give-up", "reds").status == 2
    assert tagged.run("purge", "--give-up", "gone").report["pieces"]["planned"] == 2
    assert tagged.run("purge", "--apply").report["state"] == "nothing-to-do"
    given_up = tagged.run("purge", "--give-up", "gone", "--apply")
    assert given_up.report["counts"]["buckets_purged"] == 2
    assert any(
        "gives up the projection gone" in row["plan"]
        for row in tagged.own_rows("audit")
        if row["operation"] == "purge started"
    )
    assert "gone" not in tagged.run("purge").stdout
