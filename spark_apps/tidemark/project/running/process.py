"""Processes one projection in a run, from the claim of its pieces to the ledger."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.piece import State
from tidemark.project.acceptance.accept import Acceptance, MissingEventPolicy
from tidemark.project.acceptance.whole_buckets import BucketsLost
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.batch import Batch
from tidemark.project.planning.limit import postpone
from tidemark.project.planning.lock import resource_of
from tidemark.project.planning.plan import ProjectionPlan, ledger
from tidemark.project.running.batches import Batches
from tidemark.project.running.bisection import Bisection, leave_out, require_done
from tidemark.project.running.outcome import ProjectionOutcome
from tidemark.project.running.pipeline import Pipeline
from tidemark.project.sources import event_source


def process(
    run: RunContext,
    plan: ProjectionPlan,
    analyzed: AnalyzedDefinition | None,
    policy: MissingEventPolicy,
    outcome: ProjectionOutcome,
) -> None:
    """Record the held pieces, and process the others and late time buckets batch by batch.

    `analyzed` is None if all pieces are held. With a strict policy there is one batch, so that
    nothing is written before all gaps are known. `outcome` is filled batch by batch, so that it is
    available if a later batch fails.

    Raises:
        LockHeld: another run works on this projection.
        LockLost: the lock expired during the work.
        HistoryPurged: events were deleted before they were consumed.
        WrongData: the policy is strict and there is a gap, or a blocking check fails.
        TidemarkError: some pieces failed, the others are done: a blocking check fails, the result
            contradicts the rules of the projection's mode, the user's code raises, or an event
            cannot be read or folded and on-error is fail.
    """
    pieces_ledger = ledger(run, plan.definition)
    with claim(
        run,
        pieces_ledger,
        plan.pieces,
        resource=resource_of(run, plan.definition),
        by_day=False,
    ) as claimed:
        postpone(plan, pieces_ledger, run.owner)
        if plan.held:
            claimed.finish_some(set(plan.held), State.HELD, {}, plan.waits_for)
        if analyzed is not None:
            batch = Batch.whole(plan)
            if not policy.accept_purged:
                batch = _without_purged(claimed, batch, policy, outcome)
            if batch.pieces:
                process_claimed(run, claimed, batch, analyzed, policy, outcome)
    require_done(plan, outcome)


def process_claimed(
    run: RunContext,
    claimed: Claim,
    batch: Batch,
    analyzed: AnalyzedDefinition,
    policy: MissingEventPolicy,
    outcome: ProjectionOutcome,
) -> None:
    """Process the claimed pieces and late time buckets, as `process` does.

    Pieces that fail because of their events are in `outcome.failed`; the caller reports them.
    """
    source = event_source(run, batch.definition, batch.slices)
    store = OffsetStore.of(run, batch.definition).fenced(batch.slices, run.owner)
    acceptance = Acceptance(store, source, policy)
    pipeline = Pipeline(run, claimed, analyzed, acceptance)
    bisection = Bisection(run, claimed, batch.definition, policy, outcome, pipeline.run_batch)
    batches = Batches(source, batch, is_single=policy.strict)
    for part in batches.each(unsettled=outcome.gaps):
        batches.measured(bisection.process(part))


def _without_purged(
    claimed: Claim, batch: Batch, policy: MissingEventPolicy, outcome: ProjectionOutcome
) -> Batch:
    """Remove the time buckets whose tag views purge has emptied from a batch.

    Raises:
        BucketsLost: there are such time buckets, and the policy is strict.
    """
    purged = batch.plan.purged_to_process
    if not purged:
        return batch
    if policy.strict:
        raise BucketsLost(purged, batch.definition.name)
    leave_out(claimed, outcome, purged)
    return batch.leaving_out(purged.keys())
