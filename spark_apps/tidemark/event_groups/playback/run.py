"""The playback: groups that have ended, in their order, and the differences that are left.

Each statement is sent with the parameters and the write time that are stored of it. So nobody is
asked again, a playback that is repeated writes the same, and none wins over what is newer.
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

_SAID_EVERY = 100
_LAST_SECONDS = 2
"""Until what gets a TTL of a second has expired, which Cassandra counts in whole seconds."""


def run_playback(
    run: RunContext, stream: str, asked: SelectedPart, into: Sequence[str], *, apply: bool
) -> Outcome:
    """Send the writes of groups that have ended to other keyspaces, and compare the rows.

    Args:
        run: the context of the run.
        stream: the name of the stream.
        asked: which groups.
        into: each `KEYSPACE=KEYSPACE`, the one that was written to first.
        apply: whether to write; else the rows are compared as they are.

    Raises:
        InvalidInput: groups or keyspaces that cannot be played.
        SchemaMismatch: a table of the other keyspace is not there, or is another one.
        CassandraUnavailable: a statement was refused or not answered; it may be played again.
        LockHeld: a run works on the stream, or purge on event groups.
    """
    create_own_tables(run.control, run.settings)
    playback = _Playback(run, stream, asked, keyspaces.mapping(run.settings, into))
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
    """The playback of a part of a stream, which is gone through group by group."""

    def __init__(
        self, run: RunContext, stream: str, asked: SelectedPart, into: Mapping[str, str]
    ) -> None:
        self._run, self._into = run, into
        self._stream, self._history = Stream(run, stream), History(run, stream)
        self.part = selection.fixed(self._stream, asked)
        self.copies = Copies(run)

    def groups(self, done: str) -> Iterator[list[PlayedEvent]]:
        """Yield the writes of each group; `done` is what is said to be done with groups."""
        groups = selection.groups(self._stream, self._history, self.part)
        for number, group in enumerate(groups, 1):
            yield selection.events(self._stream, group, self._into)
            if not number % _SAID_EVERY:
                self._run.say(f"{done} {number:,} groups, up to number {group.sequence}")

    def plan(self) -> Plan:
        """Check all groups and the tables that they write to, and count."""
        counts = dict.fromkeys(
            ("groups_played", "groups_left_out", "events_played", "statements_played"), 0
        )
        for events in self.groups("checked"):
            counts["groups_played" if events else "groups_left_out"] += 1
            for event in events:
                self.copies.table(event)
                counts["events_played"] += 1
                counts["statements_played"] += (
                    self._many.checked(event) if event.has_many else len(event.parameters)
                )

        def change(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            self._play(ensure_locked)
            return counts

        lines = [f"{one} is played into {other}" for one, other in self._into.items()]
        return Plan(counts, lines, change if counts["statements_played"] else None)

    def compare(self, comparison: KeyspaceComparison) -> None:
        """Compare what the groups have written; of many rows each table as a whole."""
        of_tables: dict[str, list[PlayedEvent]] = {}
        for events in self.groups("compared"):
            comparison.add([event for event in events if not event.has_many])
            for event in events:
                if event.has_many:
                    of_tables.setdefault(event.source.name, []).append(event)
        for name, events in of_tables.items():
            comparison.add_found(name, *self._many.differences(events, comparison.seen(name)))

    @cached_property
    def _many(self) -> ManyRowsPlayback:
        # Imported here, so that groups without many rows do not wait for Spark.
        from tidemark.event_groups.playback.many_rows import ManyRowsPlayback

        return ManyRowsPlayback(self._run, self._stream.name, self.copies)

    def _play(self, ensure_locked: EnsureLocked) -> None:
        def sent(one: tuple[PlayedEvent, Parameters]) -> None:
            event, parameters = one
            ensure_locked()
            with event.named():
                send(
                    *(self._run.control, event.target, parameters),
                    *(event.write_time, event.event.timeout),
                )

        has_expired = False
        for events in self.groups("played"):
            few = [event for event in events if not event.has_many]
            in_parallel(sent, [(event, one) for event in few for one in event.parameters])
            for event in events:
                if event.has_many:
                    self._many.play(event, ensure_locked)
            has_expired |= any(event.target.ttl == 1 for event in events)
        if has_expired:
            time.sleep(_LAST_SECONDS)
