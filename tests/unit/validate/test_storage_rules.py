"""The rules of storage: times to live against look-backs, compaction, and what expires unread."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidemark.partitioning.keys import BucketSize
from tidemark.validate.layers.storage.rules import (
    EVENTS,
    HEADS,
    SNAPSHOTS,
    Found,
    Loss,
    StoredTable,
    of_table,
    of_unread,
)

HOUR, DAY = 3600, 86_400
HOUR_MS = BucketSize.HOUR.milliseconds
TIERED = {"class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"}


def by_windows(size: int, unit: str) -> Mapping[str, str]:
    return {
        "class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
        "compaction_window_size": str(size),
        "compaction_window_unit": unit,
    }


def table(
    *times: int,
    compaction: Mapping[str, str] = TIERED,
    loss: Loss | None = None,
    is_overwritten: bool = False,
    sampled: int = 0,
) -> StoredTable:
    """Return a table whose rows are needed for two hours."""
    given = {f"giver {place}": time for place, time in enumerate(times)}
    return StoredTable("tag_views", given, compaction, 2 * HOUR, loss, is_overwritten, sampled)


def told(found: Found) -> tuple[str, int, int | None]:
    return found.check_name, found.number, found.expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (table(), []),
        (table(loss=EVENTS), []),
        (table(2 * HOUR, compaction=by_windows(10, "MINUTES")), []),
        (
            table(2 * HOUR - 1, compaction=by_windows(10, "MINUTES")),
            [("ttl_below_look_back", 7199, 7200)],
        ),
        # Each of two is looked at by itself.
        (
            table(DAY, HOUR, compaction=by_windows(1, "HOURS")),
            [("ttl_below_look_back", 3600, 7200)],
        ),
        (table(30 * DAY), [("compaction_unfit", 0, None)]),
        (table(50 * DAY, compaction=by_windows(1, "DAYS")), []),
        (table(51 * DAY, compaction=by_windows(1, "DAYS")), [("compaction_unfit", 51, 50)]),
        (table(30 * DAY, compaction=by_windows(1, "HOURS")), [("compaction_unfit", 720, 50)]),
        (table(compaction=by_windows(1, "DAYS")), [("compaction_unfit", 0, None)]),
        (
            table(30 * DAY, compaction=by_windows(1, "DAYS"), loss=EVENTS),
            [("events_expire", 30 * DAY, 0)],
        ),
        (
            table(30 * DAY, loss=HEADS, is_overwritten=True),
            [("heads_expire", 30 * DAY, 0)],
        ),
        (
            table(30 * DAY, loss=SNAPSHOTS),
            [("snapshots_expire", 30 * DAY, 0), ("compaction_unfit", 0, None)],
        ),
        # Nothing expires: time windows fit neither what is overwritten.
        (
            table(compaction=by_windows(1, "DAYS"), is_overwritten=True),
            [("compaction_unfit", 0, None)],
        ),
        (table(sampled=77), [("rows_expire", 77, 0)]),
        (table(30 * DAY, compaction=by_windows(1, "DAYS"), sampled=77), []),
    ],
)
def test_options_of_a_table(
    stored: StoredTable, expected: list[tuple[str, int, int | None]]
) -> None:
    assert [told(found) for found in of_table(stored)] == expected


def test_what_expires_unread_is_named_with_its_time() -> None:
    now = 100 * HOUR_MS
    # Rows of hour 88 end at 98, of 90 at 100, of 91 at 101; of 92 at 102, when two hours are over.
    unread = {hour * HOUR_MS for hour in (88, 90, 91, 92, 99)}
    found = list(of_unread(table(10 * HOUR), "totals", unread, now))
    assert [(row.tag, row.number // HOUR_MS) for row in found] == [
        *(("totals", hour) for hour in (88, 90, 91))
    ]
    assert [row.detail for row in found] == [
        "time bucket 1970-01-04T16:00:00Z of tag_views has expired from 1970-01-05T02:00:00Z on,"
        " unread",
        "time bucket 1970-01-04T18:00:00Z of tag_views has expired from 1970-01-05T04:00:00Z on,"
        " unread",
        "time bucket 1970-01-04T19:00:00Z of tag_views expires from 1970-01-05T05:00:00Z on,"
        " unread",
    ]
    assert list(of_unread(table(), "totals", unread, now)) == []


def test_a_projection_far_behind_names_the_first_and_counts_the_rest() -> None:
    unread = [hour * HOUR_MS for hour in range(150)]
    found = list(of_unread(table(10 * HOUR), "totals", unread, 1000 * HOUR_MS))
    assert [row.number for row in found] == unread[:100]
    assert found[-1].detail.endswith("unread; 50 more")
    assert not any("more" in row.detail for row in found[:-1])
