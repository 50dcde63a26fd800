"""Bounded reads of the pieces of ledgers, and pages of the newest pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.ledger.frontier.partition import HIGHEST, LOWEST, Outside, Partition
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings

MOST_ROWS = 1000
"""The most rows outside of the frontier of a ledger that an answer reads."""
MOST_LEDGERS = 10_000
"""The most ledgers that `names` reads: one for each application, subject and size."""


class LedgerName(NamedTuple):
    """The name of a ledger: application, subject and bucket size."""

    application: str
    subject: str
    size: BucketSize


class BoundedStanding(NamedTuple):
    """The result of a bounded read of the pieces of a ledger.

    Attributes:
        standing: the spans of done pieces, and the first MOST_ROWS other pieces.
        read_to: the last time bucket (epoch ms) up to which `standing` has every piece; None if it
            has all.
        has_other_sizes: whether the subject also has pieces of other bucket sizes, which were not
            read.
    """

    standing: LedgerState
    read_to: int | None
    has_other_sizes: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all pieces were read."""
        return self.read_to is None and not self.has_other_sizes


def names(control: Control, settings: Settings) -> list[LedgerName]:
    """Return the ledgers of the settings' journals, sorted."""
    piece = table(settings.keyspace, "piece")
    rows = control.stream(
        f"SELECT DISTINCT application, subject, bucket_size FROM {piece}", page=1000
    )
    keyspaces = {settings.journal_keyspace, settings.kafka_journal_keyspace}
    return sorted(
        LedgerName(row["application"], row["subject"], BucketSize(row["bucket_size"]))
        for row, _ in zip(rows, range(MOST_LEDGERS), strict=False)
        if row["subject"].partition("/")[0] in keyspaces
    )


def bounded_standing(
    control: Control, settings: Settings, application: str, subject: str = ""
) -> BoundedStanding:
    """Read the pieces of the settings' bucket size; the default subject is the journal."""
    subject = subject or settings.journal_keyspace
    other_sizes = [
        _partition(control, settings, LedgerName(application, subject, size))
        for size in BucketSize
        if size is not settings.bucket_size
    ]
    bounded = of_ledger(control, settings, LedgerName(application, subject, settings.bucket_size))
    return bounded._replace(
        has_other_sizes=not all(partition.frontier().is_empty for partition in other_sizes)
    )


def of_ledger(control: Control, settings: Settings, name: LedgerName) -> BoundedStanding:
    """Read the pieces of a ledger."""
    outside: Outside = _partition(control, settings, name).first_outside(MOST_ROWS)
    standing = LedgerState(outside.spans, outside.rows, name.size.milliseconds)
    return BoundedStanding(standing, outside.read_to)


def page(
    control: Control,
    settings: Settings,
    name: LedgerName,
    *,
    limit: int,
    before: int | None = None,
    state: State | None = None,
) -> tuple[Sequence[PieceRow], int | None]:
    """Return the newest pieces before a time bucket, the newest end.

    `before` is a time bucket in epoch ms, exclusive. With `state`, the page has only pieces in this
    state, and may have fewer than `limit` although there are more.

    Returns:
        the pieces, and the `before` of the next page; None if there is no next page.
    """
    partition = _partition(control, settings, name)
    end = HIGHEST if before is None else before
    if state is not None and state is not State.DONE:
        rows, next_before = partition.page_outside(end, limit)
    else:
        rows = partition.page(end, limit)
        next_before = rows[-1].time_bucket if len(rows) == limit else None
    in_state = [row for row in rows if state is None or row.state is state]
    return in_state, None if next_before == LOWEST else next_before


def _partition(control: Control, settings: Settings, name: LedgerName) -> Partition:
    return Partition(control, settings.keyspace, name.application, name.subject, name.size)
