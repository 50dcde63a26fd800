"""validate looks at how long tables keep their rows: what expires unread, and what blocks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.project.projections import START_MS, TOTALS, TOTALS_TABLE, Projections, event
from tests.integration.support import Result
from tests.integration.tag_write.test_tag_write import window
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET

HOUR_MS = 3_600_000


@pytest.mark.long
def test_time_to_live_against_those_who_have_yet_to_read(projections: Projections) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*(event("a", n, n - 0.9, "red", kind="in", amount=1) for n in (1, 2, 3)))
    assert journal.run("tag_write", *window(0, 3)).status == 0
    projections.validated(0)
    assert projections.run(0, 1).status == 0

    def live(seconds: int) -> None:
        journal.control.execute_ddl(
            f"ALTER TABLE {journal.keyspace}.tag_views WITH default_time_to_live = {seconds}"
        )

    def validate() -> Result:
        return journal.run(
            "validate", *window(0, 3), "--force", PROJECTIONS_DIR=str(projections.directory)
        )

    def findings() -> set[tuple[Any, ...]]:
        rows = journal.own_rows("finding")
        assert {row["layer"] for row in rows} <= {"storage"}
        assert {row["time_bucket"] for row in rows} <= {NO_TIME_BUCKET}
        names = ("check_name", "severity", "tag", "number", "expected")
        return {tuple(row[name] for name in names) for row in rows}

    whole = validate()
    assert whole.status == 0, whole.stderr
    assert findings() == set()
    assert whole.report["details"]["layers"] == ["storage"]

    live(864_000)
    warned = validate()
    assert warned.status == 0, warned.stderr
    unfit = ("compaction_unfit", "warns", "tag_views", 0, None)
    unread = {
        ("expires_unread", "warns", "totals", START_MS + hour * HOUR_MS, None) for hour in (1, 2)
    }
    assert findings() == {unfit, *unread}
    assert warned.report["counts"]["expires_unread"] == 2
    assert "has expired from" in warned.stdout

    live(3600)
    blocked = validate()
    assert blocked.status == 3, blocked.stderr
    [line] = blocked.error_lines
    assert "ttl_below_look_back: table tag_views: the table's default" in line
    assert "set a longer TTL, or a shorter look-back, or give it up" in line
    assert findings() == {
        unfit, *unread, ("ttl_below_look_back", "blocks", "tag_views", 3600, 7200)
    }  # fmt: skip
    assert blocked.report["pieces"]["failed"] == 3

    live(0)
    mended = validate()
    assert mended.status == 0, mended.stderr
    assert findings() == set()
