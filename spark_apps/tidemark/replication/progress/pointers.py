"""How far readers of kafka-journal may trust Cassandra: below the oldest record in quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.context import RunContext
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import batch_now, reached
from tidemark.replication.progress.kept_back import KeptBack, kept_back
from tidemark.replication.ranges import Range, Ranges, RangeState
from tidemark.replication.tables import pointers


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

    A run that dies between the two leaves a pointer that counts as somebody else's: what follows it
    is read again, which changes nothing.
    """
    kept = kept_back(run, partitions)
    raised: dict[TopicPartition, tuple[Range, int]] = {}
    known = reached(run.control, run.settings, partitions)
    for one, entry in known.items():
        range_ = entry.newest.range if entry.newest else None
        if range_ is None or entry.newest is None or entry.newest.state is not RangeState.DONE:
            continue
        lowest = kept[one].first if one in kept else None
        pointer = after(entry.pointer, range_.end, lowest)
        if entry.pointer == range_.pointer_after < pointer:
            raised[one] = (range_, pointer)
    if raised:
        new = {one: pointer for one, (_, pointer) in raised.items()}
        at = batch_now(run.settings).at
        before = {one: known[one].pointer for one in raised if known[one].pointer >= 0}
        pointers.write(run.control, run.settings, new, at, before)
        Ranges(run).raise_pointers(raised)
    return kept
