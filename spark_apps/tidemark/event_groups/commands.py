"""The commands for event groups: submit, retry, cancel, settle, release a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.event_groups.checks import Checks
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.file import load
from tidemark.event_groups.definition.tables import with_comparable_keys
from tidemark.event_groups.execution.rollback import is_needed
from tidemark.event_groups.execution.run import lock_of, run_event_groups
from tidemark.event_groups.operating import preview
from tidemark.event_groups.stream.history import existing
from tidemark.event_groups.stream.holding import HeldGroups
from tidemark.event_groups.stream.owned_tables import OwnedTables, Users
from tidemark.event_groups.stream.states import EventState, GroupState, StoredGroup
from tidemark.event_groups.stream.store import Stream
from tidemark.event_groups.stream.submission import submit
from tidemark.event_groups.topic.run import run_submit_topic
from tidemark.ledger.locks import Locks


def run_submit(
    run: RunContext,
    stream: str,
    files: Sequence[Path],
    topic: str | None,
    *,
    execute: bool,
    shows_values: bool,
    dry_run: bool,
) -> Outcome:
    """Submit the groups of files or of a topic, and execute their stream if `execute` is set.

    Raises:
        InvalidInput: there are neither files nor a topic, or both, or `shows_values` does not fit.
    """
    if bool(files) is (topic is not None):
        what = "there are files and a topic" if files else "there is neither a file nor a topic"
        raise InvalidInput(what, where="FILE, --topic", do="name files, or a topic")
    if shows_values and (topic is not None or not dry_run):
        what = "values are shown in a dry run over files"
        raise InvalidInput(what, where="--values", do="add --dry-run, or leave it out")
    if topic is not None:
        submitted = run_submit_topic(run, stream, topic, dry_run=dry_run)
    else:
        submitted = _submit_files(run, stream, files, shows_values=shows_values, dry_run=dry_run)
    if dry_run or not execute:
        return submitted
    executed = run_event_groups(run, stream)
    return replace(
        executed,
        state=RunState.FAILED if submitted.error else executed.state,
        counts={**submitted.counts, **executed.counts},
        lines=[*submitted.lines, *executed.lines],
        error=submitted.error or executed.error,
    )


def _submit_files(
    run: RunContext, stream: str, files: Sequence[Path], *, shows_values: bool, dry_run: bool
) -> Outcome:
    """Check groups and append them to a stream, in the order of the files.

    Raises:
        InvalidInput: a file is missing, or another group of that id was submitted before.
        DefinitionError: a group cannot be executed; none of the files is submitted then.
    """
    checked = [load(file) for file in files]
    create_own_tables(run.control, run.settings)
    checks = Checks(run, stream)
    for definition, fault in checked:
        checks.check(definition, fault)
    lines, counts = [], {"groups": len(checked), "groups_submitted": 0}
    target = Stream(run, stream)
    if dry_run:
        groups = [with_comparable_keys(run.control, definition) for definition, _ in checked]
        for definition in groups:
            target.require_free(definition)
        lines = preview.shown(run.control, groups, target.open(), shows_values=shows_values)
        return Outcome(RunState.PLANNED, PieceCounts(len(checked)), counts, lines)
    for definition, _ in checked:
        line, is_new = submit(run, target, definition)
        counts["groups_submitted"] += is_new
        lines.append(line)
    state = RunState.DONE if counts["groups_submitted"] else RunState.NOTHING
    return Outcome(state, counts=counts, lines=lines)


def run_retry(run: RunContext, stream: str, name: str, *, apply: bool) -> Outcome:
    """Let the next run retry the rollback of a group.

    Raises:
        InvalidInput: there is no such group, or its rollback has not failed.
    """
    transitions = {GroupState.ROLLBACK_FAILED: GroupState.ROLLING_BACK}
    return _change(run, stream, name, transitions, "rolling-back", apply=apply)


def run_cancel(run: RunContext, stream: str, name: str, *, apply: bool) -> Outcome:
    """Cancel a group that has not begun, or roll back one that is running.

    This needs no lock of the stream: the state changes in one transaction, and a run that executes
    the group notices the change.

    Raises:
        InvalidInput: there is no such group, or it has ended, or is being rolled back.
    """
    transitions = {
        GroupState.SUBMITTED: GroupState.CANCELLED,
        GroupState.RUNNING: GroupState.ROLLING_BACK,
    }
    return _change(run, stream, name, transitions, "cancelled", apply=apply, is_cancelled=True)


def run_settle(
    run: RunContext, stream: str, name: str, settled_as: GroupState, *, apply: bool
) -> Outcome:
    """End a group that cannot be rolled back, and leave its rows as they are.

    The lock of the stream keeps runs from executing the group after its end.

    Raises:
        LockHeld: a run works on the stream.
        InvalidInput: there is no such group, or it is not being rolled back.
    """
    transitions = {GroupState.ROLLBACK_FAILED: settled_as, GroupState.ROLLING_BACK: settled_as}
    return _change(run, stream, name, transitions, "settled", lock_of(stream), apply=apply)


def run_release(run: RunContext, name: str, *, apply: bool) -> Outcome:
    """Let other streams use a table that no open group of its current streams uses.

    Raises:
        LockHeld: a run works on one of the streams.
        InvalidInput: no stream uses the table, or an open group does.
    """
    create_own_tables(run.control, run.settings)
    owned = OwnedTables(run)
    name = owned.named(name)
    users = owned.users(name)

    def plan() -> Plan:
        if not users.all:
            raise InvalidInput(
                f"no stream uses the table {name}", do="name it as keyspace.table, as groups do"
            )
        newest = [_unused_since(Stream(run, stream), name) for stream in users.all]

        def change(ensure_locked: EnsureLocked) -> dict[str, int]:
            ensure_locked()
            released = Users(last_write_time=max(users.last_write_time, *newest))
            if not owned.change(name, users, released):
                raise InvalidInput(
                    f"the streams that use the table {name} have changed meanwhile",
                    do="run it again",
                )
            return {"tables": 1}

        lines = [f"{name}: is not used by {', '.join(users.all)} any more"]
        return Plan({"tables": 1}, lines, change)

    # The locks of its streams keep runs from executing a group that has ended meanwhile.
    locks = [f"event-group-table/{name}", *map(lock_of, users.all)]
    return guarded_change(
        *(run, "event group table released", name, plan),
        lock=lambda: Locks.of(run, locks),
        apply=apply,
    )


def _unused_since(stream: Stream, name: str) -> int:
    """Return the newest write time of a stream's groups, if no open group uses the table.

    Raises:
        InvalidInput: an open group uses it.
    """
    newest = [stream.last_write_time()]
    for group in stream.open(
        ended=lambda ended: newest.extend(group.last_write_time for group in ended)
    ):
        if group.definition.refusal or name in group.definition.tables:
            raise InvalidInput(
                f"the group {group.id} uses the table {name}, and is {group.state}",
                where=f"stream {stream.name}",
                do="wait until it has ended, or cancel or settle it",
            )
    return max(newest)


def _change(
    run: RunContext,
    stream: str,
    name: str,
    transitions: Mapping[GroupState, GroupState],
    operation: str,
    *more_locks: str,
    apply: bool,
    is_cancelled: bool = False,
) -> Outcome:
    create_own_tables(run.control, run.settings)
    groups = Stream(run, stream)

    def plan() -> Plan:
        group = existing(groups, name)
        if group.state not in transitions:
            raise InvalidInput(
                f"the group {name} is {group.state}, and not {' or '.join(transitions)}",
                where=f"stream {stream}",
            )
        new_state = transitions[group.state]
        reason = f"cancelled by {run.owner}" if is_cancelled else group.reason

        def change(ensure_locked: EnsureLocked) -> dict[str, int]:
            ensure_locked()
            # A run that died may have recorded the write time only with the events.
            newest = groups.newest_write_time(name) if new_state.has_ended else 0
            HeldGroups(run, groups).note_change(group.version)
            if not groups.set_state(
                *(name, group.state, new_state, reason),
                last_write_time=newest or None,
                is_cancelled=is_cancelled,
                version=group.version,
            ):
                raise InvalidInput(
                    f"the group {name} was changed meanwhile: it is {groups.state_of(name)[0]}",
                    where=f"stream {stream}",
                    do="look at its status, and decide once more",
                )
            if new_state.has_ended:
                groups.images.forget_of_all(name, ensure_locked)
            return {"groups": 1}

        lines = [f"{name}: {group.state} becomes {new_state}"]
        if new_state.has_ended and group.state is not GroupState.SUBMITTED:
            lines += _lines_of_kept_events(groups, group)
        return Plan({"groups": 1}, lines, change)

    return guarded_change(
        run,
        f"event group {operation}",
        name,
        plan,
        lock=lambda: Locks.of(run, [f"event-group/{stream}/{name}", *more_locks]),
        apply=apply,
    )


def _lines_of_kept_events(stream: Stream, group: StoredGroup) -> list[str]:
    """Return the events of a group that are not undone, as lines of a report."""
    events = stream.events(group.id)
    if group.definition.refusal:
        return [f"  {event}: {stored.state}, left as it is" for event, stored in events.items()]
    return [
        f"  {event}: {stored.state}, left as it is"
        for event, stored in events.items()
        if is_needed(group.definition, event, stored)
        and (group.takes_back_all or stored.state is not EventState.DONE)
    ]


def drawn(file: Path, *, as_mermaid: bool, as_json: bool) -> str:
    """Return the graph of a group in a file as text, JSON or Mermaid, without Cassandra.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: the group cannot be used.
    """
    definition, _ = load(file)
    if as_json:
        return json.dumps(dag.waves(definition.graph))
    if as_mermaid:
        return dag.as_mermaid(definition.graph, definition.summaries())
    return "\n".join(dag.as_text(definition.graph, definition.summaries()))
