"""How far readers of kafka-journal may trust Cassandra: below the oldest record in quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import batch_now, reached
from tidemark.replicate.progress.kept_back import KeptBack, kept_back
from tidemark.replicate.ranges import NO_POINTER, Range, Ranges
from tidemark.replicate.tables import pointers


def after(pointer: int, end: int, lowest_kept_back: int | None) -> int:
    """Return the pointer of a partition that is replicated up to before `end`; it never decreases.

    `lowest_kept_back` is the lowest offset in quarantine that keeps back others; None without.
    """
    last = end - 1 if lowest_kept_back is None else min(end, lowest_kept_back) - 1
    return max(pointer, last)


def raise_to_kept_back(
    run: RunContext, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, KeptBack]:
    """Raise the pointers of partitions with fewer records kept back; return the remaining ones.

    The ledger records the pointers before and after, so a run that dies between leaves a known one.
    """
    remaining = kept_back(run, partitions)
    ledger, settings = Ranges(run), run.settings
    raised: list[Range] = []
    positions = reached(run.control, settings, partitions)
    for tp, entry in positions.items():
        if entry.own is not None:
            lowest = remaining[tp].first if tp in remaining else None
            pointer = after(entry.pointer, entry.own.end, lowest)
            if pointer > entry.pointer or entry.own.raised_from != NO_POINTER:
                raised.append(replace(entry.own, pointer_after=pointer, raised_from=entry.pointer))
    if raised:
        ledger.raise_pointers(raised)
        new = {r.partition: r.pointer_after for r in raised}
        before = {tp: positions[tp].pointer for tp in new if positions[tp].pointer != NO_POINTER}
        pointers.write(run.control, settings, new, batch_now(settings).at, before)
        ledger.raise_pointers(replace(r, raised_from=NO_POINTER) for r in raised)
    return remaining
