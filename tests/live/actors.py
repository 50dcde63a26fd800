"""Persistent actors and their tag writers, as far as the tables show them.

The order of writes is the one of Pekko's CassandraJournal and TagWriter: messages, then the rows
of the tags, then the progress, which may be lost; scanning later. A recovery reads the progress
and tags the events beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.integration.pekko_journals import delete_message
from tests.integration.support import Journal
from tests.live.truth import Event, Truth

SERIALIZER = 20


@dataclass
class Actors:
    """The actors of a journal, and their memory.

    Attributes:
        tags_by_pekko: whether the actors write tag views themselves (events-by-tag.enabled).
        tag_views: the name of the table of tag views.
        counts: a running tag writer's last tag pid sequence nr, by persistence id and tag.
        forgotten: persistence ids that are never used again.
        down: persistence ids whose actor stopped before its last events were tagged.
    """

    journal: Journal
    truth: Truth
    bucket_ms: int
    tags_by_pekko: bool
    tag_views: str = "tag_views"
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    unsaved: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    """Rows of tag_write_progress whose write is under way."""

    def persist(self, events: Sequence[Event], *, crash: bool = False, lag: bool = False) -> None:
        """Persist events of an actor, all at once.

        Args:
            events: the next events of a persistence id.
            crash: whether the actor dies after the messages and before their tags are written.
            lag: whether the write of the progress is lost.
        """
        pid = events[0].persistence_id
        if pid in self.down:
            self.recover(pid)
        for event in events:
            self.truth.add(event)
        self.journal.insert("messages", [self.message(event) for event in events])
        if events[0].sequence_nr == 1:
            self.journal.insert("all_persistence_ids", [{"persistence_id": pid}])
        if crash:
            self.down.add(pid)
        elif self.tags_by_pekko:
            self._tag(events, lag=lag)

    def recover(self, pid: str) -> None:
        """Start the actor again, with the numbers of its tags from the stored progress."""
        self.down.discard(pid)
        self.unsaved = {key: row for key, row in self.unsaved.items() if key[0] != pid}
        if not self.tags_by_pekko:
            return
        progress = {
            row["tag"]: (row["sequence_nr"], row["tag_pid_sequence_nr"])
            for row in self.journal.rows("tag_write_progress")
            if row["persistence_id"] == pid
        }
        self.counts = {key: n for key, n in self.counts.items() if key[0] != pid}
        self.counts |= {(pid, tag): number for tag, (_, number) in progress.items()}
        for event in self.truth.visible():
            if event.persistence_id == pid:
                behind = {
                    tag for tag in event.tags if event.sequence_nr > progress.get(tag, (0, 0))[0]
                }
                self._tag([event], only=behind)

    def delete(self, pid: str, to: int) -> None:
        """Delete as deleteMessages does: write the metadata first, then delete messages up to `to`.

        The actor still runs, and has written the progress of the deleted events by then.
        """
        self.save(pid)
        doomed = self.truth.delete(pid, to)
        self.journal.insert("metadata", [{"persistence_id": pid, "deleted_to": to}])
        for event in doomed:
            delete_message(self.journal, self.message(event))

    def find(self, pid: str) -> None:
        """Store the lost events of an actor again."""
        events = [
            event for event in self.truth.all() if (pid, event.sequence_nr) in self.truth.lost
        ]
        events = [event for event in events if event.persistence_id == pid]
        self.truth.lost -= {(pid, event.sequence_nr) for event in events}
        self.journal.insert("messages", [self.message(event) for event in events])

    def forget(self, pid: str) -> None:
        """Clean up a persistence id that is never used again; the rows of its tags stay."""
        self.delete(pid, self.truth.last(pid))
        self.forgotten.add(pid)
        for name in ("metadata", "all_persistence_ids"):
            self.journal.control.execute(
                f"DELETE FROM {self.journal.keyspace}.{name} WHERE persistence_id = ?", [pid]
            )

    def message(self, event: Event) -> dict[str, object]:
        """Return the event's row of messages."""
        return {
            "persistence_id": event.persistence_id,
            "partition_nr": 0,
            "sequence_nr": event.sequence_nr,
            "timestamp": event.timestamp,
            "timebucket": str(event.time_bucket(self.bucket_ms)),
            "tags": {"red"} if event.is_poison else set(event.tags) or None,
            **({} if event.is_poison else _payload(event)),
        }

    def _tag(
        self, events: Sequence[Event], *, only: set[str] | None = None, lag: bool = False
    ) -> None:
        rows: list[dict[str, object]] = []
        progress: dict[str, dict[str, object]] = {}
        for event in events:
            for tag in sorted(event.tags if only is None else only):
                key = (event.persistence_id, tag)
                self.counts[key] = self.counts.get(key, 0) + 1
                row: dict[str, object] = {
                    "persistence_id": event.persistence_id,
                    "tag_pid_sequence_nr": self.counts[key],
                    "sequence_nr": event.sequence_nr,
                }
                progress[tag] = {**row, "tag": tag, "offset": event.timestamp}
                rows.append(
                    {
                        **row,
                        "tag_name": tag,
                        "timebucket": event.time_bucket(self.bucket_ms),
                        "timestamp": event.timestamp,
                        **_payload(event),
                    }
                )
        self.journal.insert(self.tag_views, rows)
        pid = events[0].persistence_id
        self.unsaved |= {(pid, tag): row for tag, row in progress.items()}
        if not lag:
            self.save(pid)
            last = events[-1].sequence_nr
            self.journal.insert("tag_scanning", [{"persistence_id": pid, "sequence_nr": last}])

    def save(self, pid: str) -> None:
        """Write the progress of an actor's tags."""
        ready = {key: row for key, row in self.unsaved.items() if key[0] == pid}
        self.journal.insert("tag_write_progress", ready.values())
        self.unsaved = {key: row for key, row in self.unsaved.items() if key not in ready}


def _payload(event: Event) -> dict[str, object]:
    return {
        "writer_uuid": "w",
        "ser_id": SERIALIZER,
        "ser_manifest": "",
        "event_manifest": "",
        "event": event.payload,
    }
