"""Journals as Pekko leaves them: messages, and its tag writers' rows, computed by loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.integration.support import Journal

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NOT_IN_TAG_VIEWS = ("tags", "timebucket", "partition_nr")


def epoch_ms(event_uuid: Any) -> int:
    """Return the time of a timeuuid in epoch ms."""
    return int(event_uuid.time - 0x01B21DD213814000) // 10_000


def tag_rows(messages: Iterable[Mapping[str, Any]], bucket_ms: int) -> list[dict[str, Any]]:
    """Return every row of the tag views, numbered per id and tag in sequence nr order."""
    rows = []
    numbers: dict[tuple[str, str], int] = {}
    for message in sorted(messages, key=lambda row: int(row["sequence_nr"])):
        for tag in sorted(message["tags"] or ()):
            key = (message["persistence_id"], tag)
            numbers[key] = numbers.get(key, 0) + 1
            ms = epoch_ms(message["timestamp"])
            payload = {k: v for k, v in message.items() if k not in NOT_IN_TAG_VIEWS}
            rows.append(
                {
                    **payload,
                    "tag_name": tag,
                    "timebucket": ms - ms % bucket_ms,
                    "tag_pid_sequence_nr": numbers[key],
                }
            )
    return rows


def write_as_pekko(
    journal: Journal, messages: list[dict[str, Any]], bucket_ms: int = HOUR_MS
) -> None:
    """Write messages, tag views, progress and scanning."""
    rows = tag_rows(messages, bucket_ms)
    last = {(row["persistence_id"], row["tag_name"]): row for row in rows}
    highest: dict[str, int] = {}
    for message in messages:
        pid = message["persistence_id"]
        highest[pid] = max(highest.get(pid, 0), message["sequence_nr"])
    journal.insert("messages", messages)
    journal.insert("tag_views", rows)
    journal.insert(
        "tag_write_progress",
        [
            {
                "persistence_id": persistence_id,
                "tag": tag,
                "sequence_nr": row["sequence_nr"],
                "tag_pid_sequence_nr": row["tag_pid_sequence_nr"],
                "offset": row["timestamp"],
            }
            for (persistence_id, tag), row in last.items()
        ],
    )
    journal.insert(
        "tag_scanning",
        [{"persistence_id": pid, "sequence_nr": nr} for pid, nr in highest.items()],
    )


def delete_messages(journal: Journal, persistence_id: str, to: int) -> None:
    """Delete as an actor's deleteMessages does: write the metadata, delete messages up to `to`."""
    journal.insert("metadata", [{"persistence_id": persistence_id, "deleted_to": to}])
    for row in journal.rows("messages"):
        if row["persistence_id"] == persistence_id and row["sequence_nr"] <= to:
            delete_message(journal, row)


def delete_message(journal: Journal, row: Mapping[str, Any]) -> None:
    """Delete a row of messages."""
    key = ("persistence_id", "partition_nr", "sequence_nr", "timestamp")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.messages WHERE " + " AND ".join(f"{k} = ?" for k in key),
        [row[k] for k in key],
    )
