"""What real runs leave behind, as the room `status` reads it."""

from __future__ import annotations

import pytest

from tests.integration.support import Journal
from tests.integration.validate.test_validate import MESSAGES, bucket, days, delete, validate
from tidemark.context import RunContext
from tidemark.ledger.applications import TAG_WRITE, VALIDATE
from tidemark.status import findings, runs, time_buckets
from tidemark.window import from_millis

pytestmark = pytest.mark.usefixtures("production")

__all__ = ["days"]


def test_findings_runs_and_time_buckets_of_real_runs(days: Journal) -> None:
    assert validate(days).status == 0
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=3)
    assert days.run("validate", "--persistence-id", "two", "--run-id", "by-hand").status == 3
    reader = RunContext("status", days.settings(), days.control, "status")

    [found] = findings.open_findings(reader, limit=10).items
    by_hand, of_window = runs.runs_page(reader, limit=10).items

    assert (found.check, found.persistence_id, found.number) == ("sequence_nr_gap", "two", 4)
    assert (found.blocks, found.expected, found.layer) == (True, 3, "messages")
    assert found.time_bucket == from_millis(bucket(1))
    assert (by_hand.run_id, by_hand.state) == ("by-hand", "failed")
    assert "sequence_nr_gap" in by_hand.error
    assert (of_window.state, of_window.application) == ("done", VALIDATE)
    assert (of_window.pieces_done, of_window.pieces_started) == (3, 3)
    assert of_window.rows.number == 12
    assert of_window.ended_at is not None
    assert of_window.ended_at >= of_window.started_at

    settle = ("--check", "sequence_nr_gap", "--persistence-id", "two", "--number", "4")
    reason = ("--reason", "lost with its disk", "--apply")
    assert days.run("reconcile", "settle", *settle, *reason).status == 0

    assert findings.open_findings(reader, limit=10).items == []
    [settled] = findings.settled_findings(reader, limit=10).items
    assert (settled.persistence_id, settled.reason) == ("two", "lost with its disk")
    assert runs.runs_page(reader, limit=1).items[0].application == "reconcile"
    ledgers = time_buckets.ledgers(reader, limit=10).items
    assert {one.application: one.states for one in ledgers}[VALIDATE] == {"done": 3}
    assert TAG_WRITE not in {one.application for one in ledgers}
