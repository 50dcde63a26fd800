"""The checks of sequence continuity: what each of them takes for a finding, and why.

The rules follow from docs/real-systems.md; "reader" is Pekko's EventsByTagStage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SEQUENCE_NR_GAP = "sequence_nr_gap"
"""Numbers are missing between two events of a persistence id, above deleted_to."""

SEQUENCE_NR_MISSING_HEAD = "sequence_nr_missing_head"
"""The lowest sequence nr is above deleted_to + 1; deleted_to is 0 without a row."""

SEQUENCE_NR_DUPLICATE = "sequence_nr_duplicate"
"""One sequence nr has two events, in two timestamps or partitions: two writers."""

SEQUENCE_NR_LOST_TAIL = "sequence_nr_lost_tail"
"""tag_write_progress or tag_scanning, which may lag but never lead, is ahead of messages."""

DELETED_TO_AHEAD = "deleted_to_ahead"
"""metadata.deleted_to is beyond the last event: an actor replays none of its events, and neither
those that it writes up to there. Deletes never go beyond the last event."""

WRONG_PARTITION_NR = "wrong_partition_nr"
"""An event lies in a partition of messages where no reader looks for its sequence nr."""

NULL_PAYLOAD = "null_payload"
"""An event has no payload (its column `event` is null): whoever replays it fails. Pekko always
writes one. A tagged event without its row is an unwritable event instead."""

TAG_PID_SEQUENCE_NR_GAP = "tag_pid_sequence_nr_gap"
"""Numbers are missing between two rows of a (persistence id, tag): a reader fails there."""

TAG_PID_SEQUENCE_NR_MISSING_HEAD = "tag_pid_sequence_nr_missing_head"
"""The lowest number of a (persistence id, tag) is above 1: readers search for the rest."""

TAG_PID_SEQUENCE_NR_DUPLICATE = "tag_pid_sequence_nr_duplicate"
"""One number on two rows, which a reader drops, or one event under two numbers."""

TAG_PID_SEQUENCE_NR_LOST_TAIL = "tag_pid_sequence_nr_lost_tail"
"""tag_write_progress counts more rows than the highest number in tag_views."""

TAG_PID_SEQUENCE_NR_OUT_OF_ORDER = "tag_pid_sequence_nr_out_of_order"
"""A row has a higher number than that of a later event: a reader meets a gap there."""

WRONG_TIME_BUCKET = "wrong_time_bucket"
"""A row lies in another time bucket than its event: no reader looks for it there."""

EXTRA_ROW = "extra_row"
"""A row behind the last event that any table knows of its persistence id: it never was."""

UNTAGGED_EVENT = "untagged_event"
"""An event that carries a tag has no row under it: no reader of that tag ever sees it."""

UNWRITABLE_EVENT = "unwritable_event"
"""A tagged event without a row that no reader could read, so that tag-write will not write it."""

EVENT_OUT_OF_ORDER = "event_out_of_order"
"""An event is older than the one before it: two clocks disagreed (Akka's issue #706)."""

TAG_PARTITION_TOO_LARGE = "tag_partition_too_large"
"""A partition of the tag views has more rows or bytes than is advised for its bucket size."""

PARTITION_TOO_LARGE = "partition_too_large"
"""A partition of messages has more bytes than Cassandra's manual advises."""

BUCKET_SIZE_TOO_FINE = "bucket_size_too_fine"
"""A tag has far fewer rows than its bucket size is for, in so many time buckets that it matters."""

SNAPSHOT_BEYOND_EVENTS = "snapshot_beyond_events"
"""A snapshot is of an event that messages does not hold and metadata has not deleted."""

DOUBLED_ROW = "doubled_row"
"""One more row of an event that has its row, under another number or in another time bucket."""

WRONG_NUMBER = "wrong_number"
"""A row has another tag pid sequence nr than its event's, which the events before it tell."""

PROGRESS_MISSING = "progress_missing"
"""Rows without a row of tag_write_progress: the actor would number on from 1."""

PROGRESS_BEHIND = "progress_behind"
"""tag_write_progress stands before the last row: a recovery tags again what has its rows."""

PROGRESS_AHEAD = "progress_ahead"
"""tag_write_progress stands behind the last event: the next one would leave a gap."""

PROGRESS_WRONG = "progress_wrong"
"""tag_write_progress has another number or offset than its event."""

SCANNING_AHEAD = "scanning_ahead"
"""tag_scanning stands behind events that are missing: a recovery would never tag them."""


class Layer(StrEnum):
    """What a finding is about."""

    MESSAGES = "messages"
    TAG_VIEWS = "tag_views"
    KAFKA_JOURNAL = "kafka_journal"
    KAFKA_TOPIC = "kafka_topic"
    """The tables of kafka-journal beside the topics that they are replicated from."""
    STORAGE = "storage"
    """How long the tables keep their rows, and how they compact them."""
    PROJECTIONS = "projections"
    USER = "user"
    """What the SELECT of a user's check reads."""


class Severity(StrEnum):
    """What a finding of a check does to what is downstream."""

    BLOCKS = "blocks"
    WARNS = "warns"


@dataclass(frozen=True)
class Check:
    """A check by its name, with its rule in one line for people.

    Attributes:
        name: in findings, reports and Data Docs.
        rule: what holds where it finds nothing.
        layer: the tables that a finding is about.
        severity: what a finding does.
        is_repairable: whether `reconcile repair` puts a finding right. What is missing from
            messages is in no other table, so only a backup or an operator's decision helps.
        mend: what puts a finding right that `reconcile repair` does not, for people.
        subject: what the field `tag` of a finding names, if it is no tag.
        is_of_whole_journal: whether its rule takes all events or rows. Its findings belong to no
            time bucket, and an incremental examination does not find all of them.
    """

    name: str
    rule: str
    layer: Layer
    severity: Severity = Severity.BLOCKS
    is_repairable: bool = True
    mend: str = ""
    subject: str = "tag"
    is_of_whole_journal: bool = False


CHECKS = (
    Check(
        SEQUENCE_NR_GAP,
        "No sequence nr is missing between two events of a persistence id.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        SEQUENCE_NR_MISSING_HEAD,
        "The first event of a persistence id has sequence nr 1, or the one after deleted_to.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        SEQUENCE_NR_DUPLICATE,
        "No sequence nr of a persistence id belongs to two events.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        SEQUENCE_NR_LOST_TAIL,
        "messages holds every event that tag_write_progress and tag_scanning know of.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        DELETED_TO_AHEAD,
        "metadata.deleted_to is not beyond the last event of a persistence id that has events.",
        Layer.MESSAGES,
        is_repairable=False,
        mend="set metadata.deleted_to to the last sequence nr that was deleted, and the next run of"
        " tag-write adds what is missing; or delete the events, if a delete was cut short",
    ),
    Check(
        WRONG_PARTITION_NR,
        "Every event lies in the partition of its sequence nr (TIDEMARK_TARGET_PARTITION_SIZE), or,"
        " as a write group may, in the next one.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        NULL_PAYLOAD,
        "Every event in messages has its payload.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        TAG_PID_SEQUENCE_NR_GAP,
        "No tag pid sequence nr is missing between two rows of a persistence id and tag,"
        " unless it was purged.",
        Layer.TAG_VIEWS,
    ),
    Check(
        TAG_PID_SEQUENCE_NR_MISSING_HEAD,
        "The first row of a persistence id and tag has tag pid sequence nr 1, unless rows before"
        " it were purged.",
        Layer.TAG_VIEWS,
    ),
    Check(
        TAG_PID_SEQUENCE_NR_DUPLICATE,
        "No tag pid sequence nr is on two rows of a persistence id and tag, and no event has two.",
        Layer.TAG_VIEWS,
    ),
    Check(
        TAG_PID_SEQUENCE_NR_LOST_TAIL,
        "tag_views holds the last row that tag_write_progress counts, unless it was purged.",
        Layer.TAG_VIEWS,
    ),
    Check(
        TAG_PID_SEQUENCE_NR_OUT_OF_ORDER,
        "The rows of a persistence id and tag are numbered in the order of their events.",
        Layer.TAG_VIEWS,
    ),
    Check(
        WRONG_TIME_BUCKET,
        "Every row of tag_views lies in the time bucket of its event.",
        Layer.TAG_VIEWS,
    ),
    Check(
        EXTRA_ROW,
        "No row of tag_views is of an event that never was.",
        Layer.TAG_VIEWS,
    ),
    Check(
        UNTAGGED_EVENT,
        "Every event that carries a tag has its row in tag_views, unless its bucket was purged.",
        Layer.TAG_VIEWS,
    ),
    Check(
        DOUBLED_ROW,
        "No event has more than one row under a tag.",
        Layer.TAG_VIEWS,
    ),
    Check(
        WRONG_NUMBER,
        "Every row of tag_views has the tag pid sequence nr that its event's predecessors give it.",
        Layer.TAG_VIEWS,
    ),
    Check(
        PROGRESS_MISSING,
        "Every persistence id and tag with rows has a row of tag_write_progress.",
        Layer.TAG_VIEWS,
    ),
    Check(
        PROGRESS_BEHIND,
        "tag_write_progress names the last event of its persistence id and tag.",
        Layer.TAG_VIEWS,
        Severity.WARNS,
    ),
    Check(
        PROGRESS_AHEAD,
        "tag_write_progress names no event and no number behind the last.",
        Layer.TAG_VIEWS,
    ),
    Check(
        PROGRESS_WRONG,
        "tag_write_progress has the number and the offset of the event that it names.",
        Layer.TAG_VIEWS,
    ),
    Check(
        SCANNING_AHEAD,
        "tag_scanning stands behind no event without its row, and behind no last event.",
        Layer.TAG_VIEWS,
    ),
    Check(
        UNWRITABLE_EVENT,
        "Every event that carries a tag can be read.",
        Layer.MESSAGES,
        is_repairable=False,
    ),
    Check(
        EVENT_OUT_OF_ORDER,
        "No event of a persistence id is older than the one before it, so that readers need not"
        " search.",
        Layer.MESSAGES,
        Severity.WARNS,
    ),
    Check(
        TAG_PARTITION_TOO_LARGE,
        "No partition of tag_views has more rows than is advised for the bucket size, or bytes.",
        Layer.TAG_VIEWS,
        Severity.WARNS,
    ),
    Check(
        PARTITION_TOO_LARGE,
        "No partition of messages has more than 100 MB of payload, by the size of sampled events.",
        Layer.MESSAGES,
        Severity.WARNS,
        is_of_whole_journal=True,
    ),
    Check(
        BUCKET_SIZE_TOO_FINE,
        "No tag has so few rows that a coarser bucket size would do, and thousands of time buckets"
        " for readers to look at.",
        Layer.TAG_VIEWS,
        Severity.WARNS,
        is_of_whole_journal=True,
    ),
    Check(
        SNAPSHOT_BEYOND_EVENTS,
        "No snapshot is of an event behind the last one that messages or metadata know.",
        Layer.MESSAGES,
        Severity.WARNS,
        is_of_whole_journal=True,
    ),
)
"""All checks of messages and tag views, in the order in which they are shown.

`reconcile check` makes all of them but those whose only rule is advice.
"""
WHOLE = tuple(check.name for check in CHECKS if check.is_of_whole_journal)
REPAIRABLE = frozenset(check.name for check in CHECKS if check.is_repairable)
WARNING = frozenset(check.name for check in CHECKS if check.severity is Severity.WARNS)
OF_ROW_NUMBERS = (
    TAG_PID_SEQUENCE_NR_GAP,
    TAG_PID_SEQUENCE_NR_MISSING_HEAD,
    TAG_PID_SEQUENCE_NR_DUPLICATE,
    TAG_PID_SEQUENCE_NR_LOST_TAIL,
    TAG_PID_SEQUENCE_NR_OUT_OF_ORDER,
)
"""What is told of row numbers once all differences are put right; a repair helps where the row
that is missing lies in a time bucket that was not looked at."""
