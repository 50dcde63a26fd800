"""The command `get-offset`: shows offsets of series and cursors of slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.journals.pekko.series import epoch_ms
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.project.management.selection import select_one
from tidemark.project.management.set_offset import series_of
from tidemark.project.offset_store.offset_places import Offset
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.text import counted, harmless
from tidemark.window import from_millis, iso


def get_offset(
    run: RunContext,
    name: str,
    *,
    persistence_id: str | None,
    tag: str | None,
    slice_number: int | None,
    everything: bool,
) -> Outcome:
    """Show the offsets of a persistence id, or the number of offsets and the cursors.

    A persistence id has an offset for each tag; `tag` selects one. `slice_number` selects a slice.
    `everything` prints each offset, a page at a time.

    Raises:
        InvalidInput: the projection or tag is unknown, or the options contradict each other.
    """
    if persistence_id is None and tag is not None:
        raise InvalidInput("a tag alone is no series", where="--tag", do="give --persistence-id")
    definition = select_one(run, name)
    store = OffsetStore.of(run, definition)
    if persistence_id is not None:
        offsets = store.offsets_of_id(persistence_id)
        if tag is not None:
            series = series_of(definition, persistence_id, tag)
            offsets = [offset for offset in offsets if offset.series == series]
        lines = [_line(offset) for offset in offsets] or [f"{persistence_id}: nothing is consumed"]
        return Outcome(
            RunState.DONE,
            counts={"series": len(offsets)},
            lines=lines,
            details={"offsets": [_json(offset) for offset in offsets]},
        )
    slices = range(NUMBER_OF_SLICES) if slice_number is None else [slice_number]
    return _summary(store, slices, everything=everything)


def _summary(store: OffsetStore, slices: Sequence[int], *, everything: bool) -> Outcome:
    if everything:
        for offset in store.stream(slices):
            print(harmless(_line(offset)))
    by_slice = store.series_by_slice(slices)
    all_cursors = store.cursors()
    cursors = {number: all_cursors[number] for number in slices if number in all_cursors}
    total = sum(by_slice.values())
    lines = [f"{total:,} series in {counted(len(by_slice), 'slice')}"]
    if cursors:
        lines += [_cursor_line("newest", cursors, max(cursors, key=cursors.__getitem__))]
        lines += [_cursor_line("oldest", cursors, min(cursors, key=cursors.__getitem__))]
    details = {
        "slices": [
            {
                "slice": number,
                "series": by_slice.get(number, 0),
                "cursor": iso(cursors[number]) if number in cursors else None,
            }
            for number in sorted(by_slice.keys() | cursors.keys())
        ]
    }
    return Outcome(RunState.DONE, counts={"series": total}, lines=lines, details=details)


def _cursor_line(which: str, cursors: Mapping[int, datetime], number: int) -> str:
    return f"{which} cursor {_time(cursors[number])} (slice {number})"


def _line(offset: Offset) -> str:
    nr = f", sequence nr {offset.sequence_nr}" if offset.series.tag else ""
    event = offset.event_timeuuid
    event_time = f", event of {_time(from_millis(epoch_ms(event)))}" if event else ""
    consumed = f", consumed {_time(offset.consumed_at)}" if offset.consumed_at else ""
    return (
        f"{offset.series}: {offset.number}{nr}{event_time}{consumed} (slice {offset.series.slice})"
    )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _json(offset: Offset) -> dict[str, Any]:
    return {
        "persistence_id": offset.series.persistence_id,
        "tag": offset.series.tag,
        "slice": offset.series.slice,
        "number": offset.number,
        "sequence_nr": offset.sequence_nr,
        "timestamp": str(offset.event_timeuuid) if offset.event_timeuuid else None,
        "consumed_at": iso(offset.consumed_at) if offset.consumed_at else None,
    }
