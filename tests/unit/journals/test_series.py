"""Series read by key: the end of the messages of a persistence id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast
from uuid import UUID, uuid1

import pytest

from tidemark.cassandra.control import Control, Row
from tidemark.errors import HistoryPurged
from tidemark.journals.pekko.ids_by_key import read_entities
from tidemark.journals.pekko.series import Series, SeriesReader
from tidemark.settings import Settings

SIZE = 10


class Journal:
    """The messages of a persistence id by partition, as Cassandra returns them."""

    def __init__(self, partitions: dict[int, list[int]], deleted_to: int = 0) -> None:
        self.partitions, self.deleted_to = partitions, deleted_to
        self.asked: list[int] = []
        self.timestamps: dict[int, UUID] = {}

    def execute(self, cql: str, values: Sequence[object] = ()) -> list[Row]:
        if "partition_nr" not in cql:
            return [{"deleted_to": self.deleted_to}] if "deleted_to" in cql else []
        partition = cast(int, values[1])
        self.asked.append(partition)
        rows: list[Row] = [
            {
                "sequence_nr": number,
                "timestamp": self.timestamps.setdefault(number, uuid1()),
                "tags": None,
            }
            for number in self.partitions.get(partition, [])
            if number > self.deleted_to
        ]
        if "sequence_nr >= ?" in cql:
            first, last = cast(tuple[int, int], tuple(values[2:]))
            rows = [row for row in rows if first <= row["sequence_nr"] <= last]
        return rows[-1:] if "LIMIT 1" in cql else rows

    def stream(self, cql: str, values: Sequence[object] = (), **_: object) -> Iterator[Row]:
        return iter(self.execute(cql, values) if values else [])

    def table_columns(self, keyspace: str, name: str) -> dict[str, str]:
        return {}

    def execute_many(self, cql: str, values: Sequence[Sequence[object]]) -> list[list[Row]]:
        return [self.execute(cql, bound) for bound in values]


def settings() -> Settings:
    return Settings(journal_keyspace="j", target_partition_size=SIZE)


def reader(journal: Journal) -> SeriesReader:
    return SeriesReader(cast(Control, journal), settings(), Series("p"))


ONE_TO_TEN, GROUP = list(range(1, 11)), list(range(11, 22))


@pytest.mark.parametrize(
    ("partitions", "deleted_to", "highest"),
    [
        ({}, 0, 0),
        ({0: ONE_TO_TEN}, 0, 10),
        ({0: [1, 2, 3]}, 3, 3),
        # 11 to 21 are one write group, stored in the partition of its last event.
        ({0: ONE_TO_TEN, 2: GROUP}, 0, 21),
        ({0: ONE_TO_TEN, 2: GROUP}, 10, 21),
        ({0: ONE_TO_TEN, 2: GROUP}, 15, 21),
        # Two empty partitions end the series, whatever comes after them.
        ({0: ONE_TO_TEN, 3: [31]}, 0, 10),
    ],
)
def test_messages_end_behind_two_empty_partitions(
    partitions: dict[int, list[int]], deleted_to: int, highest: int
) -> None:
    journal = Journal(partitions, deleted_to)
    assert reader(journal).known_highest(0) == highest
    left = list(range(deleted_to + 1, highest + 1))
    assert [event.number for event in reader(journal).event_refs(1)] == left
    [entity] = read_entities(cast(Control, journal), settings(), ["p"])
    assert entity.lowest_sequence_nr == (left[0] if left else None)


def test_search_for_the_highest_begins_where_a_message_is_known() -> None:
    journal = Journal({nr: list(range(10 * nr + 1, 10 * nr + 11)) for nr in range(100)})
    assert reader(journal).known_highest(995) == 1000
    assert journal.asked == [99, 100, 101]


def test_events_up_to_a_number_are_looked_for_in_its_two_partitions_at_most() -> None:
    journal = Journal({0: ONE_TO_TEN, 2: GROUP})
    assert [event.number for event in reader(journal).event_refs(9, 12)] == [9, 10, 11, 12]
    assert journal.asked == [0, 1, 2]


def test_event_that_is_deleted_before_its_payload_is_read_is_named() -> None:
    """Purge, or its actor, may delete an event between two reads."""
    journal = Journal({0: [1, 2, 3]})
    [_, second, _] = reader(journal).event_refs(1)
    journal.partitions.clear()
    gone = "sequence nr 2 of p was deleted while it was read"
    with pytest.raises(HistoryPurged, match=f"{gone}.*; run again"):
        reader(journal).payload(second)
    tagged = SeriesReader(cast(Control, journal), settings(), Series("p", "red"))
    with pytest.raises(HistoryPurged, match=f"{gone}.*; run again"):
        tagged.payload(second)
