"""Pages of the findings that are stored, open and settled; without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.settings import Settings
from tidemark.validate.findings.check import Severity

FINDING = "finding"
SETTLED = "settled_finding"
NOTHING_EXPECTED = 0
"""Stands for null in the key of SETTLED; no finding expects the number 0."""
_KEY = ("check_name", "persistence_id", "tag", "number")
_IN_KEY = ("check_name", "persistence_id", "tag", "number", "expected")
_REQUESTS = 10
"""The most pages of the table that one answer reads: others are of other journals, or settled."""


def key_of(row: Row) -> tuple[Any, ...]:
    """Return the key that a finding has in SETTLED."""
    return (*(row[name] for name in _KEY), row["expected"] or NOTHING_EXPECTED)


class FindingPage(NamedTuple):
    """Findings, and the paging state of the next page; None if there is none.

    A page may have fewer findings than its limit, although there are more.
    """

    rows: Sequence[Row]
    state: bytes | None


def open_page(
    control: Control, settings: Settings, *, limit: int, state: bytes | None = None
) -> FindingPage:
    """Return findings of the journal that nobody has settled, in the order of the table.

    Columns: time_bucket, check_name, persistence_id, tag, number, expected, detail, layer,
    severity, first_seen, last_seen (both aware), run_id.
    """
    found: list[Row] = []
    for _ in range(_REQUESTS):
        rows, state = control.page(
            "SELECT journal_keyspace, time_bucket, check_name, persistence_id, tag, number,"
            " expected, detail, layer, severity, first_seen, last_seen, run_id"
            f" FROM {table(settings.keyspace, FINDING)}",
            limit=limit - len(found),
            state=state,
        )
        own = [row for row in rows if row["journal_keyspace"] == settings.journal_keyspace]
        found += _unsettled(control, settings, own)
        if state is None or len(found) == limit:
            break
    return FindingPage([_aware(row, "first_seen", "last_seen") for row in found], state)


def settled_page(
    control: Control, settings: Settings, *, limit: int, state: bytes | None = None
) -> FindingPage:
    """Return what was settled of the journal, by check, persistence id and tag.

    Columns: check_name, persistence_id, tag, number, expected, time_bucket, detail, reason, owner,
    settled_at (aware).
    """
    rows, state = control.page(
        "SELECT check_name, persistence_id, tag, number, expected, time_bucket, detail, reason,"
        f" owner, settled_at FROM {table(settings.keyspace, SETTLED)} WHERE journal_keyspace = ?",
        (settings.journal_keyspace,),
        limit=limit,
        state=state,
    )
    return FindingPage([_aware(row, "settled_at") for row in rows], state)


def is_blocking(row: Row) -> bool:
    """Return whether an open finding blocks what is downstream."""
    return bool(row["severity"] != Severity.WARNS)


def _unsettled(control: Control, settings: Settings, rows: Sequence[Row]) -> list[Row]:
    conditions = " AND ".join(f"{name} = ?" for name in _IN_KEY)
    answers = control.execute_many(
        f"SELECT check_name FROM {table(settings.keyspace, SETTLED)}"
        f" WHERE journal_keyspace = ? AND {conditions}",
        [(settings.journal_keyspace, *key_of(row)) for row in rows],
    )
    return [row for row, settled in zip(rows, answers, strict=True) if not settled]


def _aware(row: Row, *names: str) -> Row:
    return row | {name: row[name] and row[name].replace(tzinfo=UTC) for name in names}
