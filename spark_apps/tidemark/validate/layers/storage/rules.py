"""The rules of storage, on a table's options and on what projections have not read. No I/O."""

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
"""Windows of a time to live. Cassandra's manual advises some 20 to 30."""
_SECONDS = {"MINUTES": 60, "HOURS": 3600, "DAYS": 86_400}
_SHOWN = 100
"""Time buckets of one projection that are named one by one."""


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
    """What is lost when the rows of a table expire that nothing else can tell.

    Attributes:
        check: the check that finds it.
        rows: what the table's rows are.
        then: what follows, as a clause.
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
    """A table that events, heads of journals or snapshots are read from.

    Attributes:
        name: its name.
        times_to_live: seconds that rows live, by what gives it to them; without zeros.
        compaction: its options of compaction.
        look_back: seconds for which a row is needed after it was written, at least.
        loss: what expires for good; None of a table that is made of another.
        is_overwritten: whether rows are written again and again, which time windows do not fit.
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
        """The shortest time to live in seconds; 0 if nothing gives any."""
        return min(self.times_to_live.values(), default=0)


def of_table(table: StoredTable) -> Iterator[Found]:
    """Yield what a table's own options show."""
    for giver, seconds in table.times_to_live.items():
        if seconds < table.look_back:
            yield _found(
                checks.TTL_BELOW_LOOK_BACK,
                table.name,
                seconds,
                table.look_back,
                f"{giver} has rows live {_time(seconds)}, and they are looked for"
                f" {_time(table.look_back)} later",
            )
    if table.loss and table.times_to_live:
        detail = f"{table.loss.rows} live {_time(table.shortest)}, then {table.loss.then}"
        yield _found(table.loss.check, table.name, table.shortest, 0, detail)
    if table.sampled and not table.times_to_live:
        detail = f"a sampled row expires in {_time(table.sampled)}, and nothing gives it that"
        yield _found(checks.ROWS_EXPIRE, table.name, table.sampled, 0, detail)
    yield from _of_compaction(table)


def of_unread(
    table: StoredTable, projection: str, unread: Collection[int], now: int
) -> Iterator[Found]:
    """Yield the time buckets (epoch ms) that expire before a projection has surely read them.

    Rows live from their write, which may be as early as the begin of their time bucket.

    Args:
        table: the table that the projection reads.
        projection: its name.
        unread: what it has not processed.
        now: epoch ms.
    """
    if not table.shortest:
        return
    ends = {bucket: bucket + table.shortest * 1000 for bucket in unread}
    late = sorted(bucket for bucket, end in ends.items() if end < now + table.look_back * 1000)
    for bucket in late[:_SHOWN]:
        is_last_shown = late[_SHOWN:] and bucket == late[_SHOWN - 1]
        more = f"; {len(late) - _SHOWN:,} more" if is_last_shown else ""
        has = "has expired from" if ends[bucket] <= now else "expires from"
        yield _found(
            checks.EXPIRES_UNREAD,
            projection,
            bucket,
            None,
            f"time bucket {iso(from_millis(bucket))} of {table.name} {has}"
            f" {iso(from_millis(ends[bucket]))} on, unread{more}",
        )


def _of_compaction(table: StoredTable) -> Iterator[Found]:
    by_window = table.compaction.get("class", "").endswith(TIME_WINDOWS)
    if not table.shortest:
        if by_window:
            detail = "compacted by time windows, though nothing expires: files pile up"
            yield _found(checks.COMPACTION_UNFIT, table.name, 0, None, detail)
        return
    if not by_window:
        if table.is_overwritten:
            return
        detail = f"rows live {_time(table.shortest)}, but are not compacted by {TIME_WINDOWS}"
        yield _found(checks.COMPACTION_UNFIT, table.name, 0, None, detail)
        return
    unit = table.compaction.get("compaction_window_unit", "DAYS")
    window = int(table.compaction.get("compaction_window_size", "1")) * _SECONDS[unit]
    windows = -(-max(table.times_to_live.values()) // window)
    if windows > MOST_WINDOWS:
        detail = f"{windows:,} windows of {_time(window)}, at most {MOST_WINDOWS} are advised"
        yield _found(checks.COMPACTION_UNFIT, table.name, windows, MOST_WINDOWS, detail)


def _found(check: Check, subject: str, number: int, expected: int | None, detail: str) -> Found:
    return Found(NO_TIME_BUCKET, check.name, "", subject, number, expected, detail)


def _time(seconds: int) -> str:
    return str(timedelta(seconds=seconds))
