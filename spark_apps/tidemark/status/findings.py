"""Findings of validate, open and settled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidemark.cassandra.control import Row
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.status.page import Page, state_of, state_token
from tidemark.validate import stored_findings
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.stored_findings import ALL, Position, WantedFindings
from tidemark.window import from_millis

OPEN, SETTLED = "open-findings", "settled-findings"


@dataclass(frozen=True)
class FindingRow:
    """A finding.

    Attributes:
        check: the name of the check.
        blocks: whether downstream applications wait for the finding; None if it is settled.
        layer: the layer; empty if the finding is settled.
        time_bucket: time bucket of the event or row; None if the finding has none.
        persistence_id: the persistence id; empty if the finding has none.
        tag: the tag, table, topic or projection.
        number: the number that was found.
        expected: the expected number; None if the check does not compare numbers.
        detail: a clause for people.
        since: when the finding was first found, or settled.
        last_seen: when the finding was last found; None if it is settled.
        reason: why the finding was settled; empty if it is open.
        owner: who has settled the finding.
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


def open_findings(
    run: RunContext, wanted: WantedFindings = ALL, *, limit: int, after: str | None = None
) -> Page[FindingRow]:
    """Return the open findings, in the order of the table.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    page = stored_findings.open_page(
        run.control, run.settings, wanted, limit=limit, begin=Position(*state_of(OPEN, after))
    )
    return Page([_open(row) for row in page.rows], _next(OPEN, page.next))


def settled_findings(
    run: RunContext, wanted: WantedFindings = ALL, *, limit: int, after: str | None = None
) -> Page[FindingRow]:
    """Return the settled findings, by check, persistence id and tag.

    Raises:
        InvalidInput: `after` is not a token of these pages, or a severity is wanted.
    """
    if wanted.severity is not None:
        raise InvalidInput(
            "settled findings have no severity", where="--severity", do="leave it out with settled"
        )
    page = stored_findings.settled_page(
        run.control, run.settings, wanted, limit=limit, begin=Position(*state_of(SETTLED, after))
    )
    return Page([_settled(row) for row in page.rows], _next(SETTLED, page.next))


def _next(kind: str, position: Position | None) -> str | None:
    return None if position is None else state_token(kind, *position)


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
