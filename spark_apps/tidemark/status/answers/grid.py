"""Time buckets by application and projection: the grid of the page, and what an order touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.context import RunContext
from tidemark.ledger.applications import PROJECT, PURGE, TAG_WRITE, VALIDATE
from tidemark.ledger.frontier.partition import HIGHEST, LOWEST
from tidemark.ledger.frontier.spans import within
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.reading import pieces
from tidemark.ledger.reading.pieces import BoundedStanding, LedgerName
from tidemark.status.overview import has_ledger
from tidemark.status.page import token, values_of
from tidemark.status.time_buckets import TimeBucketState, bucket_state
from tidemark.window import Window, from_millis, to_millis

GRID = "grid"
MOST_GRID_ROWS = 50
"""The most applications and projections of an answer, with three requests for each."""
_ORDER = (TAG_WRITE, VALIDATE, PROJECT, PURGE)


@dataclass(frozen=True)
class GridRow:
    """An application or a projection.

    Attributes:
        name: the application; for a projection `project/` and its name.
        application: the application.
        subject: a journal keyspace, or `keyspace/projection`.
        bucket_size: the size of the time buckets.
    """

    name: str
    application: str
    subject: str
    bucket_size: str


@dataclass(frozen=True)
class GridColumn:
    """A time bucket, with its state by the name of a row; no state if it was never begun."""

    bucket: datetime
    cells: Mapping[str, TimeBucketState]


@dataclass(frozen=True)
class Grid:
    """A page of the grid.

    Attributes:
        rows: the applications and projections that have a ledger.
        rows_left_out: number of further rows; `row` chooses among them.
        items: the time buckets, the newest first.
        next: the token of the page with the time buckets before; None if there is none.
    """

    rows: Sequence[GridRow]
    rows_left_out: int
    items: Sequence[GridColumn]
    next: str | None


@dataclass(frozen=True)
class Touched:
    """The time buckets of an application in a window.

    Attributes:
        name: the application; for a projection `project/` and its name.
        states: number of time buckets by state.
        not_begun: number of time buckets that no run has begun; None if the ledger was not read to
            its end.
        is_complete: whether the ledger was read to its end; if not, `states` are lower bounds.
    """

    name: str
    states: Mapping[str, int]
    not_begun: int | None
    is_complete: bool


def grid(
    run: RunContext,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    names: Collection[str] = (),
    limit: int,
    after: str | None = None,
) -> Grid:
    """Return the time buckets of the settings' bucket size before `end`, the newest first.

    Args:
        run: the context.
        start: the earliest time bucket; by default the first of all.
        end: the end of the latest time bucket, exclusive; by default the newest of all.
        names: the names of the rows; empty: all.
        limit: the most time buckets.
        after: the token of the page before.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(GRID, after, int)
    lowest = LOWEST if start is None else to_millis(start)
    before = HIGHEST if end is None else to_millis(end)
    if begin is not None:
        before = min(before, begin[0])
    ledgers = [ledger for ledger in _ledgers(run) if not names or row_name(ledger) in names]
    shown = ledgers[:MOST_GRID_ROWS]
    rows = [_grid_row(ledger) for ledger in shown]
    # In a range of `limit` time buckets a ledger has no more pieces than that.
    found = {
        row_name(ledger): [
            piece
            for piece in pieces.page(
                run.control, run.settings, ledger, limit=limit + 1, before=before
            )[0]
            if piece.time_bucket >= lowest
        ]
        for ledger in shown
    }
    items, first = _columns(found, run.settings.bucket_size.milliseconds, limit)
    has_more = any(piece.time_bucket < first for row in found.values() for piece in row)
    left_out = len(ledgers) - len(shown)
    return Grid(rows, left_out, items, token(GRID, first) if has_more else None)


def _columns(
    found: Mapping[str, Sequence[PieceRow]], size: int, limit: int
) -> tuple[list[GridColumn], int]:
    """Return the newest time buckets of pieces, and the first of them in epoch ms. No I/O."""
    newest = max((row[0].time_bucket for row in found.values() if row), default=None)
    if newest is None:
        return [], LOWEST
    oldest = min(row[-1].time_bucket for row in found.values() if row)
    first = max(newest - (limit - 1) * size, oldest)
    by_bucket = {
        name: {piece.time_bucket: piece for piece in row if piece.time_bucket >= first}
        for name, row in found.items()
    }
    columns = [
        GridColumn(
            from_millis(bucket),
            {name: bucket_state(row[bucket]) for name, row in by_bucket.items() if bucket in row},
        )
        for bucket in range(newest, first - 1, -size)
    ]
    return columns, first


def touched(
    run: RunContext,
    window: Window,
    applications: Collection[str],
    projections: Collection[str] = (),
) -> list[Touched]:
    """Return the time buckets of applications in a window, as far as their ledgers are read.

    With `projections`, only these projections; at most MOST_GRID_ROWS ledgers are read.
    """
    wanted = [
        ledger
        for ledger in _ledgers(run)
        if ledger.application in applications
        and (
            ledger.application != PROJECT or not projections or projection_of(ledger) in projections
        )
    ]
    return [
        in_window(row_name(ledger), pieces.of_ledger(run.control, run.settings, ledger), window)
        for ledger in wanted[:MOST_GRID_ROWS]
    ]


def in_window(name: str, bounded: BoundedStanding, window: Window) -> Touched:
    """Return the time buckets of a ledger in a window. No I/O."""
    standing = bounded.standing
    size = standing.bucket_ms
    first, before = to_millis(window.start) // size * size, to_millis(window.end)
    states = Counter[str](row.state for row in standing.rows if first <= row.time_bucket < before)
    done = sum((span.before - span.first) // size for span in within(standing.spans, first, before))
    states[State.DONE] += done
    is_complete = bounded.read_to is None or bounded.read_to >= before
    return Touched(
        name,
        {state: number for state, number in sorted(states.items()) if number},
        -(-(before - first) // size) - states.total() if is_complete else None,
        is_complete,
    )


def _ledgers(run: RunContext) -> list[LedgerName]:
    """Return the ledgers of the journal in the settings' bucket size, in the order of the chain."""
    settings = run.settings
    if not has_ledger(run.control, settings):
        return []
    ledgers = [
        name
        for name in pieces.names(run.control, settings)
        if name.size is settings.bucket_size
        and name.subject.partition("/")[0] == settings.journal_keyspace
    ]
    order = {application: place for place, application in enumerate(_ORDER)}
    return sorted(ledgers, key=lambda name: (order.get(name.application, len(order)), *name))


def row_name(ledger: LedgerName) -> str:
    """Return the name of a ledger's row."""
    projection = ledger.subject.partition("/")[2]
    return f"{ledger.application}/{projection}" if projection else ledger.application


def projection_of(ledger: LedgerName) -> str:
    """Return the name of the projection, which all its versions share; empty for the journal."""
    return ledger.subject.partition("/")[2].partition("@")[0]


def _grid_row(ledger: LedgerName) -> GridRow:
    return GridRow(row_name(ledger), ledger.application, ledger.subject, ledger.size.value)
