"""The rule of numbering, worked out one event after the other, by trying every numbering.

Independent of `tidemark.numbering`: no ranks and no shifts, only how many events there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True)
class Series:
    """A persistence id under one tag.

    Attributes:
        events: the sequence nrs of messages, with whether the event carries the tag.
        rows: (sequence nr, number) of rows; of events that are in messages only if they carry it.
        progress: (sequence nr, number), or None.
    """

    events: Mapping[int, bool]
    rows: Sequence[tuple[int, int]] = ()
    progress: tuple[int, int] | None = None


@dataclass
class Numbering:
    """The numbers of tagged events and of rows without an event, and what is contradicted."""

    numbers: dict[int, int] = field(default_factory=dict)
    progress: int | None = None
    agreement: int = 0
    """The weight of the rows and the progress that have the number which they should have."""


def numbering(series: Series) -> Numbering:
    """Number the events with as little contradiction as possible, and then as low as possible."""
    counted = {nr for nr, tagged in series.events.items() if tagged} | {nr for nr, _ in series.rows}
    last = max([*series.events, *counted, *(series.progress or ())[:1]], default=0)
    missing = [nr not in series.events and nr not in counted for nr in range(1, last + 1)]
    votes = _votes(series, counted, missing)

    @cache
    def best(nr: int, count: int) -> tuple[int, tuple[int, ...]]:
        """Return the agreement from sequence nr on, and the counts that have it, the lowest."""
        if nr > last:
            return 0, ()
        options = []
        for step in (0, 1) if missing[nr - 1] else (int(nr in counted),):
            agreement, rest = best(nr + 1, count + step)
            options.append((agreement + votes.get((nr, count + step), 0), (count + step, *rest)))
        return max(options, key=lambda option: (option[0], [-count for count in option[1]]))

    agreement, path = best(1, 0)
    counts = (0, *path)
    reached = None if series.progress is None else counts[series.progress[0]]
    return Numbering({nr: counts[nr] for nr in sorted(counted)}, reached, agreement)


def agreement_of(series: Series, found: Numbering) -> int:
    """Return the agreement of other numbers, which must be possible ones."""
    counted = sorted(found.numbers)
    last = max([*series.events, *counted], default=0)
    missing = [nr not in series.events and nr not in found.numbers for nr in range(1, last + 1)]
    before, number_before = 0, 0
    for nr in counted:
        holes = sum(missing[before : nr - 1])
        assert 1 <= found.numbers[nr] - number_before <= 1 + holes
        before, number_before = nr, found.numbers[nr]
    counts = dict(found.numbers)
    if series.progress is not None and found.progress is not None:
        counts.setdefault(series.progress[0], found.progress)
    end = max([last, *counts])
    gone = [nr not in series.events and nr not in found.numbers for nr in range(1, end + 1)]
    votes = _votes(series, set(counted), gone)
    return sum(weight for (nr, number), weight in votes.items() if counts[nr] == number)


def _votes(
    series: Series, counted: set[int], missing: Sequence[bool]
) -> dict[tuple[int, int], int]:
    """Return the weight of each (sequence nr, number of events up to it) that a table names.

    In a run between two holes all agree on one numbering: the one of a progress with its row, else
    the one with most rows.
    """
    claims: dict[int, dict[int, list[tuple[int, int, bool]]]] = {}

    def claim(nr: int, number: int, *, is_row: bool) -> None:
        holes = sum(missing[:nr])
        offset = number - sum(1 for other in counted if other <= nr)
        if 0 <= offset <= holes:
            claims.setdefault(holes, {}).setdefault(offset, []).append((nr, number, is_row))

    for nr, number in series.rows:
        claim(nr, number, is_row=True)
    if series.progress is not None:
        claim(*series.progress, is_row=False)
    votes: dict[tuple[int, int], int] = {}
    for offsets in claims.values():

        def rows_of(offset: int, offsets: dict[int, list[tuple[int, int, bool]]] = offsets) -> int:
            return sum(is_row for *_, is_row in offsets[offset])

        def weight_of(
            offset: int, offsets: dict[int, list[tuple[int, int, bool]]] = offsets
        ) -> int:
            is_confirmed = {(nr, number) for nr, number, is_row in offsets[offset] if is_row} & {
                (nr, number) for nr, number, is_row in offsets[offset] if not is_row
            }
            return max(2 * rows_of(offset), 1) + (1000 if is_confirmed else 0)

        chosen = min(offsets, key=lambda offset: (-weight_of(offset), offset))
        weight = weight_of(chosen)
        nr, number, _ = offsets[chosen][0]
        votes[nr, number] = votes.get((nr, number), 0) + weight
    return votes
