"""Late rows of the tag views that a projection has not consumed yet."""

from __future__ import annotations

from collections.abc import Collection

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journal.series import Series
from tidemark.projection.offset_store import offsets
from tidemark.settings import Settings

_TABLE = "late_tag_rows"


def unconsumed(
    control: Control,
    settings: Settings,
    subject: str,
    tags: Collection[str],
    done: Collection[int],
) -> set[int]:
    """The time buckets among `done` with a row beyond the projection's offsets.

    Only partitions that tag-write has put late rows into are looked at, row by row; they are few.

    Args:
        control: the control plane.
        settings: where the journal is.
        subject: the projection's name in the ledger.
        tags: what it reads.
        done: the time buckets that it is done with, epoch ms.
    """
    recorded = control.execute(
        f"SELECT time_bucket, tag FROM {table(settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND bucket_size = ?",
        (settings.journal_keyspace, settings.bucket_size.value),
    )
    return {
        row["time_bucket"]
        for row in recorded
        if row["tag"] in tags
        and row["time_bucket"] in done
        and _is_behind(control, settings, subject, row["tag"], row["time_bucket"])
    }


def _is_behind(
    control: Control, settings: Settings, subject: str, tag: str, time_bucket: int
) -> bool:
    highest: dict[str, int] = {}
    for row in control.stream(
        "SELECT persistence_id, tag_pid_sequence_nr FROM"
        f" {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ?",
        (tag, time_bucket),
    ):
        number = max(highest.get(row["persistence_id"], 0), row["tag_pid_sequence_nr"])
        highest[row["persistence_id"]] = number
    for persistence_id, number in highest.items():
        reached = offsets.read(control, settings, subject, Series(persistence_id, tag))
        if reached is None or reached.number < number:
            return True
    return False
