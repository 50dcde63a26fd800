"""The run over a stream: executes open groups in order, at the same time if they do not collide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import WrongData
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.execution.group import EVENTS_AT_ONCE, ExecutionServices, GroupExecution
from tidemark.event_groups.execution.hooks import HookTeller
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.stream.group_times import GroupTimes
from tidemark.event_groups.stream.holding import HeldGroups, KnownGroups, OpenGroups, Waiting
from tidemark.event_groups.stream.owned_tables import OwnedTables, TableTaken
from tidemark.event_groups.stream.states import GroupState, StoredGroup
from tidemark.event_groups.stream.store import EndedGroup, Stream
from tidemark.ledger.locks import Locks
from tidemark.text import counted, shortened

_PARALLEL = 8
_MAX_LISTED = 20


def lock_of(stream: str) -> str:
    """Return the lock of a stream."""
    return f"event-groups/{stream}"


def run_event_groups(run: RunContext, name: str, *, dry_run: bool = False) -> Outcome:
    """Execute the open groups of a stream.

    Raises:
        LockHeld: another run works on the stream.
        LockLost: the lock was lost during the run.
    """
    create_own_tables(run.control, run.settings)
    stream = Stream(run, name)
    if dry_run:
        return _shown(stream)
    ended: dict[GroupState, int] = {}
    lines: list[str] = []
    with (
        Locks.of(run, [lock_of(name)]) as locks,
        ThreadPoolExecutor(_PARALLEL, thread_name_prefix="group") as groups_pool,
        ThreadPoolExecutor(_PARALLEL * EVENTS_AT_ONCE, thread_name_prefix="event") as events_pool,
    ):
        first_new = stream.next_sequence()
        held_groups = HeldGroups(run, stream)
        if (waiting := held_groups.unchanged(first_new)) is not None:
            return _outcome(ended, lines, waiting, first_new)
        times = GroupTimes(stream.last_write_time())
        execution = _ParallelExecution(run, stream, locks.check, groups_pool, events_pool, times)
        pass_by = _ended_group_handler(stream, times, locks.check)
        open_groups = OpenGroups(stream, held_groups.read(pass_by), first_new, pass_by)

        def execute(batch: list[StoredGroup]) -> list[StoredGroup]:
            run.say(f"{len(batch)} groups from {batch[0].id} on")
            done = execution.execute(batch)
            for group, (state, reason) in done:
                ended[state] = ended.get(state, 0) + 1
                if reason:
                    lines.append(f"{group.id}: {state}: {reason}")
            return [
                replace(group, state=state) for group, (state, _) in done if not state.has_ended
            ]

        open_groups.execute(execute)
        held = open_groups.held
        locks.check()
        stream.move_open_from(
            min([first_new, *(group.sequence for group in held.groups)]), times.newest
        )
        locks.check()
        waiting = open_groups.waiting()
        held_groups.keep(held, waiting)
    return _outcome(ended, lines, waiting, first_new)


def _ended_group_handler(
    stream: Stream, times: GroupTimes, ensure_locked: Callable[[], None]
) -> Callable[[Sequence[EndedGroup]], None]:
    """Return the function that handles ended groups which lie between open ones."""

    def pass_by(groups: Sequence[EndedGroup]) -> None:
        for group in groups:
            times.pass_by(group.last_write_time)
        # A run may have died after it ended a group, and before it deleted the group's images.
        for name in stream.images.having_images([group.id for group in groups]):
            stream.images.forget_of_all(name, ensure_locked)

    return pass_by


@dataclass(frozen=True)
class _ParallelExecution:
    """Executes groups at the same time, in threads that the whole run shares."""

    run: RunContext
    stream: Stream
    ensure_locked: Callable[[], None]
    groups: ThreadPoolExecutor
    events: ThreadPoolExecutor
    times: GroupTimes
    claimed: set[tuple[str, bool]] = field(default_factory=set)
    """Tables that the run has claimed, and whether to write them: nobody can release them now."""

    def execute(
        self, batch: Sequence[StoredGroup]
    ) -> list[tuple[StoredGroup, tuple[GroupState, str]]]:
        """Execute groups; return each with its final state, and why."""
        tables: dict[str, Table] = {}

        def execute(group: StoredGroup) -> tuple[StoredGroup, tuple[GroupState, str]]:
            loading = Loading(self.run, self.stream.name, group.sequence)
            with (
                closing(Functions(loading.places)) as functions,
                closing(HookTeller(self.run, self.stream, group, functions)) as teller,
            ):
                services = ExecutionServices(
                    *(self.ensure_locked, self.events, tables, self.times),
                    *(functions, teller, loading),
                )
                return group, GroupExecution(self.run, self.stream, group, services).execute()

        return list(self.groups.map(execute, [self._with_claimed_tables(group) for group in batch]))

    def _with_claimed_tables(self, group: StoredGroup) -> StoredGroup:
        """Claim the tables of a group; return it, with a fault if another stream uses one of them.

        A group that has begun has claimed its tables already, but it must write after the streams
        that used them before.
        """
        definition = group.definition
        if definition.refusal:
            return group
        new = definition.tables.items() - self.claimed
        self.ensure_locked()
        try:
            released_at = OwnedTables(self.run).take(self.stream.name, dict(new), executes=True)
        except TableTaken as error:
            fault = f"{error.what}; {error.do}"
            return replace(group, definition=replace(definition, fault=fault))
        self.claimed.update(new)
        self.times.pass_by(released_at)
        return group


def _outcome(
    ended: dict[GroupState, int], lines: list[str], blocked: Waiting, next_sequence: int
) -> Outcome:
    waiting = blocked.in_all(next_sequence)
    counts = {f"groups_{state.replace('-', '_')}": number for state, number in ended.items()}
    counts["groups_held"] = waiting
    total = sum(ended.values())
    failed = total - ended.get(GroupState.DONE, 0) - ended.get(GroupState.CANCELLED, 0)
    if waiting:
        lines.append(
            f"{counted(waiting, 'group')} cannot run before groups are rolled back, such as"
            f" {blocked.stuck}: see its status; if its rollback has failed, retry or settle it"
        )
    pieces = PieceCounts(total, total - failed, waiting, failed)
    shown = shortened(lines, _MAX_LISTED)
    if failed or waiting:
        error = WrongData(
            f"{failed} of {total} groups did not end as a whole, {waiting} are held",
            do="see the report, and submit what is still wanted as new groups",
        )
        return Outcome(RunState.FAILED, pieces, counts, shown, error)
    return Outcome(RunState.DONE if total else RunState.NOTHING, pieces, counts, shown)


def _shown(stream: Stream) -> Outcome:
    next_sequence = stream.next_sequence()
    open_groups = OpenGroups(stream, KnownGroups(), next_sequence)
    batches = open_groups.next_parts()
    lines = [
        f"together: {', '.join(footprint.item.id for footprint in batch[:_MAX_LISTED])}"
        for batch in batches[:_MAX_LISTED]
    ]
    may_run = sum(map(len, batches))
    waiting = open_groups.waiting().in_all(next_sequence)
    counts = {"groups_open": may_run, "groups_held": waiting}
    return Outcome(RunState.PLANNED, PieceCounts(may_run), counts, lines)
