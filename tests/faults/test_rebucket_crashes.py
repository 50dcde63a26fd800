"""The operation rebucket of reconcile, killed after each kind of write, then run again.

Both tables must be byte-equal to those of an undisturbed journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.fencing import CHECK, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.pekko_journals import DAY_MS, write_as_pekko
from tests.integration.reconcile.test_delete import three_ids
from tests.integration.reconcile.test_rebucket import NEW, an_event, in_size, rebucket
from tests.integration.support import Journal


@pytest.fixture
def written(make_journal: Callable[..., Journal]) -> Journal:
    journal = make_journal()
    write_as_pekko(journal, three_ids())
    return journal


def kill(journal: Journal, boundary: Seam, *arguments: str, **variables: str) -> None:
    kill_after(journal, boundary, "reconcile", "rebucket", *arguments, "--apply", **variables)


def change(journal: Journal) -> None:
    """Add a row, give another row another event, and delete a third row."""
    changed, gone, *_ = journal.rows("tag_views")
    journal.insert("tag_views", [an_event(journal, 13, 1.5), {**changed, "event": b"updated"}])
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?"
        " AND timestamp = ?",
        (gone["tag_name"], gone["timebucket"], gone["timestamp"]),
    )


def records(journal: Journal) -> dict[str, set[tuple[Any, ...]]]:
    """Return Tidemark's records of the tables, without times."""
    return {
        "tag_view_table": {
            (row["tag_views_table"], row["bucket_size"])
            for row in journal.own_rows("tag_view_table")
        },
        "rebucket": {(row["target"], row["source"]) for row in journal.own_rows("rebucket")},
    }


@pytest.mark.parametrize(
    "boundary",
    [
        pytest.param(Seam.NEW_TABLE_CREATED, marks=pytest.mark.soak),
        Seam.ROWS_COPIED,
        pytest.param(Seam.VERIFICATION_WRITTEN, marks=pytest.mark.soak),
    ],
)
def test_killed_while_it_copies(written: Journal, boundary: Seam) -> None:
    before = written.tag_tables()
    kill(written, boundary, "--to", "Day")
    assert rebucket(written, "--to", "Day").status == 0
    assert written.tag_tables() == before
    assert written.rows("tag_views_day") == in_size(before["tag_views"], DAY_MS)
    assert [row["verified_to"] is None for row in written.own_rows("rebucket")] == [False]


@pytest.mark.parametrize(
    "boundary",
    [
        pytest.param(Seam.COPIED_ROWS_DELETED, marks=pytest.mark.soak),
        pytest.param(Seam.ROWS_COPIED, marks=pytest.mark.soak),
        Seam.VERIFICATION_WRITTEN,
    ],
)
def test_killed_while_it_catches_up(written: Journal, boundary: Seam) -> None:
    assert rebucket(written, "--to", "Day").status == 0
    change(written)
    kill(written, boundary, "--to", "Day", "--recheck")
    assert rebucket(written, "--to", "Day", "--recheck").status == 0
    assert written.rows("tag_views_day") == in_size(written.rows("tag_views"), DAY_MS)


@pytest.mark.parametrize(
    "boundary",
    [
        pytest.param(Seam.OLD_TABLE_DROPPED, marks=pytest.mark.soak),
        pytest.param(Seam.REBUCKETING_FORGOTTEN, marks=pytest.mark.soak),
    ],
)
def test_killed_while_it_drops_the_old_table(written: Journal, boundary: Seam) -> None:
    expected = in_size(written.rows("tag_views"), DAY_MS)
    assert rebucket(written, "--to", "Day").status == 0
    kill(written, boundary, "--drop-old", "tag_views", **NEW)
    again = rebucket(written, "--drop-old", "tag_views", **NEW)
    assert again.status == (2 if boundary == Seam.REBUCKETING_FORGOTTEN else 0), again.stderr
    assert written.control.table_columns(written.keyspace, "tag_views") is None
    assert written.rows("tag_views_day") == expected
    assert records(written) == {"tag_view_table": {("tag_views_day", "Day")}, "rebucket": set()}


def test_before_each_write_it_asks_whether_it_still_holds_its_locks(
    written: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = {
        Seam.NEW_TABLE_CREATED,
        Seam.ROWS_COPIED,
        Seam.COPIED_ROWS_DELETED,
        Seam.VERIFICATION_WRITTEN,
        Seam.OLD_TABLE_DROPPED,
        Seam.REBUCKETING_FORGOTTEN,
    }
    trace = traced(monkeypatch, writes)
    assert rebucket(written, "--to", "Day").status == 0
    change(written)
    assert rebucket(written, "--to", "Day", "--recheck").status == 0
    assert rebucket(written, "--drop-old", "tag_views", **NEW).status == 0
    assert set(trace) == {CHECK, *writes}
    assert is_checked_before_each(trace), trace
