"""Schedules over a live journal: newest time buckets in reach, missed buckets, late rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.integration.project.projections import LATEST, LATEST_TABLE, Projections
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import START, message, window
from tidemark.window import iso


@contextmanager
def at(minutes: float) -> Iterator[None]:
    """Set the applications' present, in minutes since START."""
    with patch("tidemark.clock.now", lambda: START + timedelta(minutes=minutes)):
        yield


def minutes(first: int, end: int) -> tuple[str, ...]:
    """Return the options of a window, in minutes since START."""
    bounds = [iso(START + timedelta(minutes=minute)) for minute in (first, end)]
    return ("--window-start", bounds[0], "--window-end", bounds[1])


def done(result: Result) -> tuple[str, ...]:
    """Return the options of the run that the asset event of this run starts."""
    report = result.report
    return ("--window-start", report["done_start"], "--window-end", report["done_end"])


def states(journal: Journal, application: str, unit_ms: int = 60_000) -> dict[int, str]:
    """Return the state of an application's pieces by minutes (or other units) since START."""
    start_ms = int(START.timestamp()) * 1000
    return {
        (row["time_bucket"] - start_ms) // unit_ms: row["state"]
        for row in journal.own_rows("piece")
        if row["application"] == application
    }


def test_the_chain_goes_on_while_the_newest_buckets_are_in_reach(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    """Tidemark writes all tags, in Minute buckets; the last one of each window is in reach."""
    journal = make_journal(BUCKET_SIZE="Minute", DATA_DOCS_DIR=str(tmp_path / "docs"))
    projections = Projections(journal, tmp_path)
    projections.define(LATEST, LATEST_TABLE)
    events = [message("p", nr, (nr - 0.5) / 60, {"t"}, event=b"{}") for nr in range(1, 19)]
    journal.insert("messages", events[:10])

    with at(10.1):
        tagged = journal.run("tag_write", *minutes(0, 10))
        assert tagged.status == 0, tagged.stderr
        assert done(tagged) == minutes(0, 9)
        assert "1 time bucket from 2024-03-01T00:09:00Z on left for later" in tagged.stdout
        assert "a run from 2024-03-01T00:11:00Z on writes all of them" in tagged.stdout
        # The same interval by hand, or only its buckets in reach: they are noted without a failure.
        validated = journal.run("validate", *minutes(0, 10))
        assert validated.status == 0, validated.stderr
        assert done(validated) == minutes(0, 9)
        assert "left for later: tag-write has not done them yet" in validated.stdout
        for application in ("tag_write", "validate"):
            idle = journal.run(application, *minutes(9, 10))
            assert (idle.status, idle.report["state"]) == (0, "nothing-to-do"), idle.stderr
            assert "left for later" in idle.stdout
            assert "force" not in idle.stdout
        projected = journal.run(
            "project", *done(validated), PROJECTIONS_DIR=str(projections.directory)
        )
        assert projected.status == 0, projected.stderr
        assert done(projected) == minutes(0, 9)
        assert states(journal, "tag-write")[9] == states(journal, "validate")[9] == "planned"

    # The intervals from 10 to 12 and from 12 to 15 have no run at all.
    journal.insert("messages", events[10:])
    with at(18.1):
        tagged = journal.run("tag_write", *minutes(15, 17))
        assert tagged.status == 0, tagged.stderr
        assert "5 time buckets missed: no run had begun them" in tagged.stdout
        assert tagged.report["details"]["missed"] == 5
        assert done(tagged) == minutes(9, 17)
        validated = journal.run("validate", *done(tagged))
        assert validated.status == 0, validated.stderr
        assert done(validated) == minutes(9, 17)
        projected = journal.run(
            "project", *done(validated), PROJECTIONS_DIR=str(projections.directory)
        )
        assert done(projected) == minutes(9, 17)
    assert [row["sequence_nr"] for row in journal.rows("latest")] == [17]
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {nr: nr for nr in range(1, 18)}


@pytest.mark.long
def test_validate_makes_good_what_nobody_ran_and_waits_for_what_tag_write_missed(
    journal: Journal, tmp_path: Path
) -> None:
    docs = {"DATA_DOCS_DIR": str(tmp_path / "docs")}
    journal.insert("messages", [message("p", nr, nr - 0.5, {"t"}) for nr in range(1, 7)])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    assert journal.run("validate", *window(0, 1), **docs).status == 0
    # Tag-write is behind, and then ahead by force: hour 3 is left to its next run.
    assert journal.run("tag_write", *window(1, 2)).status == 0
    forced = journal.run("tag_write", *window(4, 5), "--force", CATCH_UP_BUCKETS="1")
    assert forced.report["pieces"]["done"] == 2, forced.stderr
    hours = states(journal, "tag-write", 3_600_000)
    assert hours == {0: "done", 1: "done", 2: "done", 3: "planned", 4: "done"}

    plan = journal.run("validate", *window(2, 5), "--dry-run", **docs)
    assert "2024-03-01 01:00  missed" in plan.stdout
    assert "2024-03-01 03:00" not in plan.stdout
    assert "1 time bucket from 2024-03-01T03:00:00Z on left for later" in plan.stdout

    assert journal.run("tag_write", *window(5, 6)).report["pieces"]["done"] == 2
    validated = journal.run("validate", *window(5, 6), **docs)
    assert validated.status == 0, validated.stderr
    assert set(states(journal, "validate", 3_600_000)) == set(range(6))


@pytest.mark.long
def test_held_ids_stay_red_until_they_are_mended(journal: Journal) -> None:
    """An event turns up before numbered events of its id, while there is nothing new to do."""
    first = [message("held", nr, 0.1 * nr, {"t"}) for nr in (1, 3, 4)]
    journal.insert("messages", first)
    assert journal.run("tag_write", *window(0, 1)).status == 0
    recovered = [message("held", 2, 0.2, {"t"}), message("other", 1, 1.1, {"t"})]
    journal.insert("messages", recovered)
    for _ in range(2):
        red = journal.run("tag_write", *window(1, 2))
        assert red.status == 3, red.stdout
        assert "held tag t" in red.error_lines[0]
        assert states(journal, "tag-write", 3_600_000) == {0: "held", 1: "done"}
    assert red.report["pieces"] == {"planned": 1, "done": 0, "held": 1, "failed": 0}

    assert journal.run("reconcile", "repair", "--apply").status == 0
    green = journal.run("tag_write", *window(2, 3))
    assert green.status == 0, green.stderr
    assert set(states(journal, "tag-write", 3_600_000).values()) == {"done"}
    numbers = {
        (row["persistence_id"], row["sequence_nr"]): row["tag_pid_sequence_nr"]
        for row in journal.rows("tag_views")
    }
    assert numbers == {("held", nr): nr for nr in (1, 2, 3, 4)} | {("other", 1): 1}


@pytest.mark.long
def test_held_ids_hold_the_done_buckets_of_their_unwritten_events(journal: Journal) -> None:
    journal.insert("messages", [message("held", nr, 2 + 0.1 * nr, {"t"}) for nr in (1, 3, 4)])
    assert journal.run("tag_write", *window(0, 3)).status == 0
    journal.insert("messages", [message("held", 2, 0.2, {"t"}), message("held", 5, 1.5, {"t"})])
    for _ in range(2):
        red = journal.run("tag_write", *window(3, 5))
        assert red.status == 3, red.stdout
        hours = states(journal, "tag-write", 3_600_000)
        assert hours == {0: "done", 1: "held", 2: "done", 3: "done", 4: "done"}
    assert journal.run("reconcile", "repair", "--apply").status == 0
    green = journal.run("tag_write", *window(3, 5))
    assert green.status == 0, green.stderr
    assert {row["sequence_nr"] for row in journal.rows("tag_views")} == {1, 2, 3, 4, 5}


def test_a_late_row_is_not_written_into_a_day_that_somebody_purges(journal: Journal) -> None:
    journal.insert("messages", [message("p", 1, 0.1, {"t"})])
    assert journal.run("tag_write", *window(0, 24)).status == 0
    journal.insert("messages", [message("p", 2, 0.2, {"t"}), message("q", 1, 24.5, {"t"})])
    journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.lock (resource, owner, taken_at) VALUES (?, ?, ?)",
        (f"tag_views/{journal.keyspace}/2024-03-01", "other-host:7:purge", START),
    )
    refused = journal.run("tag_write", *window(24, 25))
    assert refused.status == 1
    assert "2024-03-01 is held by other-host:7:purge" in refused.error_lines[0]
    assert len(journal.rows("tag_views")) == 1

    journal.control.execute(f"TRUNCATE {journal.own_keyspace}.lock")
    written = journal.run("tag_write", *window(24, 25))
    assert written.status == 0, written.stderr
    assert written.report["counts"]["late_tag_rows"] == 1
    assert len(journal.rows("tag_views")) == 3
    assert journal.own_rows("lock") == []
