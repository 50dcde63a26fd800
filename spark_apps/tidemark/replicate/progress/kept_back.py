"""The records in quarantine that keep back later ones: their number, first offset and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate import quarantined
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.quarantined import Quarantined

_PAGE = 1000


@dataclass(frozen=True)
class KeptBack:
    """The records of a topic partition in quarantine that keep back later ones.

    Attributes:
        keys: the number of their keys.
        held: the number of records that wait for an operator.
        waiting: the number that wait since their keys have moved.
        first: the lowest offset.
        since: when the oldest was found.
    """

    keys: int
    held: int
    waiting: int
    first: int
    since: datetime

    def plus(self, other: KeptBack) -> KeptBack:
        """Return the sum of both."""
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
    """Return the records that keep back later ones, for each partition that has any.

    Args:
        run: the context of the run.
        partitions: the partitions.
        most_keys: the most keys of a partition and state that are counted; None for all.
    """
    by_tp: dict[TopicPartition, KeptBack] = {}
    key_columns = "journal_keyspace, topic, partition, state, id"
    keeping = quarantined.keeping_back(run, partitions).items()
    for tp, state in ((tp, state) for state, in_state in keeping for tp in in_state):
        keys = run.control.stream(
            "SELECT count(*) AS records, min(offset) AS first, min(found_at) AS since"
            f" FROM {table(run.settings.keyspace, quarantined.TABLE)} WHERE journal_keyspace = ?"
            f" AND topic = ? AND partition = ? AND state = ? GROUP BY {key_columns}",
            (run.settings.kafka_journal_keyspace, tp.topic, tp.partition, state),
            page=_PAGE,
        )
        for key in islice(keys, most_keys):
            since, records = key["since"].replace(tzinfo=UTC), key["records"]
            held = records if state is Quarantined.HELD else 0
            single = KeptBack(1, held, records - held, key["first"], since)
            by_tp[tp] = by_tp[tp].plus(single) if tp in by_tp else single
    return by_tp
