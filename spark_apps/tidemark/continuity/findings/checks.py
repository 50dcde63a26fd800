"""The checks of sequence continuity: what each of them takes for a finding, and why.

The rules follow from docs/real-systems.md; "reader" is Pekko's EventsByTagStage.
"""

from __future__ import annotations

from tidemark.continuity.findings.check import (
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
"""One sequence nr has two events, in two timestamps or partitions: two writers."""

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
"""metadata.deleted_to is beyond the last event: an actor replays none of its events, and neither
those that it writes up to there. Deletes never go beyond the last event."""

WRONG_PARTITION_NR = Check(
    "wrong_partition_nr",
    "Every event is in the partition of its sequence nr (TIDEMARK_TARGET_PARTITION_SIZE), or,"
    " after a write of several events, in the next partition.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    "correct TIDEMARK_TARGET_PARTITION_SIZE, or move the events",
)
"""An event lies in a partition of messages where no reader looks for its sequence nr."""

NULL_PAYLOAD = Check(
    "null_payload",
    "Every event in messages has its payload.",
    Layer.MESSAGES,
    Inputs.NUMBERS,
    RESTORE,
)
"""An event has no payload (its column `event` is null): whoever replays it fails. Pekko always
writes one. A tagged event without its row is an unwritable event instead."""

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
"""The lowest number of a (persistence id, tag) is above 1: readers search for the rest."""

TAG_PID_SEQUENCE_NR_DUPLICATE = Check(
    "tag_pid_sequence_nr_duplicate",
    "No tag pid sequence nr is on two rows of a persistence id and tag, and no event has two.",
    Layer.TAG_VIEWS,
    Inputs.NUMBERS,
    Repair.OTHER_ROWS,
)
"""One number on two rows, which a reader drops, or one event under two numbers."""

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
"""A row has a higher number than that of a later event: a reader meets a gap there."""

WRONG_TIME_BUCKET = Check(
    "wrong_time_bucket",
    "Every row of tag_views is in the time bucket of its event.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_MOVED,
)
"""A row lies in another time bucket than its event: no reader looks for it there."""

EXTRA_ROW = Check(
    "extra_row",
    "Every row of tag_views belongs to an event that existed.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_DELETED,
)
"""A row behind the last event that any table knows of its persistence id: it never was."""

UNTAGGED_EVENT = Check(
    "untagged_event",
    "Every event that carries a tag has its row in tag_views, unless its bucket was purged.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_WRITTEN,
)
"""An event that carries a tag has no row under it: no reader of that tag ever sees it."""

DOUBLED_ROW = Check(
    "doubled_row",
    "No event has more than one row under a tag.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_DELETED,
)
"""One more row of an event that has its row, under another number or in another time bucket."""

WRONG_NUMBER = Check(
    "wrong_number",
    "Every row of tag_views has the tag pid sequence nr that follows from its predecessors.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.ROW_RENUMBERED,
)
"""A row has another tag pid sequence nr than its event's, which the events before it tell."""

PROGRESS_MISSING = Check(
    "progress_missing",
    "Every persistence id and tag with rows has a row of tag_write_progress.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
)
"""Rows without a row of tag_write_progress: the actor would number on from 1."""

PROGRESS_BEHIND = Check(
    "progress_behind",
    "tag_write_progress is at the last event of its persistence id and tag.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
    severity=Severity.WARNS,
)
"""tag_write_progress stands before the last row: a recovery tags again what has its rows."""

PROGRESS_AHEAD = Check(
    "progress_ahead",
    "tag_write_progress is not after the last event or the last number.",
    Layer.TAG_VIEWS,
    Inputs.DIFFERENCES,
    Repair.PROGRESS,
)
"""tag_write_progress stands behind the last event: the next one would leave a gap."""

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
"""tag_scanning stands behind events that are missing: a recovery would never tag them."""

UNWRITABLE_EVENT = Check(
    "unwritable_event",
    "Every event that carries a tag can be read.",
    Layer.MESSAGES,
    Inputs.DIFFERENCES,
    "repair each event that cannot be written",
)
"""A tagged event without a row that no reader could read, so that tag-write will not write it."""

EVENT_OUT_OF_ORDER = Check(
    "event_out_of_order",
    "No event of a persistence id is older than its predecessor, so that readers need not search.",
    Layer.MESSAGES,
    Inputs.TIME_BUCKET,
    severity=Severity.WARNS,
)
"""An event is older than the one before it: two clocks disagreed (Akka's issue #706)."""

TAG_PARTITION_TOO_LARGE = Check(
    "tag_partition_too_large",
    "No partition of tag_views has more rows or bytes than recommended for the bucket size.",
    Layer.TAG_VIEWS,
    Inputs.TIME_BUCKET,
    severity=Severity.WARNS,
)
"""A partition of the tag views has more rows or bytes than is advised for its bucket size."""

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
"""A tag has far fewer rows than its bucket size is for, in so many time buckets that it matters."""

SNAPSHOT_BEYOND_EVENTS = Check(
    "snapshot_beyond_events",
    "No snapshot is after the last event in messages or metadata.",
    Layer.MESSAGES,
    Inputs.JOURNAL,
    severity=Severity.WARNS,
)
"""A snapshot is of an event that messages does not hold and metadata has not deleted."""

CHECKS = checks_of(globals())
"""All checks of messages and tag views, in the order in which they are shown."""
REPAIRABLE = frozenset(check.name for check in CHECKS if check.is_repairable)
WARNING = frozenset(check.name for check in CHECKS if check.severity is Severity.WARNS)
WHOLE = tuple(
    check.name for check in CHECKS if check.inputs in (Inputs.MESSAGE_PARTITIONS, Inputs.JOURNAL)
)
"""Those whose findings are in no time bucket; only an examination of everything has all of them."""


def repaired_by(*repairs: Repair) -> tuple[str, ...]:
    """Return the names of the checks that these repairs put right, in the order of the repairs."""
    return tuple(check.name for repair in repairs for check in CHECKS if check.remedy is repair)
