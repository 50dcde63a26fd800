"""Processes a projection by ranges of slices, which may differ from run to run.

Each range is processed like whole time buckets, with its own offsets, counts and cursors. The
result is recorded for the slices of a time bucket, which is done when all of them are.
"""

from __future__ import annotations

from contextlib import suppress

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.acceptance.whole_buckets import BucketsLost
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.planning.limit import postpone
from tidemark.project.planning.lock import lock_of
from tidemark.project.planning.plan import ProjectionPlan, ledger
from tidemark.project.running.bisection import require_done
from tidemark.project.running.outcome import ProjectionOutcome
from tidemark.project.running.slice_session import SliceSession


def process(
    run: RunContext,
    plan: ProjectionPlan,
    analyzed: AnalyzedDefinition | None,
    policy: MissingEventPolicy,
    outcome: ProjectionOutcome,
) -> None:
    """Process only the plan's slices, as `process.process` does whole time buckets.

    Several runs may process disjoint ranges at the same time.

    Raises:
        LockHeld: another run works on some of these slices.
        LockLost: the lock expired during the work.
        HistoryPurged: events were deleted before they were consumed, or with their tag views.
        WrongData: the policy is strict and there is a gap.
        TidemarkError: as for `process.process`; all ranges were tried.
    """
    if plan.purged_to_process and not policy.accept_purged:
        raise BucketsLost(plan.purged_to_process, plan.definition.name)
    with lock_of(run, plan.definition, plan.slices) as locks:
        postpone(plan, ledger(run, plan.definition), run.owner)
        session = SliceSession(run, plan, locks)
        try:
            if analyzed is not None:
                session.process(analyzed, policy, outcome)
        except Exception:
            # A second failure here (lock lost, Cassandra gone) must not hide the first.
            with suppress(TidemarkError):
                session.roll_up()
            raise
        session.roll_up()
    require_done(plan, outcome)
