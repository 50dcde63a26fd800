"""A model of the rule of acceptance: a reader that takes one event after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ACCEPTED, DUPLICATE, REJECTED = "Accepted", "Duplicate", "RejectedSeqNr"
REJECTED_BACKTRACKING = "RejectedBacktrackingSeqNr"
"""The results, by the names that Pekko's projections use."""


@dataclass(frozen=True)
class Seen:
    """An event of a series; `there`: it may be consumed; `back`: in a time bucket read before.

    `bucket`: when it happened.
    """

    number: int
    there: bool = True
    before: bool = False
    back: bool = False
    bucket: int = 0


@dataclass(frozen=True)
class Series:
    """A series: its stored frontier, its deletions, and the events that a run sees.

    `truncated_from`: if its first event is in this bucket or later, older ones may be gone.
    """

    stored: int | None
    deleted_to: int
    events: tuple[Seen, ...]
    truncated_from: int | None = None


def reached(series: Series) -> int:
    """Return the highest number up to which every event is consumed."""
    current = _base(series)
    for number in sorted({event.number for event in series.events if event.there}):
        if number == current + 1:
            current = number
    return current


def judge(series: Series) -> list[str]:
    """Return the result of each event that is `there`, in the order given."""
    present = [event for event in series.events if event.there]
    base, end = _base(series), reached(series)
    return [_result(event, base, end) for event in present]


def _base(series: Series) -> int:
    """Return the number that the first event to be consumed must follow."""
    if series.stored is not None:
        return series.stored
    # If an event stands both inside and before the window, the row inside counts.
    inside = {event.number for event in series.events if event.there and not event.before}
    before = {event.number for event in series.events if event.there and event.before} - inside
    if inside and min(inside) - 1 in before:
        return min(inside) - 1
    lowest = min(inside | before, default=series.deleted_to + 1)
    first = min(((event.number, event.bucket) for event in series.events), default=(lowest, 0))
    if series.truncated_from is not None and first[1] >= series.truncated_from:
        return min(first[0], lowest) - 1
    return min(series.deleted_to, lowest - 1)


def _result(event: Seen, base: int, end: int) -> str:
    if event.number <= base:
        return DUPLICATE
    if event.number <= end:
        return ACCEPTED
    return REJECTED_BACKTRACKING if event.back else REJECTED


def seen(numbers: Iterable[int], *, bucket: int = 0, **options: bool) -> tuple[Seen, ...]:
    """Return events with these numbers and the same options."""
    return tuple(Seen(number, bucket=bucket, **options) for number in numbers)


@dataclass(frozen=True)
class Life:
    """A persistence id that may have begun anew: (number, second) as stored, and of each event."""

    stored: tuple[int, int] | None
    deleted_to: int
    events: tuple[tuple[int, int], ...]


def judge_lives(life: Life, after: int) -> list[str]:
    """Return the result of each event, in the order given.

    When a number up to the stored one appears more than `after` seconds after the stored second,
    the reader forgets the stored number and accepts, from 1 on, the events that are that young.
    """
    number, second = life.stored or (None, 0)
    is_anew = number is not None and any(
        life.deleted_to < seq_nr <= number and at > second + after for seq_nr, at in life.events
    )
    if not is_anew:
        return judge(Series(number, life.deleted_to, seen(seq_nr for seq_nr, _ in life.events)))
    current = 0
    young = sorted(seq_nr for seq_nr, at in life.events if at > second + after)
    for seq_nr in young:
        if seq_nr == current + 1:
            current = seq_nr
    return [
        DUPLICATE if at <= second + after else ACCEPTED if seq_nr <= current else REJECTED
        for seq_nr, at in life.events
    ]
