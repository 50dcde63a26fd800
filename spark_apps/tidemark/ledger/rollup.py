"""The state of pieces that several runs work on, each run on one part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tidemark import clock
from tidemark.cassandra.conditional import apply_each
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import TidemarkError
from tidemark.ledger.frontier.partition import Partition
from tidemark.ledger.piece import State
from tidemark.partitioning.keys import BucketSize


@dataclass(frozen=True)
class PieceRollup:
    """The state of a piece as derived from its parts, and the attempt that it had then."""

    time_bucket: int
    attempt: int
    state: State
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def roll_up(
    control: Control,
    keyspace: str,
    application: str,
    subject: str,
    size: BucketSize,
    rollups: Sequence[PieceRollup],
    *,
    owner: str,
) -> None:
    """Write the derived states of pieces, except for pieces whose attempt has changed since.

    DONE raises the attempt, so that a run that read an older state cannot overwrite it.
    """
    now = clock.now()
    apply_each(
        control,
        f"UPDATE {table(keyspace, 'piece')} SET state = ?, attempt = ?, counts = ?, error = ?,"
        " owner = ?, finished_at = ?"
        " WHERE application = ? AND subject = ? AND bucket_size = ? AND time_bucket = ?"
        " IF attempt = ?",
        [
            (
                rollup.state,
                rollup.attempt + (rollup.state is State.DONE),
                dict(rollup.counts),
                rollup.error,
                owner,
                now,
                application,
                subject,
                size.value,
                rollup.time_bucket,
                rollup.attempt,
            )
            for rollup in rollups
        ],
    )
    with suppress(TidemarkError):
        Partition(control, keyspace, application, subject, size).advance()
