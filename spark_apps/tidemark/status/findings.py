"""Findings of validate: open ones, and those that somebody has settled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidemark.cassandra.control import Row
from tidemark.context import RunContext
from tidemark.status.page import Page, state_of, state_token
from tidemark.validate import stored_findings
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.window import from_millis

OPEN, SETTLED = "open-findings", "settled-findings"


@dataclass(frozen=True)
class FindingRow:
    """A finding.

    Attributes:
        check: the name of the check.
        blocks: whether what is downstream waits for it; None of a settled one.
        layer: the layer; empty of a settled one.
        time_bucket: that of the event or row; None if the finding has none.
        persistence_id: the persistence id; empty if the finding has none.
        tag: the tag, table, topic or projection.
        number: the number that was found.
        expected: the number that was expected; None if the check compares none.
        detail: a clause for people.
        since: when it was first found, or settled.
        last_seen: when it was last found; None of a settled one.
        reason: why it was settled; empty of an open one.
        owner: who has settled it.
    """

    check: str
    blocks: bool | None
    layer: str
    time_bucket: datetime | None
    persistence_id: str
    tag: str
    number: int
    expected: int | None
    detail: str
    since: datetime | None
    last_seen: datetime | None = None
    reason: str = ""
    owner: str = ""


def open_findings(run: RunContext, *, limit: int, after: str | None = None) -> Page[FindingRow]:
    """Return findings that nobody has settled, in the order of the table.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    rows, state = stored_findings.open_page(
        run.control, run.settings, limit=limit, state=state_of(OPEN, after)
    )
    return Page([_open(row) for row in rows], state_token(OPEN, state))


def settled_findings(run: RunContext, *, limit: int, after: str | None = None) -> Page[FindingRow]:
    """Return what was settled, by check, persistence id and tag.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    rows, state = stored_findings.settled_page(
        run.control, run.settings, limit=limit, state=state_of(SETTLED, after)
    )
    return Page([_settled(row) for row in rows], state_token(SETTLED, state))


def _open(row: Row) -> FindingRow:
    return FindingRow(
        row["check_name"],
        stored_findings.is_blocking(row),
        row["layer"] or "",
        _bucket(row),
        row["persistence_id"],
        row["tag"],
        row["number"],
        row["expected"],
        row["detail"] or "",
        row["first_seen"],
        row["last_seen"],
    )


def _settled(row: Row) -> FindingRow:
    return FindingRow(
        row["check_name"],
        None,
        "",
        _bucket(row),
        row["persistence_id"],
        row["tag"],
        row["number"],
        row["expected"] or None,
        row["detail"] or "",
        row["settled_at"],
        reason=row["reason"] or "",
        owner=row["owner"] or "",
    )


def _bucket(row: Row) -> datetime | None:
    bucket = row["time_bucket"]
    return None if bucket in (None, NO_TIME_BUCKET) else from_millis(bucket)
