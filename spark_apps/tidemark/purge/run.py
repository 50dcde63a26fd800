"""purge, from the policies to the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tidemark.application import preflight
from tidemark.application.approval import OPTION, Approval, digest
from tidemark.application.guarded_change import Apply, EnsureLocked, Plan, apply_plan, show_plan
from tidemark.context import Outcome, PieceCounts, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.ledger import applications
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import State
from tidemark.purge.clocks import require_sane_clock
from tidemark.purge.needs.give_up import GivenUp, find_given_up
from tidemark.purge.policies import file
from tidemark.purge.policies.effective import Effective, effective
from tidemark.purge.policies.model import TagViews
from tidemark.purge.policies.pieces import PolicyPieces, recorded_failure
from tidemark.purge.request import PurgeRequest
from tidemark.purge.tag_views import TagViewOrder
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.purge.targets import WITHOUT_PEKKO, Planner, plan_of, planners
from tidemark.text import path_name

APPLICATION = applications.PURGE
_ORDER = (
    "values count in this order: form or command line, retention.yaml, TIDEMARK_RETENTION_DAYS,"
    " default"
)


@dataclass(frozen=True)
class _Planned:
    """The plans of the chosen policies by name, in the order of the file."""

    policies: Mapping[str, Effective]
    plans: Mapping[str, TargetPlan]

    @property
    def tombstones(self) -> Tombstones:
        return sum((plan.tombstones for plan in self.plans.values()), Tombstones())

    @property
    def counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for plan in self.plans.values():
            counts.update(plan.counts)
        # The deletes by kind, which no target counts under that name.
        return {**counts, **_nonzero(self.tombstones)}

    @property
    def pieces(self) -> int:
        return sum(_number(plan, "pieces") for plan in self.plans.values())

    def lines(self, *, explain: bool) -> list[str]:
        """Return the plan for people; a single policy needs no headline."""
        if len(self.plans) == 1 and not explain:
            return [line for plan in self.plans.values() for line in plan.lines]
        lines = [_ORDER] if explain else []
        for name, plan in self.plans.items():
            effective_policy = self.policies[name]
            lines += (
                effective_policy.lines()
                if explain
                else [f"{name}: {effective_policy.policy.target}"]
            )
            lines += [f"  {line}" for line in plan.lines]
        return lines

    def copy_lines(self, directory: str | None) -> list[str]:
        """Return where deleted rows are saved, and which policies have no copy."""
        if directory is None:
            return []
        changing = {name: plan for name, plan in self.plans.items() if plan.apply is not None}
        saved = [name for name, plan in changing.items() if plan.save is not None]
        unsaved = [name for name in changing if name not in saved]
        lines = [f"saved to {directory} first: {', '.join(saved)}"] if saved else []
        if not unsaved:
            return lines
        views = any(isinstance(self.policies[name].policy, TagViews) for name in unsaved)
        derived = "; `tag_write.py --force` writes tag views again" if views else ""
        return [*lines, f"nothing is saved of {', '.join(unsaved)}{derived}"]

    def save(self, directory: str, run_id: str) -> None:
        """Save the rows to delete, those of each policy in a directory of its own."""
        for name, plan in self.plans.items():
            if plan.apply is not None and plan.save is not None:
                plan.save(f"{directory}/{path_name(run_id)}-{name}")

    def details(self, approval: Approval) -> dict[str, object]:
        """Return the approval and each policy's deletes, for programs."""
        return {
            "approval": str(approval),
            "tombstones": self.tombstones.total,
            "policies": {
                name: {
                    "target": self.policies[name].policy.target,
                    "counts": dict(plan.counts),
                    "tombstones": plan.tombstones.counts(),
                    "digest": plan.digest,
                }
                for name, plan in self.plans.items()
            },
        }


def run_purge(run: RunContext, request: PurgeRequest) -> Outcome:
    """Delete what the policies allow and no reader needs.

    Raises:
        InvalidInput: a policy, the window or a projection that is given up cannot be used; the
            retention is below the setting's without --below-retention; or another plan was
            approved.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        DefinitionError: the file of the policies cannot be used, or two policies contradict each
            other; or a projection file cannot be read, so that its needs are unknown.
        TidemarkError: the clock is wrong; the plan changed before the locks were taken; or the
            rows to delete cannot be saved.
        LockHeld: another run works on something that would be deleted.
    """
    settings, choice = run.settings, request.choice
    policies = file.load(settings.retention_file)
    effectives = effective(
        policies,
        settings,
        names=choice.policies,
        retention_days=choice.retention_days,
        below_retention=choice.below_retention,
    )
    of_journal = [
        e.policy.name for e in effectives if e.is_chosen and e.policy.target not in WITHOUT_PEKKO
    ]
    has_journal = bool(of_journal)
    if of_journal:
        preflight.require_in_cassandra(
            settings,
            f"the policies {', '.join(of_journal)} are for tables of a journal in Cassandra",
            f"choose policies of the targets {', '.join(sorted(WITHOUT_PEKKO))}",
        )
    if request.window is None:
        preflight.check_journal(run, has_journal=has_journal)
    else:
        preflight.check(run, request.window, has_journal=has_journal)
    require_sane_clock(run)
    if request.approved is not None:
        _use_moment_of(request.approved, run)
    given_up = find_given_up(run, choice.give_up)
    tag_view_policies = [value.policy for value in effectives if isinstance(value.policy, TagViews)]
    targets = planners(TagViewOrder(policies, tag_view_policies, request.window, choice.give_up))
    chosen = {value.policy.name: value for value in effectives if value.is_chosen}
    planned = _plan(run, chosen, targets)
    approval = _approval_of(settings.journal_keyspace, run.moment, planned.plans, choice.give_up)
    _require_approved(request.approved, approval)
    plan = Plan(
        planned.counts,
        [
            *given_up.lines(),
            *planned.lines(explain=request.explain),
            *planned.copy_lines(request.save_to),
        ],
        partial(_apply, run, given_up, planned, request.save_to)
        if planned.pieces or given_up
        else None,
        planned.details(approval),
    )
    if not request.apply:
        return _shown(run, plan, planned)
    if plan.apply is None:
        return apply_plan(run, APPLICATION, settings.journal_keyspace, plan, lambda: None)
    locks = {lock for target in planned.plans.values() for lock in target.locks}
    with Locks.of(run, locks) as held_locks:
        again = _plan(run, chosen, targets)
        if _digests(again.plans) != _digests(planned.plans):
            raise TidemarkError(
                f"{_changed(_digests(planned.plans), again)} moved between the plan and the locks",
                where=settings.journal_keyspace,
                do="nothing was deleted; run again",
            )
        outcome = apply_plan(
            run, APPLICATION, settings.journal_keyspace, plan, lambda: held_locks.check()
        )
    return replace(outcome, pieces=PieceCounts(planned.pieces, planned.pieces))


