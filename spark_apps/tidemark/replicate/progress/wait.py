"""Waits until everything up to the present ends of topics is replicated.

kafka-journal's reader writes a mark and waits until it meets it. Here the offsets at which the
topics end take its place, and nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from tidemark.cassandra.control import Control
from tidemark.errors import InvalidInput
from tidemark.replicate.kafka.topics import TopicPartition, Topics, placed
from tidemark.replicate.plan import reached
from tidemark.settings import Settings

_POLL_S = 2.0

Targets = Mapping[TopicPartition, int]
"""The offset that the pointer of each topic partition must reach."""


def parse(texts: Iterable[str]) -> Targets:
    """Parse `topic/partition:offset`.

    Raises:
        InvalidInput: a text is something else.
    """
    targets = {}
    for text in texts:
        parsed = placed(text)
        if parsed is None or not parsed[1].isdecimal():
            raise InvalidInput(
                f"{text} is no offset",
                where="--offset",
                do="write topic/partition:offset, such as journal-orders/0:4711",
            )
        partition, offset = parsed
        targets[partition] = int(offset)
    return targets


def written(targets: Targets) -> list[str]:
    """Return targets as texts that `parse` takes."""
    return [f"{tp}:{offset}" for tp, offset in sorted(targets.items())]


def ends(settings: Settings, topics: Sequence[str]) -> Targets:
    """Return the last offsets of topics now; a partition without records has none."""
    kafka = Topics(settings)
    held = kafka.offsets(kafka.partitions(topics))
    return {tp: offsets.end - 1 for tp, offsets in held.items() if offsets.end > offsets.first}


def missing(control: Control, settings: Settings, targets: Targets) -> Targets:
    """Return the targets that are not yet replicated, or quarantined, up to their offset."""
    table = settings.kafka_journal_keyspace, settings.kafka_pointer_table
    # Before the first replication the table does not exist.
    if control.table_columns(*table) is None:
        return targets
    positions = reached(control, settings, list(targets))
    return {tp: offset for tp, offset in targets.items() if positions[tp].end <= offset}


def wait(control: Control, settings: Settings, targets: Targets, seconds: float) -> Targets:
    """Wait at most `seconds` until the pointers have reached the targets; return the others."""
    until = time.monotonic() + seconds
    while remaining := missing(control, settings, targets):
        if time.monotonic() + _POLL_S > until:
            return remaining
        time.sleep(_POLL_S)
    return {}
