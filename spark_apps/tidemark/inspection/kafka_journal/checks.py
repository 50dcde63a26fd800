"""The checks of kafka-journal's tables: what each of them takes for a finding, and why.

The rules follow from docs/real-systems.md, "kafka-journal"; "reader" is upstream's own. In a
finding, `tag` is the topic. What upstream allows although one would not expect it only warns.
"""

from __future__ import annotations

from functools import partial

from tidemark.continuity.findings.checks import Check, Layer, Severity

HEAD_IN_WRONG_SEGMENT = "kafka_head_in_wrong_segment"
"""A head lies in a segment of metajournal that none of the two formulas gives: none looks there."""

TWO_HEADS = "kafka_two_heads"
"""A journal has a head by each formula: readers take the new one, its events may be of the old."""

EVENT_IN_WRONG_SEGMENT = "kafka_event_in_wrong_segment"
"""An event lies in another segment of journal than its head's segment size gives."""

EVENTS_WITHOUT_HEAD = "kafka_events_without_head"
"""Events without a head: a purge that has not ended, or a first append without its head."""

EVENTS_BEHIND_HEAD = "kafka_events_behind_head"
"""Events above the head's seq_nr that were written after it: an append without its head."""

LOST_TAIL = "kafka_lost_tail"
"""The head counts more events than journal has, though events are written before the head."""

FOREIGN_EVENTS = "kafka_foreign_events"
"""Events that another life of the journal has written, which a purge has left behind."""

DUPLICATE_SEQ_NR = "kafka_duplicate_seq_nr"
"""One seq_nr has two events, since the time is part of the key: readers refuse the journal."""

HIDDEN_EVENTS = "kafka_hidden_events"
"""Events behind a gap across the end of a segment, where readers stop."""

SEQ_NR_GAP = "kafka_seq_nr_gap"
"""Numbers are missing between two events, or above delete_to: an append may skip some."""

SEQ_NR_WENT_DOWN = "kafka_seq_nr_went_down"
"""Events above the head's seq_nr that are older than it: a later append had lower numbers."""

UNDELETED_EVENTS = "kafka_undeleted_events"
"""Events up to delete_to, left by a delete that has not ended; readers skip them."""

DELETE_TO_BEYOND_SEQ_NR = "kafka_delete_to_beyond_seq_nr"
"""A head's delete_to is larger than its seq_nr."""

MIXED_SEGMENT_SIZE = "kafka_mixed_segment_size"
"""Some heads of a topic have another segment size than most."""

HEADS_WITHOUT_RECORD_ID = "kafka_heads_without_record_id"
"""Heads that a delete has made: events of an earlier life cannot be told from theirs."""

_KAFKA = partial(Check, layer=Layer.KAFKA_JOURNAL, is_repairable=False, subject="topic")
_BY_REPLICATOR = "let the replicator read the topic again from before that record"

CHECKS = (
    _KAFKA(
        HEAD_IN_WRONG_SEGMENT,
        "Every head lies in the segment of metajournal that its id gives, of 10,000 or of 100.",
        mend="write the head anew in its segment and delete this row",
    ),
    _KAFKA(
        TWO_HEADS,
        "No journal has two heads in metajournal.",
        mend="delete the head that is not the newer one's",
    ),
    _KAFKA(
        EVENT_IN_WRONG_SEGMENT,
        "Every event lies in the segment of journal that its head's segment size gives.",
        mend="move the events to their segment",
    ),
    _KAFKA(
        EVENTS_WITHOUT_HEAD,
        "Every event has the head of its journal in metajournal.",
        mend=f"delete the events if the journal was purged, else {_BY_REPLICATOR}",
    ),
    _KAFKA(
        EVENTS_BEHIND_HEAD,
        "No event was written behind its head's last one and has not moved the head.",
        mend=_BY_REPLICATOR,
    ),
    _KAFKA(
        LOST_TAIL,
        "journal holds the last event that its head counts, unless it is deleted.",
        mend=_BY_REPLICATOR,
    ),
    _KAFKA(
        FOREIGN_EVENTS,
        "Every event was written under the record id of its head.",
        mend="delete the events of the earlier life",
    ),
    _KAFKA(
        DUPLICATE_SEQ_NR,
        "No seq_nr of a journal belongs to two events.",
        mend="delete the event of the writer that should not have been",
    ),
    _KAFKA(
        HIDDEN_EVENTS,
        "Upstream's reader reaches every event: no gap spans the end of a segment.",
        mend=_BY_REPLICATOR,
    ),
    _KAFKA(SEQ_NR_GAP, "No seq_nr is missing between two events.", severity=Severity.WARNS),
    _KAFKA(SEQ_NR_WENT_DOWN, "The seq_nr of a head never goes down.", severity=Severity.WARNS),
    _KAFKA(
        UNDELETED_EVENTS,
        "No event is left up to its head's delete_to.",
        severity=Severity.WARNS,
    ),
    _KAFKA(
        DELETE_TO_BEYOND_SEQ_NR,
        "No head's delete_to is larger than its seq_nr.",
        severity=Severity.WARNS,
    ),
    _KAFKA(
        MIXED_SEGMENT_SIZE,
        "All heads of a topic have one segment size.",
        severity=Severity.WARNS,
    ),
    _KAFKA(
        HEADS_WITHOUT_RECORD_ID,
        "Every head has a record id.",
        severity=Severity.WARNS,
    ),
)
"""The checks of the layer, in the order in which they are shown."""