def _plan(
    run: RunContext, chosen: Mapping[str, Effective], targets: Mapping[str, Planner]
) -> _Planned:
    plans = {name: plan_of(run, value, targets) for name, value in chosen.items()}
    # A run that died after its last delete left a policy of which only the piece is to be ended.
    for name, piece in PolicyPieces(run).entries().items():
        if name in plans and piece.state is not State.DONE and plans[name].apply is None:
            plans[name] = _only_ended(plans[name])
    return _Planned(chosen, plans)


def _only_ended(plan: TargetPlan) -> TargetPlan:
    line = "an earlier run did it, and did not come to its end"
    return replace(plan, lines=[*plan.lines, line], apply=lambda _: plan.counts)


def _shown(run: RunContext, plan: Plan, planned: _Planned) -> Outcome:
    shown = show_plan(run, APPLICATION, run.settings.journal_keyspace, plan)
    number = sum(_number(each, "planned") for each in planned.plans.values())
    # Kept rows are kept already; nothing has been deleted.
    counts = {name: n if name.endswith("_kept") else 0 for name, n in plan.counts.items()}
    lines = [*shown.lines, f"approval: {plan.details['approval']}"]
    return replace(shown, pieces=PieceCounts(number), counts=counts, lines=lines)


def _number(plan: TargetPlan, name: str) -> int:
    """Return how many pieces a plan has: its time buckets, else 1 if it deletes anything."""
    number = plan.details.get(name, int(plan.apply is not None))
    return number if isinstance(number, int) else 0


def _use_moment_of(approved: Approval, run: RunContext) -> None:
    if approved.moment > run.moment:
        raise InvalidInput("the plan was made in the future", where=OPTION, do="make a new plan")
    run.moment = approved.moment


def _digests(plans: Mapping[str, TargetPlan]) -> dict[str, str]:
    """Return the hash of each policy's plan, by policy name."""
    return {name: plan.digest for name, plan in plans.items()}


def _approval_of(
    journal_keyspace: str,
    moment: datetime,
    plans: Mapping[str, TargetPlan],
    given_up: Sequence[str],
) -> Approval:
    """Return the approval of these plans.

    An approved plan is planned again as of its moment, so that it does not grow while somebody
    decides.
    """
    parts = [journal_keyspace, *sorted(given_up), *_digests(plans).items()]
    return Approval(digest(parts), moment)


def _require_approved(approved: Approval | None, approval: Approval) -> None:
    if approved not in (None, approval):
        raise InvalidInput(
            "the data changed after this plan was approved, or the approval belongs to a different"
            " plan",
            where=OPTION,
            do="nothing was deleted; plan again with these options, and approve that",
        )


def _changed(old: Mapping[str, str], planned: _Planned) -> str:
    """Return the names of the policies whose plans differ."""
    new = _digests(planned.plans)
    names = dict.fromkeys([*old, *new])
    return ", ".join(name for name in names if old.get(name) != new.get(name)) or "something"


def _apply(
    run: RunContext,
    given_up: GivenUp,
    planned: _Planned,
    save_to: str | None,
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    if save_to is not None:
        planned.save(save_to, run.run_id)
    given_up.forget(run)
    counts: Counter[str] = Counter()
    for name, plan in planned.plans.items():
        if plan.apply is None:
            counts.update(plan.counts)
            continue
        if isinstance(planned.policies[name].policy, TagViews):
            # Tag views have a piece for each time bucket.
            target_counts = plan.apply(ensure_locked)
        else:
            target_counts = _apply_as_piece(run, name, plan.apply, ensure_locked)
        # Deletes by kind as planned, where a target does not count them itself.
        counts.update({**_nonzero(plan.tombstones), **target_counts})
    return {**planned.counts, **counts}


def _nonzero(tombstones: Tombstones) -> dict[str, int]:
    return {name: number for name, number in tombstones.counts().items() if number}


def _apply_as_piece(
    run: RunContext, name: str, apply: Apply, ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    pieces = PolicyPieces(run)
    attempt = pieces.start(name)
    with recorded_failure(
        ensure_locked, lambda reason: pieces.finish(name, attempt, State.FAILED, {}, reason)
    ):
        counts = apply(ensure_locked)
        ensure_locked()
        pieces.finish(name, attempt, State.DONE, counts)
    return counts
