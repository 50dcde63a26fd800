"""The playback: sends the writes of ended groups again, in their order, and compares the rows.

Each statement is sent with its stored parameters and write time. So no external service is called
again, a repeated playback writes the same, and no value wins over a newer one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, RunContext
from tidemark.event_groups.driver_engine.statements import Parameters, in_parallel, send
from tidemark.event_groups.execution.run import lock_of
from tidemark.event_groups.playback import keyspaces, selection
from tidemark.event_groups.playback.comparison import KeyspaceComparison
from tidemark.event_groups.playback.copies import Copies
from tidemark.event_groups.playback.selection import PlayedEvent, SelectedPart
from tidemark.event_groups.stream.history import History
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger.locks import Locks
from tidemark.purge.own_tables import old_rows

if TYPE_CHECKING:
    from tidemark.event_groups.playback.many_rows import ManyRowsPlayback

_REPORT_EVERY = 100
_EXPIRY_S = 2
"""Seconds until values with a TTL of one have expired: Cassandra counts whole seconds."""


def run_playback(
    run: RunContext, stream: str, part: SelectedPart, into: Sequence[str], *, apply: bool
) -> Outcome:
    """Send the writes of groups that have ended to other keyspaces, and compare the rows.

    Each text of `into` is `KEYSPACE=KEYSPACE`, with the keyspace that was written to first. Without
    `apply`, nothing is sent, and the rows are compared as they are.

    Raises:
        InvalidInput: groups or keyspaces cannot be played.
        SchemaMismatch: a table of the other keyspace does not exist, or differs.
        CassandraUnavailable: a statement was rejected or not answered; it may be played again.
        LockHeld: a run works on the stream, or purge on event groups.
    """
    create_own_tables(run.control, run.settings)
    playback = _Playback(run, stream, part, keyspaces.mapping(run.settings, into))
    outcome = guarded_change(
        run,
        "playback of event groups",
        f"{stream}: {playback.part}",
        playback.plan,
        lock=lambda: Locks.of(run, [lock_of(stream), old_rows.lock_of(run, "event_group")]),
        apply=apply,
    )
    with KeyspaceComparison(run.control, playback.copies) as comparison:
        playback.compare(comparison)
        return replace(
            outcome,
            counts={**outcome.counts, **comparison.counts},
            lines=[*outcome.lines, *comparison.lines],
        )


class _Playback:
    """The playback of a part of a stream, which is read group by group."""

    def __init__(
        self, run: RunContext, stream: str, part: SelectedPart, into: Mapping[str, str]
    ) -> None:
        self._run, self._into = run, into
        self._stream, self._history = Stream(run, stream), History(run, stream)
        self.part = selection.fixed(self._stream, part)
        self.copies = Copies(run)

    def groups(self, done: str) -> Iterator[list[PlayedEvent]]:
        """Yield the writes of each group; `done` is the verb in progress messages."""
        groups = selection.groups(self._stream, self._history, self.part)
        for number, group in enumerate(groups, 1):
            yield selection.events(self._stream, group, self._into)
            if not number % _REPORT_EVERY:
                self._run.say(f"{done} {number:,} groups, up to number {group.sequence}")

    def plan(self) -> Plan:
        """Check all groups and the tables that they write, and count."""
        counts = dict.fromkeys(
            ("groups_played", "groups_left_out", "events_played", "statements_played"), 0
        )
        for events in self.groups("checked"):
            counts["groups_played" if events else "groups_left_out"] += 1
            for event in events:
                self.copies.table(event)
                counts["events_played"] += 1
                counts["statements_played"] += (
                    self._many_rows.checked(event) if event.has_many else len(event.parameters)
                )

        def change(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            self._play(ensure_locked)
            return counts

        lines = [f"{source} is played into {target}" for source, target in self._into.items()]
        return Plan(counts, lines, change if counts["statements_played"] else None)

    def compare(self, comparison: KeyspaceComparison) -> None:
        """Compare what the groups have written; many rows are compared by table."""
        events_by_table: dict[str, list[PlayedEvent]] = {}
        for events in self.groups("compared"):
            comparison.add([event for event in events if not event.has_many])
            for event in events:
                if event.has_many:
                    events_by_table.setdefault(event.source.name, []).append(event)
        for name, events in events_by_table.items():
            comparison.add_table(name, *self._many_rows.differences(events, comparison.seen(name)))

    @cached_property
    def _many_rows(self) -> ManyRowsPlayback:
        # Imported here, so that groups without many rows do not wait for Spark.
        from tidemark.event_groups.playback.many_rows import ManyRowsPlayback

        return ManyRowsPlayback(self._run, self._stream.name, self.copies)

    def _play(self, ensure_locked: EnsureLocked) -> None:
        def sent(call: tuple[PlayedEvent, Parameters]) -> None:
            event, parameters = call
            ensure_locked()
            with event.named():
                send(
                    *(self._run.control, event.target, parameters),
                    *(event.write_time, event.event.timeout),
                )

        has_expired = False
        for events in self.groups("played"):
            few = [event for event in events if not event.has_many]
            in_parallel(sent, [(event, values) for event in few for values in event.parameters])
            for event in events:
                if event.has_many:
                    self._many_rows.play(event, ensure_locked)
            has_expired |= any(event.target.ttl == 1 for event in events)
        if has_expired:
            time.sleep(_EXPIRY_S)
