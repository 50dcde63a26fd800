"""The run over a stream: its open groups in their order, those together that do not collide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import WrongData
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.execution.group import EVENTS_AT_ONCE, GroupExecution, Means
from tidemark.event_groups.execution.hooks import HookTeller
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.outside.processes import Functions
from tidemark.event_groups.stream.chunks import Extent, chunks
from tidemark.event_groups.stream.holding import extent_of, holder
from tidemark.event_groups.stream.states import GroupState, StoredGroup
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger.locks import Locks
from tidemark.text import shortened

MOST_EVENTS = 200
"""The most events of groups that run at the same time."""
_TOGETHER = 1000
"""The most groups that are looked at before the first of them runs."""
_PARALLEL = 8
_NAMED = 20


def lock_of(stream: str) -> str:
    """Return the lock of a stream."""
    return f"event-groups/{stream}"


def run_event_groups(run: RunContext, name: str, *, dry_run: bool = False) -> Outcome:
    """Execute the open groups of a stream.

    Raises:
        LockHeld: another run works on the stream.
        LockLost: the lock was lost on the way.
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
        together = _Together(run, stream, locks.check, groups_pool, events_pool)
        blocking: list[Extent[StoredGroup]] = []
        first_open = stream.next_sequence()
        first = None
        while groups := _next(stream, blocking, first):
            for part in chunks(groups, MOST_EVENTS):
                run.say(f"{len(part)} groups from {part[0].item.id} on")
                done = together.execute(part)
                for group, (state, reason) in done:
                    ended[state] = ended.get(state, 0) + 1
                    if reason:
                        lines.append(f"{group.id}: {state}: {reason}")
                stuck = [
                    one.sequence for one, (state, _) in done if state is GroupState.ROLLBACK_FAILED
                ]
                first = min(stuck, default=part[-1].item.sequence + 1)
                if stuck:
                    # They may hold groups of the parts behind them.
                    break
        first_open = min([first_open, *(one.item.sequence for one in blocking)])
        locks.check()
        stream.move_open_from(first_open)
    return _outcome(ended, lines, blocking)


def _next(
    stream: Stream, blocking: list[Extent[StoredGroup]], first: int | None = None
) -> list[Extent[StoredGroup]]:
    """Return the next groups that may run; those that may not are added to `blocking`."""
    known = {one.item.id for one in blocking}
    found: list[Extent[StoredGroup]] = []
    for group in stream.open(first):
        if group.id in known:
            continue
        extent = extent_of(group)
        if holder(blocking, extent):
            blocking.append(extent)
            continue
        found.append(extent)
        if len(found) == _TOGETHER:
            break
    return found


@dataclass(frozen=True)
class _Together:
    """Executes groups at the same time, in threads that serve the whole run."""

    run: RunContext
    stream: Stream
    ensure_locked: Callable[[], None]
    groups: ThreadPoolExecutor
    events: ThreadPoolExecutor

    def execute(
        self, part: Sequence[Extent[StoredGroup]]
    ) -> list[tuple[StoredGroup, tuple[GroupState, str]]]:
        """Execute groups; return each with its state in the end, and why."""
        tables: dict[str, Table] = {}

        def execute(one: Extent[StoredGroup]) -> tuple[StoredGroup, tuple[GroupState, str]]:
            group = one.item
            loading = Loading(self.run, self.stream.name, group.sequence)
            with (
                closing(Functions(loading.places)) as functions,
                closing(HookTeller(self.run, self.stream, group, functions)) as teller,
            ):
                means = Means(self.ensure_locked, self.events, tables, functions, teller, loading)
                return group, GroupExecution(self.run, self.stream, group, means).execute()

        return list(self.groups.map(execute, part))


def _outcome(
    ended: dict[GroupState, int], lines: list[str], blocking: Sequence[Extent[StoredGroup]]
) -> Outcome:
    held = [one for one in blocking if one.item.state is not GroupState.ROLLBACK_FAILED]
    counts = {f"groups_{state.replace('-', '_')}": number for state, number in ended.items()}
    counts["groups_held"] = len(held)
    total = sum(ended.values())
    failed = total - ended.get(GroupState.DONE, 0)
    if held:
        stuck = [one.item.id for one in blocking if one.item.state is GroupState.ROLLBACK_FAILED]
        lines.append(
            f"{len(held)} groups wait behind groups that are not rolled back, such as {stuck[0]}"
        )
    pieces = PieceCounts(total, total - failed, len(held), failed)
    shown = shortened(lines, _NAMED)
    if failed or held:
        error = WrongData(
            f"{failed} of {total} groups did not end as a whole, {len(held)} are held",
            do="see the report, and submit what is still wanted as new groups",
        )
        return Outcome(RunState.FAILED, pieces, counts, shown, error)
    return Outcome(RunState.DONE if total else RunState.NOTHING, pieces, counts, shown)


def _shown(stream: Stream) -> Outcome:
    blocking: list[Extent[StoredGroup]] = []
    groups = _next(stream, blocking)
    lines = [
        f"together: {', '.join(one.item.id for one in part[:_NAMED])}"
        for part in chunks(groups, MOST_EVENTS)[:_NAMED]
    ]
    counts = {"groups_open": len(groups), "groups_held": len(blocking)}
    return Outcome(RunState.PLANNED, PieceCounts(len(groups)), counts, lines)
