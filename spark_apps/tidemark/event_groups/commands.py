"""What people do with event groups: submit, plan, look, try again, cancel."""

from __future__ import annotations

import json
from pathlib import Path

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.file import load
from tidemark.event_groups.definition.tables import check
from tidemark.event_groups.execution.run import lock_of
from tidemark.event_groups.stream.store import GroupState, StoredGroup, Stream
from tidemark.ledger import audit
from tidemark.ledger.locks import Locks

_NAMED = 50


def run_submit(run: RunContext, stream: str, files: list[Path], *, dry_run: bool) -> Outcome:
    """Check groups and append them to a stream, in the order of the files.

    Raises:
        InvalidInput: a file is missing, or another group of that id was submitted before.
        DefinitionError: a group cannot be executed; none of the files is submitted then.
    """
    checked = [load(file) for file in files]
    for definition, fault in checked:
        check(run.control, run.settings, definition, fault)
    lines, counts = [], {"groups": len(checked), "groups_submitted": 0}
    if dry_run:
        for definition, _ in checked:
            lines.append(definition.group.group)
            lines += dag.as_text(definition.graph, definition.says())
        return Outcome(RunState.PLANNED, counts=counts, lines=lines)
    create_own_tables(run.control, run.settings)
    submitted = Stream(run, stream)
    for definition, _ in checked:
        name = definition.group.group
        sequence, is_new = submitted.submit(definition)
        counts["groups_submitted"] += is_new
        told = "submitted" if is_new else "was submitted before"
        lines.append(f"{name}: {told} as number {sequence}")
        if is_new:
            audit.record(run, "submit event group", name, [], {"sequence": sequence})
    state = RunState.DONE if counts["groups_submitted"] else RunState.NOTHING
    return Outcome(state, counts=counts, lines=lines)


def run_status(run: RunContext, stream: str, name: str | None) -> Outcome:
    """Show the open groups of a stream, or the events of one group.

    Raises:
        InvalidInput: there is no such group.
    """
    create_own_tables(run.control, run.settings)
    stored = Stream(run, stream)
    if name is None:
        groups = list(stored.open())
        lines = [f"{one.sequence} {one.id}: {one.state} {one.reason}" for one in groups[:_NAMED]]
        return Outcome(RunState.PLANNED, counts={"groups_open": len(groups)}, lines=lines)
    group = _existing(stored, name)
    events = stored.events(name)
    lines = [f"{group.sequence} {name}: {group.state} {group.reason}".rstrip()]
    for event, says in group.definition.says().items():
        found = events.get(event)
        state = found.state if found else "pending"
        reason = f": {found.reason}" if found and found.reason else ""
        lines.append(f"  {event} ({says}): {state}{reason}")
    return Outcome(RunState.PLANNED, counts={"events": len(group.definition.events)}, lines=lines)


def run_retry(run: RunContext, stream: str, name: str, *, apply: bool) -> Outcome:
    """Let the next run try once more to roll a group back.

    Raises:
        InvalidInput: there is no such group, or its rollback has not failed.
    """
    return _change(
        run, stream, name, (GroupState.ROLLBACK_FAILED, GroupState.ROLLING_BACK), apply=apply
    )


def run_cancel(run: RunContext, stream: str, name: str, *, apply: bool) -> Outcome:
    """Take a group out of the stream that has not begun.

    Raises:
        InvalidInput: there is no such group, or it has begun.
    """
    return _change(run, stream, name, (GroupState.SUBMITTED, GroupState.CANCELLED), apply=apply)


def _change(
    run: RunContext,
    stream: str,
    name: str,
    states: tuple[GroupState, GroupState],
    *,
    apply: bool,
) -> Outcome:
    create_own_tables(run.control, run.settings)
    stored = Stream(run, stream)
    before, then = states

    def plan() -> Plan:
        group = _existing(stored, name)
        if group.state is not before:
            raise InvalidInput(
                f"the group {name} is {group.state}, and not {before}", where=f"stream {stream}"
            )

        def change(ensure_locked: EnsureLocked) -> dict[str, int]:
            ensure_locked()
            stored.set_state(name, then, group.reason)
            return {"groups": 1}

        return Plan({"groups": 1}, [f"{name}: {before} becomes {then}"], change)

    return guarded_change(
        run,
        f"event group {then}",
        name,
        plan,
        lock=lambda: Locks.of(run, [lock_of(stream)]),
        apply=apply,
    )


def _existing(stream: Stream, name: str) -> StoredGroup:
    found = stream.group(name)
    if found is None:
        raise InvalidInput(
            f"there is no group {name}", where=f"stream {stream.name}", do="see status"
        )
    return found


def drawn(file: Path, *, as_mermaid: bool, as_json: bool) -> str:
    """Return the picture of a group in a file, without Cassandra.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: the group cannot be used.
    """
    definition, _ = load(file)
    if as_json:
        return json.dumps(dag.waves(definition.graph))
    if as_mermaid:
        return dag.as_mermaid(definition.graph, definition.says())
    return "\n".join(dag.as_text(definition.graph, definition.says()))
