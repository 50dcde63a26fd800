"""What is in quarantine and keeps back later records: how much, from where on, since when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replication import quarantined
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.quarantined import Quarantined

_PAGE = 1000


@dataclass(frozen=True)
class KeptBack:
    """What of a topic partition is in quarantine, and keeps back what follows it.

    Attributes:
        keys: how many.
        held: how many records wait for somebody.
        waiting: how many wait since their keys have moved.
        first: the lowest offset.
        since: when the oldest one was found.
    """

    keys: int
    held: int
    waiting: int
    first: int
    since: datetime

    def plus(self, other: KeptBack) -> KeptBack:
        """Return both together."""
        return KeptBack(
            self.keys + other.keys,
            self.held + other.held,
            self.waiting + other.waiting,
            min(self.first, other.first),
            min(self.since, other.since),
        )


def kept_back(
    run: RunContext, partitions: Sequence[TopicPartition], most_keys: int | None = None
) -> Mapping[TopicPartition, KeptBack]:
    """Return what of each partition keeps back later records, without partitions of no such one.

    Args:
        run: the context of the run.
        partitions: the partitions.
        most_keys: the most keys of a partition and state that are counted; None for all.
    """
    found: dict[TopicPartition, KeptBack] = {}
    of_key = "journal_keyspace, topic, partition, state, id"
    keeping = quarantined.keeping_back(run, partitions).items()
    for one, state in ((one, state) for state, there in keeping for one in there):
        keys = run.control.stream(
            "SELECT count(*) AS records, min(offset) AS first, min(found_at) AS since"
            f" FROM {table(run.settings.keyspace, quarantined.TABLE)} WHERE journal_keyspace = ?"
            f" AND topic = ? AND partition = ? AND state = ? GROUP BY {of_key}",
            (run.settings.kafka_journal_keyspace, one.topic, one.partition, state),
            page=_PAGE,
        )
        for key in islice(keys, most_keys):
            since, records = key["since"].replace(tzinfo=UTC), key["records"]
            held = records if state is Quarantined.HELD else 0
            of_one = KeptBack(1, held, records - held, key["first"], since)
            found[one] = found[one].plus(of_one) if one in found else of_one
    return found
