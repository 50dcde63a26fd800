"""A projection range of slices by range of slices: which may change at any time.

Each range is processed as whole time buckets are, with offsets, counts and cursors of its own; what
is done of a time bucket is recorded for its slices, and the bucket is done when all of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.slice_ranges import ALL, Slicing
from tidemark.projection.acceptance.accept import Policy
from tidemark.projection.acceptance.whole_buckets import BucketsLost
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store import slice_records
from tidemark.projection.planning.limit import postpone
from tidemark.projection.planning.lock import lock_of
from tidemark.projection.planning.plan import Work
from tidemark.projection.running.bisection import require_done
from tidemark.projection.running.outcome import ProjectionOutcome
from tidemark.projection.running.slice_session import Session, known


def require_independent(definitions: Sequence[Definition]) -> None:
    """Slices can be processed one by one where no row is made of several of them.

    Raises:
        InvalidInput: a projection's mode replaces whole time buckets.
    """
    for definition in definitions:
        if not definition.mode.is_by_persistence_id:
            raise InvalidInput(
                f"projection {definition.name} has mode {definition.mode}, which replaces whole"
                " time buckets and not slices of them",
                where="--slices",
                do="leave it out, or name the other projections with --projection",
            )


def restricted(run: RunContext, work: Work, slicing: Slicing | None, *, force: bool) -> Work:
    """The work that is left in some slices.

    Without `slicing` it is all of it: as whole time buckets, unless slices of some are done.
    """
    if slicing is None and (force or not work.definition.mode.is_by_persistence_id):
        return work
    _, parts = known(run, work)
    done = slice_records.done(parts)
    if slicing is None:
        if not any(done.get(piece.time_bucket) for piece in work.pieces):
            return work
        slicing = Slicing()
    left = [
        piece
        for piece in work.pieces
        if force
        or piece.time_bucket in work.held
        or slice_ranges.missing(slicing.slices, done.get(piece.time_bucket, ()))
        # All of it is done, but a crash came before the ledger was told.
        or not slice_ranges.missing(ALL, done.get(piece.time_bucket, ()))
    ]
    return replace(work, pieces=left, slicing=slicing)


def process(
    run: RunContext,
    work: Work,
    checked: AnalyzedDefinition | None,
    policy: Policy,
    done: ProjectionOutcome,
) -> None:
    """As `process.process` does, for the work's slices alone.

    Disjoint ranges may be processed at the same time, by several runs.

    Raises:
        LockHeld: another run works on some of these slices.
        LockLost: our own lock ran out while we worked.
        HistoryPurged: events were deleted before they were consumed, or with their tag views.
        WrongData: the policy is strict and there is a gap.
        TidemarkError: as there; all ranges were tried.
    """
    if work.gone and not policy.accept_purged:
        raise BucketsLost(work.gone, work.definition.name)
    with lock_of(run, work.definition, work.slices) as locks:
        postpone(work, run.owner)
        session = Session(run, work, locks)
        try:
            if checked is not None:
                session.work_off(checked, policy, done)
        except BaseException:
            # A second failure here (lock lost, Cassandra gone) must not hide the first.
            with suppress(TidemarkError):
                session.settle()
            raise
        session.settle()
    require_done(work, done)
