"""The checks of kafka-journal's tables.

The rules follow from docs/real-systems.md, "kafka-journal"; "reader" is upstream's own. In a
finding, `tag` is the topic. Unexpected states that upstream allows only warn.
"""

from __future__ import annotations

from functools import partial

from tidemark.validate.findings.check import Check, Layer, Severity, checks_of

_KAFKA = partial(Check, layer=Layer.KAFKA_JOURNAL, subject="topic")
_BY_REPLICATOR = "let the replicator read the topic again from before that record"

HEAD_IN_WRONG_SEGMENT = _KAFKA(
    "kafka_head_in_wrong_segment",
    "Every head is in the segment of metajournal that its id gives, of 10,000 or of 100.",
    remedy="write the head again in its segment and delete this row",
)
"""A head is in a segment of metajournal that neither formula gives, so no reader finds it."""

TWO_HEADS = _KAFKA(
    "kafka_two_heads",
    "No journal has two heads in metajournal.",
    remedy="delete the older head",
)
"""A journal has a head by each formula: readers use the new one, its events may be of the old."""

EVENT_IN_WRONG_SEGMENT = _KAFKA(
    "kafka_event_in_wrong_segment",
    "Every event is in the segment of journal that its head's segment size gives.",
    remedy="move the events to their segment",
)
"""An event is in another segment of journal than its head's segment size gives."""

EVENTS_WITHOUT_HEAD = _KAFKA(
    "kafka_events_without_head",
    "Every event has the head of its journal in metajournal.",
    remedy=f"delete the events if the journal was purged, else {_BY_REPLICATOR}",
)
"""Events without a head: a purge that has not ended, or a first append without its head."""

EVENTS_BEHIND_HEAD = _KAFKA(
    "kafka_events_behind_head",
    "No event was written after the last event of its head without moving the head.",
    remedy=_BY_REPLICATOR,
)
"""Events above the head's seq_nr that were written after it: an append without its head."""

LOST_TAIL = _KAFKA(
    "kafka_lost_tail",
    "journal contains the last event that its head counts, unless it is deleted.",
    remedy=_BY_REPLICATOR,
)
"""The head counts more events than journal has, though events are written before the head."""

FOREIGN_EVENTS = _KAFKA(
    "kafka_foreign_events",
    "Every event was written under the record id of its head.",
    remedy="delete the events of the earlier journal",
)
"""Events written before the last purge of the journal, which the purge has not deleted."""

DUPLICATE_SEQ_NR = _KAFKA(
    "kafka_duplicate_seq_nr",
    "No seq_nr of a journal belongs to two events.",
    remedy="delete the event of the wrong writer",
)
"""Two events have one seq_nr, since the time is part of the key: readers reject the journal."""

HIDDEN_EVENTS = _KAFKA(
    "kafka_hidden_events",
    "Upstream's reader reaches every event: no gap spans the end of a segment.",
    remedy=_BY_REPLICATOR,
)
"""Events after a gap across the end of a segment, where readers stop."""

HELD_RECORDS = _KAFKA(
    "kafka_held_records",
    "No record of a topic is held in quarantine.",
    remedy="correct or skip the unreadable records, then replay (`replicate.py held`, `mend`)",
)
"""A journal has records in quarantine: their changes are missing until they are replayed."""

SEQ_NR_GAP = _KAFKA(
    "kafka_seq_nr_gap",
    "No seq_nr is missing between two events.",
    severity=Severity.WARNS,
)
"""Numbers are missing between two events, or above delete_to: an append may skip some."""

SEQ_NR_WENT_DOWN = _KAFKA(
    "kafka_seq_nr_went_down",
    "The seq_nr of a head never decreases.",
    severity=Severity.WARNS,
)
"""Events above the head's seq_nr that are older than it: a later append had lower numbers."""

UNDELETED_EVENTS = _KAFKA(
    "kafka_undeleted_events",
    "No event up to the delete_to of its head remains.",
    severity=Severity.WARNS,
)
"""Events up to delete_to, left by a delete that has not ended; readers skip them."""

DELETE_TO_BEYOND_SEQ_NR = _KAFKA(
    "kafka_delete_to_beyond_seq_nr",
    "No head's delete_to is larger than its seq_nr.",
    severity=Severity.WARNS,
)
"""A head's delete_to is larger than its seq_nr."""

MIXED_SEGMENT_SIZE = _KAFKA(
    "kafka_mixed_segment_size",
    "All heads of a topic have the same segment size.",
    severity=Severity.WARNS,
)
"""Some heads of a topic have another segment size than most."""

HEADS_WITHOUT_RECORD_ID = _KAFKA(
    "kafka_heads_without_record_id",
    "Every head has a record id.",
    severity=Severity.WARNS,
)
"""Heads written by a delete: events from before a purge cannot be distinguished from later ones."""

CHECKS = checks_of(globals())
"""The checks of the layer, in display order."""
