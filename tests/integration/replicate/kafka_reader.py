"""A reader of journals as kafka-journal's goes: the head, segments, deleteTo, Kafka's tail.

Written from what is known of its `Journal.read`, `HeadInfo` and `EventualJournal`; it shares no
code with the replicator. It reads Kafka's records from the log of the topic that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal
from tests.java_hash import java_hash
from tests.unit.replicate.replication_model import Action
from tidemark.cassandra.schema import table


@dataclass(frozen=True)
class _Tail:
    """What is not replicated yet, folded: HeadInfo."""

    kind: str = "empty"
    offset: int = 0
    delete_to: int = 0

    def then(self, action: Action) -> _Tail:
        """Return what is not replicated after a further action."""
        to, first = action.to or 0, action.numbers[0] if action.numbers else 0
        match self.kind, action.kind:
            case _, "purge":
                after = _Tail("purge")
            case "append", "delete":
                after = replace(self, delete_to=max(self.delete_to, to))
            case "delete" | "empty", "delete":
                after = _Tail("delete", delete_to=max(self.delete_to, to))
            case "delete", "append":
                after = _Tail("append", action.offset, min(self.delete_to, first - 1))
            case "purge", "append":
                after = _Tail("append", action.offset, first - 1)
            case "empty", "append":
                after = _Tail("append", action.offset)
            case _:
                # Marks; an append behind others; a delete of what is purged.
                after = self
        return after


class Reader:
    """Reads journals of a topic from Cassandra, and from Kafka what is behind the pointer."""

    def __init__(self, journal: Journal, topic: Topic) -> None:
        """Bind to the tables and the topic."""
        self._journal, self._topic = journal, topic
        names = ("journal", "metajournal", "pointer2")
        self._events, self._heads, self._pointers = (
            table(journal.keyspace, name) for name in names
        )

    def read(self, key: str, partition: int, first: int = 1) -> list[int]:
        """Return the seq nrs of the events that a reader gets who asks from `first` on."""
        pointer = self._pointer(partition)
        tail = [a for k, a in self._topic.log[partition][pointer + 1 :] if k == key]
        info = _Tail()
        for action in tail:
            info = info.then(action)
        if info.kind == "purge":
            return []
        stored = list(self._stored(key, max(info.delete_to + 1, first)))
        numbers = [row["seq_nr"] for row in stored]
        assert len(set(numbers)) == len(numbers), f"{key}: data integrity violated, {numbers}"
        if info.kind == "append":
            last = stored[-1]["offset"] if stored else -1
            behind = max(last, info.offset - 1)
            floor = max(first, info.delete_to + 1)
            for action in tail:
                if action.kind == "append" and action.offset > behind:
                    for number in action.numbers:
                        if number >= floor and number > (numbers[-1] if numbers else 0):
                            numbers.append(number)
        return numbers

    def stored(self, key: str) -> list[int]:
        """Return the seq nrs of the events that a reader gets from Cassandra."""
        return [row["seq_nr"] for row in self._stored(key, 1)]

    def _pointer(self, partition: int) -> int:
        rows: Sequence[dict[str, Any]] = self._journal.control.execute(
            f"SELECT offset FROM {self._pointers} WHERE topic = ? AND partition = ?",
            (self._topic.name, partition),
        )
        return rows[0]["offset"] if rows else -1

    def _stored(self, key: str, first: int) -> Iterator[dict[str, Any]]:
        head = self._head(key)
        if head is None:
            return
        size = head["segment_size"] or 10_000
        start = max(first, (head["delete_to"] or 0) + 1)
        segment = (start - 1) // size
        while True:
            rows = self._journal.control.execute(
                f"SELECT seq_nr, offset FROM {self._events}"
                " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr >= ?",
                (key, self._topic.name, segment, start),
            )
            yield from rows
            if not rows or rows[-1]["seq_nr"] // size == segment:
                return
            segment = rows[-1]["seq_nr"] // size

    def _head(self, key: str) -> dict[str, Any] | None:
        for segments in (10_000, 100):
            rows = self._journal.control.execute(
                f"SELECT segment_size, delete_to FROM {self._heads}"
                " WHERE topic = ? AND segment = ? AND id = ?",
                (self._topic.name, abs(java_hash(key.lower())) % segments, key),
            )
            if rows:
                return rows[0]
        return None
