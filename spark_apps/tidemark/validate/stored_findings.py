"""Pages of the stored findings, open and settled; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.settings import Settings
from tidemark.validate.findings.check import Severity
from tidemark.window import to_millis

FINDING = "finding"
SETTLED = "settled_finding"
NOTHING_EXPECTED = 0
"""Replaces null in the key of SETTLED; no finding expects the number 0."""
_KEY = ("check_name", "persistence_id", "tag", "number")
_IN_KEY = ("check_name", "persistence_id", "tag", "number", "expected")
_REQUESTS = 10
"""The most pages of the table that an answer reads: rows may be settled or of other journals."""
_FILTERED = 1000
"""The rows of a page of the table if findings are filtered: few of them may be wanted."""


def key_of(row: Row) -> tuple[Any, ...]:
    """Return the key of a finding in SETTLED."""
    return (*(row[name] for name in _KEY), row["expected"] or NOTHING_EXPECTED)


@dataclass(frozen=True)
class WantedFindings:
    """The findings of an answer; without a value, all.

    Attributes:
        check: only those of this check.
        severity: only those with this severity; settled findings have none.
        before: only those that were first found, or settled, before this time.
        time_bucket: only those of this time bucket.
    """

    check: str = ""
    severity: Severity | None = None
    before: datetime | None = None
    time_bucket: datetime | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered."""
        return self == WantedFindings()

    def has(self, row: Row, since: str) -> bool:
        """Return whether a row is wanted; its column `since` says when it was found or settled."""
        is_blocks = self.severity is Severity.BLOCKS
        return (
            self.check in ("", row["check_name"])
            and (self.severity is None or is_blocking(row) is is_blocks)
            and (self.before is None or row[since].replace(tzinfo=UTC) < self.before)
            and (self.time_bucket is None or row["time_bucket"] == to_millis(self.time_bucket))
        )


ALL = WantedFindings()


class Position(NamedTuple):
    """A position in a table: the paging state of a page, and a number of its rows to skip."""

    state: bytes | None = None
    skip: int = 0


BEGIN = Position()


class FindingPage(NamedTuple):
    """Findings, and the position of the next page; None if there is none.

    A page may have fewer findings than its limit, although there are more.
    """

    rows: Sequence[Row]
    next: Position | None


def open_page(
    control: Control,
    settings: Settings,
    wanted: WantedFindings = ALL,
    *,
    limit: int,
    begin: Position = BEGIN,
) -> FindingPage:
    """Return the open findings of the journal, in the order of the table.

    Columns: time_bucket, check_name, persistence_id, tag, number, expected, detail, layer,
    severity, first_seen, last_seen (both aware), run_id.
    """

    def read(size: int, state: bytes | None) -> tuple[list[Row], bytes | None]:
        return control.page(
            "SELECT journal_keyspace, time_bucket, check_name, persistence_id, tag, number,"
            " expected, detail, layer, severity, first_seen, last_seen, run_id"
            f" FROM {table(settings.keyspace, FINDING)}",
            limit=size,
            state=state,
        )

    def is_candidate(row: Row) -> bool:
        is_own = row["journal_keyspace"] == settings.journal_keyspace
        return is_own and wanted.has(row, "first_seen")

    found = _page(
        read,
        is_candidate,
        lambda rows: _unsettled(control, settings, rows),
        limit=limit,
        is_filtered=not wanted.is_all,
        begin=begin,
    )
    return FindingPage([_aware(row, "first_seen", "last_seen") for row in found.rows], found.next)


def settled_page(
    control: Control,
    settings: Settings,
    wanted: WantedFindings = ALL,
    *,
    limit: int,
    begin: Position = BEGIN,
) -> FindingPage:
    """Return the settled findings of the journal, by check, persistence id and tag.

    Columns: check_name, persistence_id, tag, number, expected, time_bucket, detail, reason, owner,
    settled_at (aware). Their severity is not stored, so that it cannot be wanted.
    """

    def read(size: int, state: bytes | None) -> tuple[list[Row], bytes | None]:
        return control.page(
            "SELECT check_name, persistence_id, tag, number, expected, time_bucket, detail, reason,"
            f" owner, settled_at FROM {table(settings.keyspace, SETTLED)}"
            " WHERE journal_keyspace = ?",
            (settings.journal_keyspace,),
            limit=size,
            state=state,
        )

    found = _page(
        read,
        lambda row: wanted.has(row, "settled_at"),
        lambda rows: [True] * len(rows),
        limit=limit,
        is_filtered=not wanted.is_all,
        begin=begin,
    )
    return FindingPage([_aware(row, "settled_at") for row in found.rows], found.next)


def _page(
    read: Callable[[int, bytes | None], tuple[list[Row], bytes | None]],
    is_candidate: Callable[[Row], bool],
    are_wanted: Callable[[Sequence[Row]], Sequence[bool]],
    *,
    limit: int,
    is_filtered: bool,
    begin: Position,
) -> FindingPage:
    """Read pages of a table until `limit` rows are wanted, at most ten.

    `are_wanted` needs requests, and gets candidates only. A page of the table that has more wanted
    rows than the answer takes is read again by the next answer, which skips those it has.
    """
    found: list[Row] = []
    position = begin
    for _ in range(_REQUESTS):
        size = _FILTERED if is_filtered else limit - len(found)
        rows, after = read(size, position.state)
        candidates = [
            (place, row)
            for place, row in enumerate(rows)
            if place >= position.skip and is_candidate(row)
        ]
        for start in range(0, len(candidates), limit):
            some = candidates[start : start + limit]
            wanted = are_wanted([row for _, row in some])
            for (place, row), is_wanted in zip(some, wanted, strict=True):
                if not is_wanted:
                    continue
                found.append(row)
                if len(found) == limit:
                    is_last = place == len(rows) - 1
                    rest = Position(position.state, place + 1)
                    return FindingPage(found, _at(after) if is_last else rest)
        if after is None:
            return FindingPage(found, None)
        position = Position(after)
    return FindingPage(found, position)


def _at(state: bytes | None) -> Position | None:
    return None if state is None else Position(state)


def is_blocking(row: Row) -> bool:
    """Return whether an open finding blocks downstream applications."""
    return bool(row["severity"] != Severity.WARNS)


def _unsettled(control: Control, settings: Settings, rows: Sequence[Row]) -> list[bool]:
    """Return for each row whether it is open."""
    conditions = " AND ".join(f"{name} = ?" for name in _IN_KEY)
    settled_rows = control.execute_many(
        f"SELECT check_name FROM {table(settings.keyspace, SETTLED)}"
        f" WHERE journal_keyspace = ? AND {conditions}",
        [(settings.journal_keyspace, *key_of(row)) for row in rows],
    )
    return [not settled for settled in settled_rows]


def _aware(row: Row, *names: str) -> Row:
    return row | {name: row[name] and row[name].replace(tzinfo=UTC) for name in names}
