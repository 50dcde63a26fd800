"""The application of a plan: head by head, in an order that may end anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.kafka_journal.tables import OLD_SEGMENTS, SEGMENTS
from tidemark.partitioning.keys import head_segment
from tidemark.retention.kafka_journal import store
from tidemark.retention.kafka_journal.journals import Journal
from tidemark.retention.kafka_journal.store import Begun, Doomed

_AT_ONCE = 100
"""Journals that are deleted between two looks at the locks."""
T = TypeVar("T")


@dataclass(frozen=True)
class Verdicts:
    """What is to be done of each expired journal.

    Attributes:
        doomed: they go.
        kept: they stay, each with the reason.
        unfinished: what an earlier purge began, and none of the doomed is.
        more: how many expired journals were not looked at.
    """

    doomed: list[Journal]
    kept: list[tuple[Journal, str]]
    unfinished: list[Begun]
    more: int


def purge(
    run: RunContext, verdicts: Verdicts, counts: Mapping[str, int], ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    """Purge what is doomed and unchanged, finish what was begun; return the counts.

    Raises:
        LockLost: another run may work on the journals.
    """
    gone = moved = 0
    for part in _parts(verdicts.doomed):
        ensure_locked()
        going = _unchanged(run, part)
        ended = _purge(run, going, ensure_locked)
        gone, moved = gone + ended, moved + len(part) - ended
    for begun_part in _parts(verdicts.unfinished):
        _finish(run, begun_part, ensure_locked)
    return {**counts, "journals_purged": gone, "journals_moved": moved}


def _unchanged(run: RunContext, journals: Sequence[Journal]) -> list[Doomed]:
    """Return the journals whose heads are as they were planned, each with the time of its deletes.

    One more than the newest write: it hides what was read, and nothing that is written from now on.
    """
    keys = [(one.head.topic, one.head.segment, one.head.id) for one in journals]
    found = store.heads(run.control, run.settings, keys)
    return [
        Doomed(one, max(one.write_time, now[1]) + 1)
        for one, now in zip(journals, found, strict=True)
        if now is not None and now[0] == one.head
    ]


def _purge(run: RunContext, going: Sequence[Doomed], ensure_locked: EnsureLocked) -> int:
    """Delete journals and return how many are gone: one that is appended to keeps its head."""
    control, settings = run.control, run.settings
    store.begin(control, settings, going, run.run_id)
    ensure_locked()
    store.mark_deleted(control, settings, going)
    ensure_locked()
    store.delete_segments(
        control,
        settings,
        [
            (
                one.journal.head.id,
                one.journal.head.topic,
                one.journal.first_segment,
                one.journal.last_segment,
                one.write_time,
            )
            for one in going
        ],
    )
    ensure_locked()
    alive = store.survivors(control, settings, going)
    ended = [one for place, one in enumerate(going) if place not in alive]
    store.delete_heads(control, settings, ended)
    ensure_locked()
    store.end(control, settings, [(one.journal.head.topic, one.journal.head.id) for one in going])
    return len(ended)


def _finish(run: RunContext, begun: Sequence[Begun], ensure_locked: EnsureLocked) -> None:
    """Delete what a killed run left of journals whose heads have changed since, or are gone."""
    control, settings = run.control, run.settings
    segments = [
        (head_segment(one.id, SEGMENTS), head_segment(one.id, OLD_SEGMENTS)) for one in begun
    ]
    keys = [
        (one.topic, segment, one.id)
        for one, own in zip(begun, segments, strict=True)
        for segment in own
    ]
    found = store.heads(control, settings, keys)
    places = []
    for number, one in enumerate(begun):
        heads = [head for head in found[2 * number : 2 * number + 2] if head is not None]
        # Without a head all was deleted; a head that was not marked yet still shows all of it.
        if heads and (heads[0][0].deleted_to or 0) >= one.deleted_to:
            span = (one.first_segment, one.last_segment)
            places.append((one.id, one.topic, *span, one.write_time))
    ensure_locked()
    store.delete_segments(control, settings, places)
    ensure_locked()
    store.end(control, settings, [(one.topic, one.id) for one in begun])


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + _AT_ONCE] for first in range(0, len(items), _AT_ONCE))
