"""Mode rollup over a read model of mode bucket, with real servers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.project.projections import (
    SOME_EVENTS,
    START,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
    totals,
)
from tests.integration.support import Result
from tidemark.cassandra.control import Row
from tidemark.project.definition import catalog
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.writing import write

ROLLUP = """\
/*---
name: kinds
version: 1
source: {read-model: totals}
mode: rollup
target: {keyspace}.kinds
checks: [{not-null: kind}]
---*/

SELECT kind, sum(n) AS n, sum(total) AS total, min(time_bucket) AS since FROM totals GROUP BY kind
"""
ROLLUP_TABLE = """\
CREATE TABLE {keyspace}.kinds (kind text PRIMARY KEY, n bigint, total bigint, since bigint)"""


def expected(projections: Projections) -> list[Row]:
    """Apply the SELECT to the whole read model."""
    rows = projections.journal.rows("totals")
    return [
        {
            "kind": kind,
            "n": sum(row["n"] for row in rows if row["kind"] == kind),
            "total": sum(row["total"] for row in rows if row["kind"] == kind),
            "since": min(row["time_bucket"] for row in rows if row["kind"] == kind),
        }
        for kind in sorted({row["kind"] for row in rows})
    ]


def stored(projections: Projections) -> list[Row]:
    """Return the rows of the rollup without those that are being deleted."""
    rows = [row for row in projections.journal.rows("kinds") if row["n"] is not None]
    return sorted(rows, key=lambda row: row["kind"])


def write_times(projections: Projections) -> dict[str, int]:
    journal = projections.journal
    rows = journal.control.execute(
        f'SELECT kind, n, WRITETIME(n) AS at FROM "{journal.keyspace}".kinds'
    )
    return {row["kind"]: row["at"] for row in rows if row["n"] is not None}


def done(result: Result) -> Result:
    assert result.status == 0, result.stderr
    return result


def test_a_rollup_follows_replaced_late_and_emptied_time_buckets(projections: Projections) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(ROLLUP, file="kinds.sql")
    projections.insert(*SOME_EVENTS, event("z|1", 1, 0.2, "red", kind="only here", amount=4))
    projections.validated(0, 1)

    # Nothing is made, nothing is there to read.
    planned = projections.run(0, 2, "--dry-run")
    assert "kinds: totals has processed nothing yet; totals is planned" in planned.stdout
    assert (
        "kinds version 1: totals has processed nothing yet" in projections.manage("status").stdout
    )
    # The first run lacks the target, and the source is processed nevertheless.
    without = projections.run(0, 1)
    assert without.status == 3
    assert "kinds does not exist (" in without.stderr
    shown = projections.run(0, 1, "--projection", "kinds", "--dry-run", "--show")
    assert "    PRIMARY KEY ((kind))" in done(shown).stdout
    projections.journal.control.execute_ddl(
        ROLLUP_TABLE.format(keyspace=projections.journal.keyspace)
    )

    first = done(projections.run(0, 2))
    assert stored(projections) == expected(projections)
    assert "only here" in write_times(projections)
    assert f"{projections.journal.keyspace}.kinds" in first.report["details"]["tables"]["written"]
    assert "kinds" in first.report["details"]["projections"]

    # Without a change nothing is written.
    before = write_times(projections), projections.journal.own_rows("projection_management")
    assert "up to date" in done(projections.run(0, 2)).stdout
    after = write_times(projections), projections.journal.own_rows("projection_management")
    assert after == before

    # A late event replaces a time bucket: only the group that differs is written.
    projections.insert(event("late|1", 1, 0.3, "red", kind="only here", amount=5))
    made = done(projections.run(0, 2, "--force", "--projection", "totals"))
    assert "1 row written, 0 deleted" in made.stdout
    assert stored(projections) == expected(projections)
    changed = write_times(projections)
    assert {kind for kind in changed if changed[kind] != before[0][kind]} == {"only here"}

    # A corrected definition of the source empties a group: its row is deleted, after a run that
    # is killed when it has written rows and deleted none.
    corrected = TOTALS.replace("version: 1", "version: 2").replace(
        "FROM events", "FROM events WHERE kind <> 'only here'"
    )
    corrected = corrected.replace("sum(amount)", "2 * sum(amount)")
    projections.define(corrected)
    window = [START.replace(hour=hour).isoformat() for hour in (0, 2)]
    kill_after(
        projections.journal,
        Seam.NEWEST_WRITTEN,
        "project",
        *("--window-start", window[0], "--window-end", window[1]),
        PROJECTIONS_DIR=str(projections.directory),
    )
    assert "only here" in write_times(projections)
    assert "its source has changed" in projections.manage("status", "kinds").stdout
    again = done(projections.run(0, 2))
    assert "0 rows written, 1 deleted" in again.stdout
    assert stored(projections) == expected(projections)
    assert [row["kind"] for row in stored(projections)] == sorted(
        {row["kind"] for row in totals(SOME_EVENTS)}
    )


def _require_that_what_is_replaced_meanwhile_is_read_again(projections: Projections) -> None:
    """Let the source complete a time bucket while a run writes the rollup."""
    journal = projections.journal
    [source] = catalog.load(projections.directory)
    store = OffsetStore(journal.control, journal.settings(), source)
    write_rows = write.write

    def write_beside_the_source(*arguments: Any) -> Any:
        written = write_rows(*arguments)
        journal.control.execute(
            f'UPDATE "{journal.keyspace}".totals SET n = 100 WHERE time_bucket = ? AND kind = ?',
            (START_MS, stored(projections)[0]["kind"]),
        )
        management_state.next_write_time(store)
        return written

    projections.define(ROLLUP, file="kinds.sql")
    with patch.object(write, "write", write_beside_the_source):
        done(projections.run(0, 2))
    assert stored(projections) != expected(projections)
    done(projections.run(0, 2))
    assert stored(projections) == expected(projections)


@pytest.mark.long
def test_a_rollup_is_cleared_paused_and_made_again_by_hand(projections: Projections) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(ROLLUP, ROLLUP_TABLE, file="kinds.sql")
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    done(projections.manage("pause", "kinds"))
    assert "kinds: left out, paused" in done(projections.run(0, 2)).stdout
    assert stored(projections) == []
    done(projections.manage("resume", "kinds"))
    done(projections.run(0, 2, "--projection", "kinds"))
    assert stored(projections) == expected(projections)
    keyspace = projections.journal.keyspace
    projections.journal.control.execute(f'DELETE FROM "{keyspace}".kinds WHERE kind = ?', ("in",))
    assert "up to date" in done(projections.run(0, 2)).stdout
    assert done(projections.manage("clear", "kinds", "--apply")).report["state"] == "done"
    assert "never made" in done(projections.manage("status", "kinds")).stdout
    done(projections.run(0, 2))
    assert stored(projections) == expected(projections)
    # A changed definition makes it again.
    projections.define(ROLLUP.replace("sum(total)", "-sum(total)"), file="kinds.sql")
    assert "changed definition" in done(projections.run(0, 2, "--dry-run")).stdout
    done(projections.run(0, 2))
    assert [-row["total"] for row in stored(projections)] == [
        row["total"] for row in expected(projections)
    ]
    _require_that_what_is_replaced_meanwhile_is_read_again(projections)
    for command in (["get-offset", "kinds"], ["diff", "kinds@1", "kinds@2"], ["releases", "kinds"]):
        refused = projections.manage(*command)
        assert refused.status == 2
        assert "kinds has mode rollup" in refused.stderr
    refused = projections.run(0, 2, "--projection", "kinds", "--slices", "0-511")
    assert refused.status == 2
    assert "has mode rollup, whose rows are made of several slices" in refused.stderr
    projections.journal.control.execute_ddl(
        f'ALTER TABLE "{keyspace}".totals WITH default_time_to_live = 600'
    )
    expiring = projections.manage("status", "kinds")
    assert expiring.status == 2
    assert f"rows of {keyspace}.totals expire" in expiring.stderr
