"""The checks of messages and tag views.

The rules follow from docs/real-systems.md; "reader" is Pekko's EventsByTagStage.
"""

from __future__ import annotations

from tidemark.validate.findings.check import (
    RESTORE,
    Check,
    Inputs,
    Layer,
    Repair,
    Severity,
    checks_of,
)

SEQUENCE_NR_GAP = Check(
    "sequence_nr_gap",
    "No sequence nr is missing between two events of a persistence id.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""Numbers are missing between two events of a persistence id, above deleted_to."""

SEQUENCE_NR_MISSING_HEAD = Check(
    "sequence_nr_missing_head",
    "The first event of a persistence id has sequence nr 1, or the one after deleted_to.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""The lowest sequence nr is above deleted_to + 1; deleted_to is 0 without a row."""

SEQUENCE_NR_DUPLICATE = Check(
    "sequence_nr_duplicate",
    "No sequence nr of a persistence id belongs to two events.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""Two events have the same sequence nr, with two timestamps or partitions: two writers."""

SEQUENCE_NR_LOST_TAIL = Check(
    "sequence_nr_lost_tail",
    "messages contains every event up to tag_write_progress and tag_scanning.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""tag_write_progress or tag_scanning, which may lag but never lead, is ahead of messages."""

DELETED_TO_AHEAD = Check(
    "deleted_to_ahead",
    "metadata.deleted_to is not beyond the last event of a persistence id that has events.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    "set metadata.deleted_to to the last sequence nr that was deleted, and the next run of"
    " tag-write adds what is missing; or delete the events, if a delete was cut short",
)
"""metadata.deleted_to is beyond the last event: an actor replays none of its events, nor those that
it will write up to that number. Regular deletes never reach beyond the last event."""

WRONG_PARTITION_NR = Check(
    "wrong_partition_nr",
    "Every event is in the partition of its sequence nr (TIDEMARK_TARGET_PARTITION_SIZE), or,"
    " after a write of several events, in the next partition.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    "correct TIDEMARK_TARGET_PARTITION_SIZE, or move the events",
)
"""An event is in a partition of messages in which no reader searches for its sequence nr."""

NULL_PAYLOAD = Check(
    "null_payload",
    "Every event in messages has its payload.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""An event has no payload (its column `event` is null): whoever replays it fails. Pekko always
writes a payload. A tagged event without its row is an unwritable event instead."""

TAG_PID_SEQUENCE_NR_GAP = Check(
    "tag_pid_sequence_nr_gap",
    "No tag pid sequence nr is missing between two rows of a persistence id and tag, unless it"
    " was purged.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""Numbers are missing between two rows of a (persistence id, tag): a reader fails there."""

TAG_PID_SEQUENCE_NR_MISSING_HEAD = Check(
    "tag_pid_sequence_nr_missing_head",
    "The first row of a persistence id and tag has tag pid sequence nr 1, unless rows before it"
    " were purged.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""The lowest number of a (persistence id, tag) is above 1: readers search for the lower numbers."""

TAG_PID_SEQUENCE_NR_DUPLICATE = Check(
    "tag_pid_sequence_nr_duplicate",
    "No tag pid sequence nr is on two rows of a persistence id and tag, and no event has two.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""Two rows have the same number, and a reader drops one; or an event has two numbers."""

TAG_PID_SEQUENCE_NR_LOST_TAIL = Check(
    "tag_pid_sequence_nr_lost_tail",
    "tag_views contains the last row that tag_write_progress counts, unless it was purged.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""tag_write_progress counts more rows than the highest number in tag_views."""

TAG_PID_SEQUENCE_NR_OUT_OF_ORDER = Check(
    "tag_pid_sequence_nr_out_of_order",
    "The rows of a persistence id and tag are numbered in the order of their events.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""A row has a higher number than the row of a later event: a reader sees a gap there."""

WRONG_TIME_BUCKET = Check(
    "wrong_time_bucket",
    "Every row of tag_views is in the time bucket of its event.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_MOVED,
)
"""A row is in another time bucket than its event: no reader searches for it there."""

EXTRA_ROW = Check(
    "extra_row",
    "Every row of tag_views belongs to an event that existed.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_DELETED,
)
"""A row after the last event that any table records of its persistence id: it has no event."""

UNTAGGED_EVENT = Check(
    "untagged_event",
    "Every event that carries a tag has its row in tag_views, unless its bucket was purged.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_WRITTEN,
)
"""An event that carries a tag has no row under the tag: no reader of the tag ever sees it."""

DOUBLED_ROW = Check(
    "doubled_row",
    "No event has more than one row under a tag.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_DELETED,
)
"""An event has a further row, with another number or in another time bucket."""

WRONG_NUMBER = Check(
    "wrong_number",
    "Every row of tag_views has the tag pid sequence nr that follows from its predecessors.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_RENUMBERED,
)
"""A row has another tag pid sequence nr than the previous events give its event."""

PROGRESS_MISSING = Check(
    "progress_missing",
    "Every persistence id and tag with rows has a row of tag_write_progress.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
)
"""Rows without a row of tag_write_progress: the actor would begin again with number 1."""

PROGRESS_BEHIND = Check(
    "progress_behind",
    "tag_write_progress is at the last event of its persistence id and tag.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
    severity=Severity.WARNS,
)
"""tag_write_progress is before the last row: a recovery tags events again that have their rows."""

PROGRESS_AHEAD = Check(
    "progress_ahead",
    "tag_write_progress is not after the last event or the last number.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
)
"""tag_write_progress is after the last event: the next event would leave a gap."""

PROGRESS_WRONG = Check(
    "progress_wrong",
    "tag_write_progress has the number and the offset of its event.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
)
"""tag_write_progress has another number or offset than its event."""

SCANNING_AHEAD = Check(
    "scanning_ahead",
    "tag_scanning is not after an event without a row, and not after the last event.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.SCANNING,
)
"""tag_scanning is after events without their rows: a recovery would never tag them."""

UNWRITABLE_EVENT = Check(
    "unwritable_event",
    "Every event that carries a tag can be read.",
    Layer.MESSAGES,
    Inputs.DIFFERENCES,
    "repair each event that cannot be written",
)
"""An unreadable tagged event without a row: tag-write will not write its row."""

EVENT_OUT_OF_ORDER = Check(
    "event_out_of_order",
    "No event of a persistence id is older than its predecessor, so that readers need not search.",
    Layer.MESSAGES,
    Inputs.TIME_BUCKET,
    severity=Severity.WARNS,
)
"""An event is older than its predecessor: two clocks disagreed (Akka's issue #706)."""

TAG_PARTITION_TOO_LARGE = Check(
    "tag_partition_too_large",
    "No partition of tag_views has more rows or bytes than recommended for the bucket size.",
    Layer.TAG_VIEWS,
    Inputs.TIME_BUCKET,
    severity=Severity.WARNS,
)
"""A partition of the tag views has more rows or bytes than advised for its bucket size."""

PARTITION_TOO_LARGE = Check(
    "partition_too_large",
    "No partition of messages has more than 100 MB of payload, by the size of sampled events.",
    Layer.MESSAGES,
    Inputs.MESSAGE_PARTITIONS,
    severity=Severity.WARNS,
)
"""A partition of messages has more bytes than Cassandra's manual advises."""

BUCKET_SIZE_TOO_FINE = Check(
    "bucket_size_too_fine",
    "No tag has thousands of time buckets with so few rows that a coarser bucket size would fit.",
    Layer.TAG_VIEWS,
    Inputs.JOURNAL,
    severity=Severity.WARNS,
)
"""A tag has too few rows for its bucket size, in so many time buckets that it slows readers."""

SNAPSHOT_BEYOND_EVENTS = Check(
    "snapshot_beyond_events",
    "No snapshot is after the last event in messages or metadata.",
    Layer.MESSAGES,
    Inputs.JOURNAL,
    severity=Severity.WARNS,
)
"""A snapshot is of an event that is not in messages and not deleted by metadata."""

CHECKS = checks_of(globals())
"""All checks of messages and tag views, in display order."""
REPAIRABLE = frozenset(check.name for check in CHECKS if check.is_repairable)
WARNING = frozenset(check.name for check in CHECKS if check.severity is Severity.WARNS)
JOURNAL_WIDE = tuple(
    check.name for check in CHECKS if check.inputs in (Inputs.MESSAGE_PARTITIONS, Inputs.JOURNAL)
)
"""The checks whose findings have no time bucket; only a full check runs all of them."""


def repaired_by(*repairs: Repair) -> tuple[str, ...]:
    """Return the names of the checks with these repairs, in the order of the repairs."""
    return tuple(check.name for repair in repairs for check in CHECKS if check.remedy is repair)
