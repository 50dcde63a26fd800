"""The rules of storage, on a table's options and on unread time buckets of projections. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from tidemark.validate.findings.check import Check
from tidemark.validate.layers.storage import checks
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.window import from_millis, iso

TIME_WINDOWS = "TimeWindowCompactionStrategy"
MOST_WINDOWS = 50
"""The largest number of windows in a time to live. Cassandra's manual advises about 20 to 30."""
_SECONDS = {"MINUTES": 60, "HOURS": 3600, "DAYS": 86_400}
_SHOWN = 100
"""The largest number of findings (time buckets) of a projection."""


class Found(NamedTuple):
    """A finding, in the order of `finding.SCHEMA`."""

    time_bucket: int
    check_name: str
    persistence_id: str
    tag: str
    number: int
    expected: int | None
    detail: str


@dataclass(frozen=True)
class Loss:
    """The loss when rows of a table expire that exist in no other table.

    Attributes:
        check: the check of this loss.
        rows: the kind of the rows.
        then: the consequence, as a clause.
    """

    check: Check
    rows: str
    then: str


EVENTS = Loss(checks.EVENTS_EXPIRE, "events", "each persistence id lacks its first")
HEADS = Loss(checks.HEADS_EXPIRE, "heads", "no reader finds the events of their journals")
SNAPSHOTS = Loss(
    checks.SNAPSHOTS_EXPIRE,
    "snapshots",
    "a persistence id whose events are deleted up to one cannot recover",
)


@dataclass(frozen=True)
class StoredTable:
    """A table of events, heads of journals or snapshots.

    Attributes:
        name: its name.
        times_to_live: seconds that rows live, by table default or setting; without zeros.
        compaction: its compaction options.
        look_back: seconds for which a row is needed at least after it was written.
        loss: the permanent loss; None if the table is derived from another table.
        is_overwritten: whether rows are written repeatedly, which time windows do not fit.
        sampled: the longest remaining time to live among some rows, in seconds; 0 if none expires.
    """

    name: str
    times_to_live: Mapping[str, int]
    compaction: Mapping[str, str]
    look_back: int
    loss: Loss | None = None
    is_overwritten: bool = False
    sampled: int = 0

    @property
    def shortest(self) -> int:
        """The shortest time to live in seconds; 0 if there is none."""
        return min(self.times_to_live.values(), default=0)


def of_table(table: StoredTable) -> Iterator[Found]:
    """Yield the findings in a table's options."""
    for giver, seconds in table.times_to_live.items():
        if seconds < table.look_back:
            yield _finding(
                checks.TTL_BELOW_LOOK_BACK,
                table.name,
                seconds,
                table.look_back,
                f"{giver} has rows live {_time(seconds)}, and they are looked for"
                f" {_time(table.look_back)} later",
            )
    if table.loss and table.times_to_live:
        detail = f"{table.loss.rows} live {_time(table.shortest)}, then {table.loss.then}"
        yield _finding(table.loss.check, table.name, table.shortest, 0, detail)
    if table.sampled and not table.times_to_live:
        detail = f"a sampled row expires in {_time(table.sampled)}, and nothing gives it that"
        yield _finding(checks.ROWS_EXPIRE, table.name, table.sampled, 0, detail)
    yield from _of_compaction(table)


def of_unread(
    table: StoredTable, projection: str, unread: Collection[int], now: int
) -> Iterator[Found]:
    """Yield the `unread` time buckets (epoch ms) that may expire before a projection reads them.

    Rows live from their write, which may be as early as the beginning of their time bucket. `now`:
    epoch ms.
    """
    if not table.shortest:
        return
    ends = {bucket: bucket + table.shortest * 1000 for bucket in unread}
    late = sorted(bucket for bucket, end in ends.items() if end < now + table.look_back * 1000)
    for bucket in late[:_SHOWN]:
        is_last_shown = late[_SHOWN:] and bucket == late[_SHOWN - 1]
        more = f"; {len(late) - _SHOWN:,} more" if is_last_shown else ""
        verb = "has expired from" if ends[bucket] <= now else "expires from"
        yield _finding(
            checks.EXPIRES_UNREAD,
            projection,
            bucket,
            None,
            f"time bucket {iso(from_millis(bucket))} of {table.name} {verb}"
            f" {iso(from_millis(ends[bucket]))} on, unread{more}",
        )


def _of_compaction(table: StoredTable) -> Iterator[Found]:
    by_window = table.compaction.get("class", "").endswith(TIME_WINDOWS)
    if not table.shortest:
        if by_window:
            detail = "compacted by time windows, though nothing expires: files pile up"
            yield _finding(checks.COMPACTION_UNFIT, table.name, 0, None, detail)
        return
    if not by_window:
        if table.is_overwritten:
            return
        detail = f"rows live {_time(table.shortest)}, but are not compacted by {TIME_WINDOWS}"
        yield _finding(checks.COMPACTION_UNFIT, table.name, 0, None, detail)
        return
    unit = table.compaction.get("compaction_window_unit", "DAYS")
    window = int(table.compaction.get("compaction_window_size", "1")) * _SECONDS[unit]
    windows = -(-max(table.times_to_live.values()) // window)
    if windows > MOST_WINDOWS:
        detail = f"{windows:,} windows of {_time(window)}, at most {MOST_WINDOWS} are advised"
        yield _finding(checks.COMPACTION_UNFIT, table.name, windows, MOST_WINDOWS, detail)


def _finding(check: Check, subject: str, number: int, expected: int | None, detail: str) -> Found:
    return Found(NO_TIME_BUCKET, check.name, "", subject, number, expected, detail)


def _time(seconds: int) -> str:
    return str(timedelta(seconds=seconds))
