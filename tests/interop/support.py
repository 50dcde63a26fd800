"""A journal that real actors have written, with its events moved to past time buckets.

Actors write at the present time, and tag-write leaves the current and the previous bucket to live
readers. So the rows of `messages` that the plugin wrote are given older timeuuids, as if the clock
had been behind. Pekko's own tag views of such a journal come from its Reconciliation, whose tag
writers number, bucket and write the very same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.integration.support import Journal, Result, wait_until
from tests.interop.client import Client, Delivered, Event, LiveQuery, Node, plugin_settings
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.window import from_millis, to_millis

BUCKETS = 8

QUICK: dict[str, str | int] = {
    "events_by_tag__eventual_consistency_delay": "0s",
    "events_by_tag__scanning_flush_interval": "200ms",
    "events_by_tag__gap_timeout": "3s",
    "events_by_tag__back_track__interval": "300ms",
    "query__refresh_interval": "200ms",
}
"""Settings that shorten the plugin's delays, so that no test waits for a timer."""

SERIALIZED_STRING = {"ser_id": 20, "ser_manifest": "", "event_manifest": ""}


@dataclass
class Scene:
    """A journal and the Pekko nodes on it."""

    journal: Journal
    pekko: Client
    bucket_size: BucketSize
    first: datetime
    """Start of the first of `BUCKETS` time buckets, all of them out of live readers' reach."""
    nodes: list[Node] = field(default_factory=list)

    @property
    def partition_size(self) -> int:
        """Pekko's `journal.target-partition-size`, the same for Pekko and for Tidemark."""
        return self.journal.settings().target_partition_size

    @classmethod
    def create(cls, journal: Journal, pekko: Client, bucket_size: str) -> Scene:
        """Lay the buckets out so that the last one ends where the previous one starts."""
        size = BucketSize.parse(bucket_size)
        previous = keys.time_bucket(to_millis(datetime.now(UTC)), size) - size.milliseconds
        return cls(journal, pekko, size, from_millis(previous - BUCKETS * size.milliseconds))

    def open(self, page_size: int = 5000, **settings: str | int) -> Node:
        """Start a node with quick delays; `settings` as in `plugin_settings`."""
        of_the_plugin = plugin_settings(
            self.journal.keyspace,
            self.bucket_size.value,
            self.first,
            **{**QUICK, "journal__target_partition_size": self.partition_size, **settings},
        )
        of_the_driver = {"datastax-java-driver.basic.request.page-size": page_size}
        self.nodes.append(self.pekko.open({**of_the_plugin, **of_the_driver}))
        return self.nodes[-1]

    def open_untagged(self) -> Node:
        """Start a node with events-by-tag disabled: it writes no tag views."""
        return self.open(events_by_tag__enabled="off")

    def close(self) -> None:
        """Close the nodes."""
        while self.nodes:
            self.nodes.pop().close()

    def bucket(self, number: int) -> datetime:
        """Return the start of a time bucket, by its number from `first`."""
        return self.first + timedelta(milliseconds=number * self.bucket_size.milliseconds)

    def tag_write(self, *options: str, first: int = 0, end: int = BUCKETS) -> Result:
        """Run tag-write over the buckets [first, end); it must succeed."""
        window = (self.bucket(first).isoformat(), self.bucket(end).isoformat())
        result = self.journal.run(
            "tag_write", "--window-start", window[0], "--window-end", window[1], *options
        )
        assert result.status == 0, result.stderr
        return result

    def move_back(self, first: int = 0, end: int = BUCKETS) -> None:
        """Move the events that were written just now to times in the buckets [first, end).

        Their order stays. Each bucket's first event is at its very start, its last one at its very
        last tick, and the events in between come in pairs that share a millisecond.
        """
        written = [
            row
            for row in self.journal.rows("messages")
            if row["timestamp"].time >= keys.epoch_ms_ticks(to_millis(self.bucket(BUCKETS)))
        ]
        written.sort(key=lambda row: row["timestamp"].time)
        delete = (
            f"DELETE FROM {table(self.journal.keyspace, 'messages')} WHERE persistence_id = ?"
            " AND partition_nr = ? AND sequence_nr = ? AND timestamp = ?"
        )
        key = ("persistence_id", "partition_nr", "sequence_nr", "timestamp")
        moved = [
            {**row, "timestamp": with_ticks(row["timestamp"], ticks), "timebucket": bucket}
            for row, (ticks, bucket) in zip(
                written, self._places(len(written), first, end), strict=True
            )
        ]
        self.journal.insert("messages", moved)
        self.journal.control.execute_many(delete, [[row[k] for k in key] for row in written])

    def _places(self, count: int, first: int, end: int) -> list[tuple[int, str]]:
        """Return the ticks and time bucket of `count` events in order, spread evenly."""
        size = self.bucket_size.milliseconds
        places: list[tuple[int, str]] = []
        for number in range(first, end):
            share = (number + 1 - first) * count // (end - first) - len(places)
            start_ms = to_millis(self.bucket(number))
            for place in range(share):
                ticks = keys.epoch_ms_ticks(start_ms + (place + 1) // 2 * (size // share)) + place
                if place and place == share - 1:
                    ticks = keys.epoch_ms_ticks(start_ms + size) - 1
                places.append((ticks, str(start_ms)))
        return places

    def message(
        self, persistence_id: str, sequence_nr: int, at: datetime, *tags: str, **columns: Any
    ) -> Row:
        """Return a row of messages as the plugin would have written it at the time `at`."""
        node = int.from_bytes(persistence_id.encode()[-5:], "big")
        ticks = keys.epoch_ms_ticks(to_millis(at)) + sequence_nr
        return {
            "persistence_id": persistence_id,
            "partition_nr": (sequence_nr - 1) // self.partition_size,
            "sequence_nr": sequence_nr,
            "timestamp": UUID(keys.ticks_timeuuid(ticks, clock_sequence=1, node=node)),
            "timebucket": str(keys.time_bucket(to_millis(at), self.bucket_size)),
            "writer_uuid": "a-writer",
            "event": f"{persistence_id} {sequence_nr}".encode(),
            "tags": set(tags) or None,
            **SERIALIZED_STRING,
            **columns,
        }

    def delete(self, name: str, **key: Any) -> None:
        """Delete rows of a table of the journal by (a part of) their key."""
        where = " AND ".join(f"{column} = ?" for column in key)
        self.journal.control.execute(
            f"DELETE FROM {table(self.journal.keyspace, name)} WHERE {where}", list(key.values())
        )

    def clear_tag_tables(self) -> None:
        """Truncate all three tag tables, as Reconciliation does."""
        for name in ("tag_views", "tag_write_progress", "tag_scanning"):
            self.journal.control.execute_ddl(f"TRUNCATE {table(self.journal.keyspace, name)}")

    def rebuild_by_pekko(self, gap_timeout: str = "3s") -> Node:
        """Rebuild the tag views by Pekko, complete their progress, and return a new node.

        The tag writers write progress after their answer and not in order, so that an older row
        may stay. Once their node is closed no write is under way any more, and each series gets the
        progress of its last event. `gap_timeout` is a setting of the returned node.
        """
        self.open().reconcile("rebuild")
        self.close()
        self.journal.insert("tag_write_progress", last_progress(self.journal.rows("tag_views")))
        return self.open(events_by_tag__gap_timeout=gap_timeout)

    def wait_for_tag_rows(self, count: int) -> None:
        """Wait until the plugin's tag writers have written the rows they were sent at recovery."""
        wait_until(f"{count} tag rows", lambda: len(self.journal.rows("tag_views")) == count)


def with_ticks(event_uuid: UUID, ticks: int) -> UUID:
    """Return the timeuuid of the same writer at another time."""
    clock_sequence, node = event_uuid.clock_seq, event_uuid.node
    return UUID(keys.ticks_timeuuid(ticks, clock_sequence=clock_sequence, node=node))


def progress(tag_view_row: Row) -> Row:
    """Return the row of tag_write_progress that says a tag view is written up to this row."""
    same = ("persistence_id", "sequence_nr", "tag_pid_sequence_nr")
    renamed = {"tag": tag_view_row["tag_name"], "offset": tag_view_row["timestamp"]}
    return {**{name: tag_view_row[name] for name in same}, **renamed}


def last_progress(tag_view_rows: Iterable[Row]) -> list[Row]:
    """Return the progress rows of complete tag views, in no order."""
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(tag_view_rows, key=lambda row: row["tag_pid_sequence_nr"]):
        last[row["persistence_id"], row["tag_name"]] = progress(row)
    return list(last.values())


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return sorted rows, independent of the order of their columns."""
    return sorted((dict(sorted(row.items())) for row in rows), key=str)


def assert_progress(of_pekko: Mapping[str, list[Row]], ours: Iterable[Row]) -> None:
    """Require that our progress is at the last rows, and Pekko's, which may lag, at some row."""
    assert in_order(ours) == in_order(last_progress(of_pekko["tag_views"]))
    of_any_row = in_order(progress(row) for row in of_pekko["tag_views"])
    assert all(row in of_any_row for row in in_order(of_pekko["tag_write_progress"]))


def read_all(node: Node, tags: Iterable[str]) -> dict[str, list[Event]]:
    """Return the events that a reader of each tag, which must not fail, gets from the start."""
    return {tag: complete(node.current(tag)) for tag in sorted(tags)}


def complete(delivered: Delivered) -> list[Event]:
    """Return the events of a query that must not fail, with each id's events in order and once."""
    assert delivered.failure is None
    last: dict[str, int] = {}
    for event in delivered.rows:
        assert event.sequence_nr > last.get(event.persistence_id, 0), event
        last[event.persistence_id] = event.sequence_nr
    return delivered.rows


def wait_for(query: LiveQuery, count: int) -> None:
    """Wait until a live query, which must not fail, has delivered `count` events."""
    wait_until(f"{count} events of a live query", lambda: len(complete(query.delivered())) >= count)


def tagged(journal: Journal, tag: str) -> list[tuple[str, int]]:
    """Return (persistence id, sequence nr) of a tag's events in messages, in the order of time."""
    rows = [row for row in journal.rows("messages") if tag in (row["tags"] or ())]
    rows.sort(key=lambda row: (row["timestamp"].time, row["timestamp"].bytes))
    return [(row["persistence_id"], row["sequence_nr"]) for row in rows]


def all_tags(journal: Journal) -> set[str]:
    """Return every tag that an event of the journal carries."""
    return {tag for row in journal.rows("messages") for tag in row["tags"] or ()}


def keyed(events: Sequence[Event]) -> list[tuple[str, int]]:
    """Return (persistence id, sequence nr) of events, in their order."""
    return [(event.persistence_id, event.sequence_nr) for event in events]


def numbers(rows: Iterable[Mapping[str, Any]], persistence_id: str, tag: str) -> list[int]:
    """Return the tag pid sequence nrs of an id and tag in tag_views, in sequence nr order."""
    tag_rows = [r for r in rows if r["persistence_id"] == persistence_id and r["tag_name"] == tag]
    tag_rows.sort(key=lambda row: (row["sequence_nr"], row["tag_pid_sequence_nr"]))
    return [row["tag_pid_sequence_nr"] for row in tag_rows]
