"""chain: tag_write, validate and project as one run, beside the three applications."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.flights import CHAIN, WINDOW, FlightsJournal
from tests.integration.support import Journal

FLIGHTS = 1_200
SECOND_DAY = "1357084800000"
STEPS = ("tag-write", "validate", "project")


@pytest.fixture
def two(make_journal: Callable[..., Journal], tmp_path: Path) -> list[FlightsJournal]:
    """Return two journals of the same flights."""
    return [
        FlightsJournal.create(make_journal, tmp_path / name, FLIGHTS)
        for name in ("chain", "applications")
    ]


def test_chain_leaves_what_the_three_applications_leave(two: list[FlightsJournal]) -> None:
    chained, others = two
    others.run_chain(*CHAIN)
    plan = chained.journal.run("chain", *WINDOW, "--dry-run")
    assert plan.report["state"] == "planned"
    assert chained.journal.own_rows("piece") == []
    result = chained.journal.run("chain", *WINDOW, "--run-id", "order")
    assert result.status == 0, result.stderr
    assert stored(chained) == stored(others)

    steps = result.report["details"]["steps"]
    assert tuple(steps) == STEPS
    assert result.report["pieces"]["done"] == sum(step["pieces"]["done"] for step in steps.values())
    runs = {row["run_id"]: row["application"] for row in chained.journal.own_rows("run")}
    assert {f"order/{name}": name for name in STEPS}.items() <= runs.items()
    assert runs["order"] == "chain"

    again = chained.journal.run("chain", *WINDOW)
    assert again.report["state"] == "nothing-to-do"
    assert chained.journal.run("chain", *WINDOW, "--force").report["state"] == "done"
    assert stored(chained) == stored(others)


def test_time_buckets_that_do_not_pass_stop_there_and_others_are_projected(
    two: list[FlightsJournal],
) -> None:
    """An event of the second day is lost after it was tagged."""
    for flights in two:
        journal = flights.journal
        assert journal.run("tag_write", *WINDOW).status == 0
        victim = lost_event(journal)
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages"
            " WHERE persistence_id = ? AND partition_nr = ? AND sequence_nr = ?",
            [victim["persistence_id"], victim["partition_nr"], victim["sequence_nr"]],
        )
    chained, others = two
    assert others.journal.run("validate", *WINDOW).status == 3
    others.journal.run("project", *WINDOW)
    result = chained.journal.run("chain", *WINDOW)
    assert result.status == 3
    assert len(result.error_lines) == 1
    steps = result.report["details"]["steps"]
    assert [step["state"] for step in steps.values()] == ["nothing-to-do", "failed", "done"]
    assert stored(chained) == stored(others)
    forced = chained.journal.run("chain", *WINDOW, "--force")
    assert forced.status == 3
    for name in ("tag_write", "validate"):
        others.journal.run(name, *WINDOW, "--force")
    others.journal.run("project", *WINDOW)
    assert stored(chained) == stored(others)


def test_nothing_follows_a_step_that_has_completed_nothing(two: list[FlightsJournal]) -> None:
    journal = two[0].journal
    refused = journal.run("chain", *WINDOW, TARGET_PARTITION_SIZE="7")
    assert refused.status != 0
    assert len(refused.error_lines) == 1
    assert journal.own_rows("piece") == []
    assert {row["application"] for row in journal.own_rows("run")} == {"chain", "tag-write"}


def stored(flights: FlightsJournal) -> set[tuple[str, str]]:
    """Return all that is stored, without the names of keyspaces and of pages of Data Docs."""
    keyspaces = (flights.journal.keyspace, flights.journal.own_keyspace)
    names = re.compile("|".join([*keyspaces, r"\S+\.html"]))
    return {
        (table, names.sub("", str(row)))
        for table, rows in flights.everything().items()
        for row in rows
    }


def lost_event(journal: Journal) -> dict[str, object]:
    """Return an event of the second day that another one of its persistence id follows."""
    messages = journal.rows("messages")
    keys = {(row["persistence_id"], row["sequence_nr"]) for row in messages}
    return min(
        (
            row
            for row in messages
            if row["timebucket"] == SECOND_DAY
            and (row["persistence_id"], row["sequence_nr"] + 1) in keys
        ),
        key=lambda row: (row["persistence_id"], row["sequence_nr"]),
    )
