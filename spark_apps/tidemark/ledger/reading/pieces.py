"""The pieces of ledgers, with a bound: counts by state, and pages of the newest pieces."""

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
"""The most rows outside of the frontier that one answer reads of a ledger."""
MOST_LEDGERS = 10_000
"""The most ledgers that `names` looks through: one for each application, subject and size."""


class LedgerName(NamedTuple):
    """The name of a ledger: application, subject and bucket size."""

    application: str
    subject: str
    size: BucketSize


class BoundedStanding(NamedTuple):
    """The pieces of a ledger, as far as a bounded read has read them.

    Attributes:
        standing: what is done as spans, and the first MOST_ROWS other pieces.
        read_to: the last time bucket (epoch ms) up to which `standing` has every piece; None if it
            has all.
        has_other_sizes: whether the subject also has pieces of other bucket sizes, which the read
            leaves out.
    """

    standing: LedgerState
    read_to: int | None
    has_other_sizes: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the read has left out nothing."""
        return self.read_to is None and not self.has_other_sizes


def names(control: Control, settings: Settings) -> list[LedgerName]:
    """Return the ledgers of the settings' journals, sorted."""
    piece = table(settings.keyspace, "piece")
    found = control.stream(
        f"SELECT DISTINCT application, subject, bucket_size FROM {piece}", page=1000
    )
    keyspaces = {settings.journal_keyspace, settings.kafka_journal_keyspace}
    return sorted(
        LedgerName(row["application"], row["subject"], BucketSize(row["bucket_size"]))
        for row, _ in zip(found, range(MOST_LEDGERS), strict=False)
        if row["subject"].partition("/")[0] in keyspaces
    )


def bounded_standing(
    control: Control, settings: Settings, application: str, subject: str = ""
) -> BoundedStanding:
    """Read the pieces of the settings' bucket size; the subject is by default the journal."""
    subject = subject or settings.journal_keyspace
    others = [
        _partition(control, settings, LedgerName(application, subject, size))
        for size in BucketSize
        if size is not settings.bucket_size
    ]
    found = of_ledger(control, settings, LedgerName(application, subject, settings.bucket_size))
    return found._replace(has_other_sizes=not all(one.frontier().is_empty for one in others))


def of_ledger(control: Control, settings: Settings, name: LedgerName) -> BoundedStanding:
    """Read the pieces of one ledger."""
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
    """Return the newest pieces before a time bucket, the newest first.

    Args:
        control: the session to Cassandra.
        settings: where the ledger is.
        name: the ledger.
        limit: the most pieces that are read.
        before: the time bucket (epoch ms), exclusive; None for the newest of all.
        state: only pieces in this state; the page then may have fewer than `limit`, although
            there are more.

    Returns:
        the pieces, and the time bucket before which the next page begins; None if there is none.
    """
    partition = _partition(control, settings, name)
    first = HIGHEST if before is None else before
    if state is not None and state is not State.DONE:
        rows, rest = partition.page_outside(first, limit)
    else:
        rows = partition.page(first, limit)
        rest = rows[-1].time_bucket if len(rows) == limit else None
    chosen = [row for row in rows if state is None or row.state is state]
    return chosen, None if rest == LOWEST else rest


def _partition(control: Control, settings: Settings, name: LedgerName) -> Partition:
    return Partition(control, settings.keyspace, name.application, name.subject, name.size)
