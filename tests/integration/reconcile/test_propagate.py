"""The operation propagate-deletes of reconcile: deleted rows, kept rows, and failures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pekko_journals import delete_messages, tag_rows, write_as_pekko
from tests.integration.purge.test_purge import DEFINITION
from tests.integration.reconcile.test_delete import state, three_ids
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import START, message, window


@pytest.fixture
def written(journal: Journal) -> Journal:
    """Return twelve events of each of three ids; a|1 is deleted up to 7, a|2 up to its last, 12."""
    write_as_pekko(journal, three_ids())
    delete_messages(journal, "a|1", to=7)
    delete_messages(journal, "a|2", to=12)
    return journal


def propagate(journal: Journal, *arguments: str, apply: bool = True) -> Result:
    options = [*arguments, *(["--apply"] if apply else [])]
    return journal.run("reconcile", "propagate-deletes", *options)


def propagated(journal: Journal, *arguments: str) -> dict[str, int]:
    result = propagate(journal, *arguments)
    assert result.status == 0, result.stderr
    counts: dict[str, int] = result.report["counts"]
    return {name: count for name, count in counts.items() if count}


def without_deleted(before: dict[str, list[Any]], ends: dict[str, int]) -> dict[str, list[Any]]:
    """Return the tables without the tag-view rows up to the ends; nothing else may change."""
    left = [
        row
        for row in before["tag_views"]
        if row["sequence_nr"] > ends.get(row["persistence_id"], 0)
    ]
    return {**before, "tag_views": left}


def test_rows_of_deleted_events_go_and_everything_else_stays(written: Journal) -> None:
    before = state(written)
    assert propagated(written, "--all") == {"tag_rows_deleted": 7 + 12}
    assert state(written) == without_deleted(before, {"a|1": 7, "a|2": 12})
    again = propagate(written, "--all")
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")


@pytest.mark.long
def test_validate_and_check_take_the_new_front_for_whole(written: Journal) -> None:
    propagated(written, "--all")
    for arguments in (("validate", *window(0, 7)), ("reconcile", "check")):
        result = written.run(*arguments)
        assert result.status == 0, result.stderr


@pytest.mark.long
def test_named_ids_and_tags_only(written: Journal) -> None:
    before = state(written)
    assert propagated(written, "--persistence-id", "a|1", "--tag", "red") == {"tag_rows_deleted": 3}
    gone = [
        row
        for row in before["tag_views"]
        if (row["persistence_id"], row["tag_name"]) == ("a|1", "red") and row["sequence_nr"] <= 7
    ]
    after = state(written)
    assert after["tag_views"] == [row for row in before["tag_views"] if row not in gone]


@pytest.mark.long
def test_dry_run_is_the_default_and_counts_exactly(written: Journal) -> None:
    before = state(written)
    planned = propagate(written, "--all", apply=False)
    assert planned.report["state"] == "planned"
    assert state(written) == before
    [audited] = written.own_rows("audit")
    assert (audited["operation"], audited["dry_run"]) == ("propagate-deletes", True)
    assert propagate(written, "--all").report["counts"] == planned.report["counts"]


@pytest.mark.long
def test_what_is_deleted_logically_only_stays(journal: Journal) -> None:
    """The messages still exist, and the actor may still be deleting them."""
    write_as_pekko(journal, three_ids())
    journal.insert("metadata", [{"persistence_id": "a|1", "deleted_to": 7}])
    assert propagated(journal, "--all") == {}


def test_rows_that_live_readers_may_look_back_to_stay(journal: Journal) -> None:
    now = (datetime.now(UTC) - START) / timedelta(hours=1)
    events = [message("p", number, now - 6 + number, {"red"}) for number in (1, 2, 3, 5, 6)]
    write_as_pekko(journal, events)
    delete_messages(journal, "p", to=6)
    result = propagate(journal, "--all")
    assert result.report["counts"]["tag_rows_deleted"] == 3
    assert result.report["counts"]["kept_young"] == 2
    assert "where live readers look back" in result.stdout


def test_rows_that_a_projection_needs_stay(written: Journal, tmp_path: Path) -> None:
    (tmp_path / "reds.sql").write_text(DEFINITION.lstrip())
    result = written.run(
        "reconcile", "propagate-deletes", "--all", "--apply", PROJECTIONS_DIR=str(tmp_path)
    )
    assert result.status == 0, result.stderr
    assert result.report["counts"]["kept_needed"] == 3 + 6
    assert result.report["counts"]["tag_rows_deleted"] == 4 + 6
    left = {
        row["tag_name"]
        for row in written.rows("tag_views")
        if row["persistence_id"] == "a|1" and row["sequence_nr"] <= 7
    }
    assert left == {"red"}


@pytest.mark.long
def test_a_front_that_readers_without_offset_would_fail_on_is_named(journal: Journal) -> None:
    events = [message("p", number, number, {"red"}) for number in (5001, 5002, 5003)]
    journal.insert("messages", events)
    journal.insert(
        "tag_views",
        [{**row, "tag_pid_sequence_nr": row["sequence_nr"]} for row in tag_rows(events, 3_600_000)],
    )
    delete_messages(journal, "p", to=5001)
    result = propagate(journal, "--all")
    assert result.report["counts"]["kept_allow_unsearchable"] == 1
    assert "p, tag red: 1 rows; first number left: 5,002" in result.stdout
    assert "--allow-unsearchable" in result.stdout
    assert propagated(journal, "--all", "--allow-unsearchable") == {"tag_rows_deleted": 1}


def test_unknown_id_is_refused(written: Journal) -> None:
    before = state(written)
    result = propagate(written, "--persistence-id", "nobody")
    assert (result.status, len(result.error_lines)) == (2, 1)
    assert state(written) == before
