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


def after(known: int, end: int, lowest_kept_back: int | None) -> int:
    """Return the pointer of a partition that is replicated up to before `end`; never a lower one.

    Args:
        known: the pointer before.
        end: the offset after the last one.
        lowest_kept_back: the lowest offset in quarantine that keeps back others; None without.
    """
    last = end - 1 if lowest_kept_back is None else min(end, lowest_kept_back) - 1
    return max(known, last)


def raise_to_kept_back(
    run: RunContext, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, KeptBack]:
    """Raise the pointers of partitions that less is kept back of by now; return what still is.

    The ledger says so before and after: a run that dies between leaves a pointer that is known.
    """
    kept = kept_back(run, partitions)
    ledger, settings = Ranges(run), run.settings
    raised: list[Range] = []
    known = reached(run.control, settings, partitions)
    for one, entry in known.items():
        if entry.own is not None:
            lowest = kept[one].first if one in kept else None
            pointer = after(entry.pointer, entry.own.end, lowest)
            if pointer > entry.pointer or entry.own.raised_from != NO_POINTER:
                raised.append(replace(entry.own, pointer_after=pointer, raised_from=entry.pointer))
    if raised:
        ledger.raise_pointers(raised)
        new = {one.partition: one.pointer_after for one in raised}
        before = {one: known[one].pointer for one in new if known[one].pointer != NO_POINTER}
        pointers.write(run.control, settings, new, batch_now(settings).at, before)
        ledger.raise_pointers(replace(one, raised_from=NO_POINTER) for one in raised)
    return kept
