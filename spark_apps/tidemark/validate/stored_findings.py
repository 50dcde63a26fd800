"""Pages of the stored findings, open and settled; without Spark."""

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
"""Replaces null in the key of SETTLED; no finding expects the number 0."""
_KEY = ("check_name", "persistence_id", "tag", "number")
_IN_KEY = ("check_name", "persistence_id", "tag", "number", "expected")
_REQUESTS = 10
"""The most pages of the table that an answer reads: rows may be settled or of other journals."""


def key_of(row: Row) -> tuple[Any, ...]:
    """Return the key of a finding in SETTLED."""
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
    """Return the open findings of the journal, in the order of the table.

    Columns: time_bucket, check_name, persistence_id, tag, number, expected, detail, layer,
    severity, first_seen, last_seen (both aware), run_id.
    """
    open_rows: list[Row] = []
    for _ in range(_REQUESTS):
        rows, state = control.page(
            "SELECT journal_keyspace, time_bucket, check_name, persistence_id, tag, number,"
            " expected, detail, layer, severity, first_seen, last_seen, run_id"
            f" FROM {table(settings.keyspace, FINDING)}",
            limit=limit - len(open_rows),
            state=state,
        )
        of_journal = [row for row in rows if row["journal_keyspace"] == settings.journal_keyspace]
        open_rows += _unsettled(control, settings, of_journal)
        if state is None or len(open_rows) == limit:
            break
    return FindingPage([_aware(row, "first_seen", "last_seen") for row in open_rows], state)


def settled_page(
    control: Control, settings: Settings, *, limit: int, state: bytes | None = None
) -> FindingPage:
    """Return the settled findings of the journal, by check, persistence id and tag.

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
    """Return whether an open finding blocks downstream applications."""
    return bool(row["severity"] != Severity.WARNS)


def _unsettled(control: Control, settings: Settings, rows: Sequence[Row]) -> list[Row]:
    conditions = " AND ".join(f"{name} = ?" for name in _IN_KEY)
    settled_rows = control.execute_many(
        f"SELECT check_name FROM {table(settings.keyspace, SETTLED)}"
        f" WHERE journal_keyspace = ? AND {conditions}",
        [(settings.journal_keyspace, *key_of(row)) for row in rows],
    )
    return [row for row, settled in zip(rows, settled_rows, strict=True) if not settled]


def _aware(row: Row, *names: str) -> Row:
    return row | {name: row[name] and row[name].replace(tzinfo=UTC) for name in names}
