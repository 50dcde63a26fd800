"""The rule of acceptance as a reader applies it, one event after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.projection.acceptance.rule import Validation


@dataclass(frozen=True)
class Seen:
    """An event of one series. `there`: it may be consumed; `back`: where the reader was before."""

    number: int
    there: bool = True
    before: bool = False
    back: bool = False


@dataclass(frozen=True)
class Series:
    """What is stored of a series, what was deleted of it, and what is seen now.

    `beheaded`: older events may have been purged.
    """

    stored: int | None
    deleted_to: int
    events: tuple[Seen, ...]
    beheaded: bool = False


def reached(series: Series) -> int:
    """The highest number such that everything up to it is consumed."""
    current = _base(series)
    for number in sorted({event.number for event in series.events if event.there}):
        if number == current + 1:
            current = number
    return current


def judge(series: Series) -> list[Validation]:
    """The result of each event that is there, in the order given."""
    present = [event for event in series.events if event.there]
    base, end = _base(series), reached(series)
    return [_result(event, base, end) for event in present]


def _base(series: Series) -> int:
    """What the first event that is consumed must follow."""
    if series.stored is not None:
        return series.stored
    # Of an event at two places the one inside counts.
    inside = {event.number for event in series.events if event.there and not event.before}
    before = {event.number for event in series.events if event.there and event.before} - inside
    if inside and min(inside) - 1 in before:
        return min(inside) - 1
    lowest = min(inside | before, default=series.deleted_to + 1)
    if series.beheaded:
        waiting = {event.number for event in series.events if not event.there}
        return min(waiting | {lowest}) - 1
    return min(series.deleted_to, lowest - 1)


def _result(event: Seen, base: int, end: int) -> Validation:
    if event.number <= base:
        return Validation.DUPLICATE
    if event.number <= end:
        return Validation.ACCEPTED
    return Validation.REJECTED_BACKTRACKING if event.back else Validation.REJECTED


def seen(numbers: Iterable[int], **options: bool) -> tuple[Seen, ...]:
    """Events of those numbers, alike in all else."""
    return tuple(Seen(number, **options) for number in numbers)


@dataclass(frozen=True)
class Life:
    """A persistence id that may have begun anew: (number, second) stored and of each event."""

    stored: tuple[int, int] | None
    deleted_to: int
    events: tuple[tuple[int, int], ...]


def judge_lives(life: Life, after: int) -> list[Validation]:
    """The result of each event, in the order given.

    A reader that meets a lower number behind the known time plus `after` forgets what it knew, and
    reads from 1 on what is that young.
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
        Validation.DUPLICATE
        if at <= second + after
        else Validation.ACCEPTED
        if seq_nr <= current
        else Validation.REJECTED
        for seq_nr, at in life.events
    ]
