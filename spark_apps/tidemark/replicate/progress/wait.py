"""The wait until everything up to here is replicated.

kafka-journal's reader writes a mark and goes on when it meets it. Here the offsets at which the
topics end stand for it, and nothing is written.
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
"""The offset that the pointer of each topic partition has to reach."""


def parse(texts: Iterable[str]) -> Targets:
    """Parse `topic/partition:offset`.

    Raises:
        InvalidInput: one is none.
    """
    targets = {}
    for text in texts:
        found = placed(text)
        if found is None or not found[1].isdecimal():
            raise InvalidInput(
                f"{text} is no offset",
                where="--offset",
                do="write topic/partition:offset, such as journal-orders/0:4711",
            )
        partition, offset = found
        targets[partition] = int(offset)
    return targets


def written(targets: Targets) -> list[str]:
    """Return targets as `parse` takes them."""
    return [f"{one}:{offset}" for one, offset in sorted(targets.items())]


def ends(settings: Settings, topics: Sequence[str]) -> Targets:
    """Return the last offsets that topics hold now; a partition without records has none.

    Raises:
        InvalidInput: a topic is unknown.
        KafkaUnavailable: Kafka does not answer.
    """
    kafka = Topics(settings)
    held = kafka.offsets(kafka.partitions(topics))
    return {one: offsets.end - 1 for one, offsets in held.items() if offsets.end > offsets.first}


def missing(control: Control, settings: Settings, targets: Targets) -> Targets:
    """Return those that are not replicated, or in quarantine, up to their offset."""
    table = settings.kafka_journal_keyspace, settings.kafka_pointer_table
    # Before the first replication there is no table.
    if control.table_columns(*table) is None:
        return targets
    known = reached(control, settings, list(targets))
    return {one: offset for one, offset in targets.items() if known[one].end <= offset}


def wait(control: Control, settings: Settings, targets: Targets, seconds: float) -> Targets:
    """Wait until the pointers have reached the targets, `seconds` at most; return what has not."""
    until = time.monotonic() + seconds
    while left := missing(control, settings, targets):
        if time.monotonic() + _POLL_S > until:
            return left
        time.sleep(_POLL_S)
    return {}
