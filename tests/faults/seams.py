"""The seams of a run: places where a test may kill the run, or check that it holds its locks.

A seam is named after what has just been done, and stands for the function that does it. Only this
module knows where that function is; tests name the seam.
"""

from __future__ import annotations

import functools
import importlib
from enum import Enum, unique
from typing import Any


@unique
class Seam(Enum):
    """What has been done, with the `module:function` or `module:Class.method` that does it."""

    # tag-write, and the operations of reconcile that number.
    BUCKET_SIZE_RECORDED = "tidemark.journal.bucket_size:record_bucket_size"
    UNWRITABLE_QUARANTINED = "tidemark.tagging.store:quarantine_unwritable"
    TAG_VIEWS_WRITTEN = "tidemark.tagging.store:write_tag_views"
    PROGRESS_WRITTEN = "tidemark.tagging.store:write_progress"
    SCANNING_WRITTEN = "tidemark.tagging.store:write_scanning"
    TAG_WRITE_TAILS_WRITTEN = "tidemark.tagging.store:write_tails"
    TAG_WRITE_TAILS_FORGOTTEN = "tidemark.tagging.completeness:forget"
    LATE_ROWS_RECORDED = "tidemark.tagging.store:record_late"
    # validate
    FINDINGS_WRITTEN = "tidemark.continuity.store:write_findings"
    OLDER_FINDINGS_DELETED = "tidemark.continuity.store:delete_older"
    VALIDATED_TAILS_WRITTEN = "tidemark.continuity.reading.tails:write"
    # project
    ORIGIN_NOTED = "tidemark.projection.offset_store.made_from:note"
    EVENTS_ACCEPTED = "tidemark.projection.acceptance.accept:Acceptance.accept"
    BUCKET_ROWS_WRITTEN = "tidemark.projection.writing.tables:write_bucket_rows"
    OLDER_ROWS_DELETED = "tidemark.projection.writing.tables:delete_older_rows"
    NEWEST_WRITTEN = "tidemark.projection.writing.tables:write_newest"
    REMOVED_STATES_MARKED = "tidemark.projection.offset_store.removed_states:remember"
    EVENTS_APPENDED = "tidemark.projection.writing.tables:write_events"
    BATCH_EXPORTED = "tidemark.projection.writing.export_files:write_batch"
    EXPORTED_BUCKET_REPLACED = "tidemark.projection.writing.export_files:replace_bucket"
    EXPORTED_BUCKET_REMOVED = "tidemark.projection.writing.export_files:remove_bucket"
    EXPORTED_BATCHES_REMOVED = "tidemark.projection.writing.export_files:remove_batches"
    RESULT_WRITTEN = "tidemark.projection.writing.write:write"
    OFFSETS_WRITTEN = "tidemark.projection.offset_store.consumption:write_offsets"
    CURSORS_WRITTEN = "tidemark.projection.offset_store.offsets:OffsetStore.advance_cursors"
    GAPS_REPLACED = "tidemark.projection.offset_store.missing_numbers:replace"
    SLICES_RECORDED = "tidemark.projection.offset_store.slice_records:record"
    SLICES_SETTLED = "tidemark.projection.running.slice_session:roll_up"
    PIECES_FINISHED = "tidemark.projection.running.run:_attempt"
    # Offsets that are changed by hand.
    REVISION_RAISED = "tidemark.projection.management.change:_raise_revision"
    OPERATION_AUDITED = "tidemark.ledger.audit:record"
    PIECES_RESTATED = "tidemark.ledger.pieces:Pieces.restate"
    OFFSETS_FORGOTTEN = "tidemark.projection.offset_store.offsets:OffsetStore.forget_offsets"
    CURSORS_FORGOTTEN = "tidemark.projection.offset_store.offsets:OffsetStore.forget_cursors"
    SKIPS_FORGOTTEN = "tidemark.projection.offset_store.skips:forget"
    SKIPS_CUT = "tidemark.projection.offset_store.skips:cut"
    SKIP_ADDED = "tidemark.projection.offset_store.skips:add"
    STATES_VOIDED = "tidemark.projection.writing.tables:void_states"
    ALL_STATES_VOIDED = "tidemark.projection.offset_store.management_state:void_states"
    OFFSET_SET = "tidemark.projection.offset_store.offsets:OffsetStore.set_offset"
    # Written by several applications.
    RUN_PROGRESS_NOTED = "tidemark.ledger.claim:note_progress"
    FRONTIER_ADVANCED = "tidemark.ledger.frontier.partition:Partition.advance"
    EVENTS_QUARANTINED = "tidemark.ledger.quarantine:write"
    EVENTS_RELEASED = "tidemark.ledger.quarantine:release"
    EVENT_QUARANTINED = "tidemark.ledger.quarantine:write_one"
    PARTITIONS_DELETED = "tidemark.journal.tag_views:delete_partitions"
    # purge
    POLICY_STARTED = "tidemark.retention.policies.pieces:PolicyPieces.start"
    POLICY_FINISHED = "tidemark.retention.policies.pieces:PolicyPieces.finish"
    OWN_ROWS_DELETED = "tidemark.retention.own_tables.store:delete"
    ROWS_OF_IDS_DELETED = "tidemark.retention.own_tables.store:delete_of_ids"
    LEDGER_ROWS_DELETED = "tidemark.ledger.frontier.partition:Partition.delete_rows"
    PURGES_SENT = "tidemark.retention.kafka_journal.send:send_purges"
    # replicate
    RANGES_STARTED = "tidemark.replication.ranges:Ranges.start"
    RECORDS_QUARANTINED = "tidemark.replication.quarantine:write"
    MENDED_RECORDS_KEPT = "tidemark.replication.quarantine:keep"
    RECORDS_RELEASED = "tidemark.replication.quarantine:release"
    DELETIONS_NOTED = "tidemark.replication.tables.deletions:Notes.note"
    PURGED_HEADS_MARKED = "tidemark.replication.tables.deletions:mark_heads"
    REPLICATED_EVENTS_DELETED = "tidemark.replication.tables.deletions:delete_events"
    PURGES_DONE = "tidemark.replication.tables.deletions:Notes.purge"
    REPLICATED_EVENTS_WRITTEN = "tidemark.replication.tables.rows:write_events"
    REPLICATED_HEADS_WRITTEN = "tidemark.replication.tables.rows:write_heads"
    EXPIRY_REMOVED = "tidemark.replication.tables.rows:remove_expiry"
    DELETES_DONE = "tidemark.replication.tables.deletions:Notes.delete"
    DELETIONS_FORGOTTEN = "tidemark.replication.tables.deletions:Notes.forget"
    POINTERS_WRITTEN = "tidemark.replication.tables.pointers:write"
    RANGE_FINISHED = "tidemark.replication.ranges:Ranges.finish"
    # run-event-groups
    GROUP_SUBMITTED = "tidemark.event_groups.stream.store:Stream.submit"
    GROUP_QUARANTINED = "tidemark.event_groups.topic.store:Source.quarantine"
    TOPIC_TAKEN = "tidemark.event_groups.topic.store:Source.move"
    GROUP_STATE_SET = "tidemark.event_groups.stream.store:Stream.set_state"
    IMAGES_KEPT = "tidemark.event_groups.stream.before_images:BeforeImages.keep"
    IMAGES_FORGOTTEN = "tidemark.event_groups.stream.before_images:BeforeImages.forget"
    EVENT_BEGUN = "tidemark.event_groups.stream.store:Stream.begin"
    EVENT_ENDED = "tidemark.event_groups.stream.store:Stream.end"
    STATEMENT_SENT = "tidemark.event_groups.execution.few_rows:send"
    COMPENSATION_SENT = "tidemark.event_groups.execution.rollback:send"
    LIBRARY_LOADED = "tidemark.event_groups.stream.libraries:LoadedLibraries.load"
    ROW_RESTORED = "tidemark.event_groups.execution.before_image:Restoring.restore"
    HOOK_SENT = "tidemark.event_groups.execution.hooks:_attempted"
    HOOK_TOLD = "tidemark.event_groups.stream.deliveries:Deliveries.record"
    RESTORED_PART_WRITTEN = "tidemark.event_groups.execution.before_image:write_part"
    OPEN_FROM_MOVED = "tidemark.event_groups.stream.store:Stream.move_open_from"
    CHANGE_NOTED = "tidemark.event_groups.stream.holding:HeldGroups.note_change"
    HELD_GROUPS_KEPT = "tidemark.event_groups.stream.holding:HeldGroups.keep"
    STATEMENT_PLAYED = "tidemark.event_groups.playback.run:send"
    MANY_ROWS_EMPTIED = "tidemark.event_groups.stream.kept_parts:KeptParts.empty"
    MANY_ROWS_ANNOUNCED = "tidemark.event_groups.stream.kept_parts:KeptParts.announce"
    MANY_ROWS_FORGOTTEN = "tidemark.event_groups.stream.kept_parts:KeptParts.forget"
    MANY_ROWS_KEPT = "tidemark.event_groups.many_rows.store:KeptRows.write"
    MANY_ROWS_SENT = "tidemark.event_groups.many_rows.writes:send"
    # reconcile
    TABLE_EMPTIED = "tidemark.reconciliation.truncate:empty_table"
    SCANNING_DELETED = "tidemark.reconciliation.delete.store:delete_scanning"
    PROGRESS_DELETED = "tidemark.reconciliation.delete.store:delete_progress"
    ROWS_DELETED = "tidemark.reconciliation.delete.store:delete_rows"
    DELETES_PROPAGATED = "tidemark.reconciliation.propagate_deletes.store:delete_rows"
    REPAIR_ROWS_DELETED = "tidemark.reconciliation.repair.store:delete_rows"
    TAILS_FORGOTTEN_BY_SPARK = "tidemark.reconciliation.deletes:forget"
    SCANNING_DELETED_BY_SPARK = "tidemark.reconciliation.deletes:delete_scanning"
    PROGRESS_DELETED_BY_SPARK = "tidemark.reconciliation.deletes:delete_progress"
    # Deletes of events and snapshots.
    DELETED_TO_WRITTEN = "tidemark.retention.messages.store:write_deleted_to"
    MESSAGE_PARTITIONS_DELETED = "tidemark.retention.messages.store:delete_partitions"
    MESSAGE_RANGES_DELETED = "tidemark.retention.messages.store:delete_ranges"
    IDS_UNLISTED = "tidemark.retention.messages.store:unlist_ids"
    IDS_FORGOTTEN = "tidemark.retention.messages.store:forget_ids"
    OLD_SNAPSHOTS_DELETED = "tidemark.retention.snapshots.store:delete_before"
    ALL_SNAPSHOTS_DELETED = "tidemark.retention.snapshots.store:delete_all"
    HISTORY_ENDED = "tidemark.retention.snapshots.store:end_history"
    EVENTS_RESTORED = "tidemark.retention.undo.store:write_messages"
    SNAPSHOTS_RESTORED = "tidemark.retention.undo.store:write_snapshots"
    IDS_LISTED = "tidemark.retention.undo.store:write_listed"
    METADATA_RESTORED = "tidemark.retention.undo.store:write_metadata"
    # reconcile rebucket
    NEW_TABLE_CREATED = "tidemark.reconciliation.rebucket.store:create_table"
    ROWS_COPIED = "tidemark.reconciliation.rebucket.store:copy_rows"
    COPIED_ROWS_DELETED = "tidemark.reconciliation.rebucket.store:delete_rows"
    VERIFICATION_WRITTEN = "tidemark.reconciliation.rebucket.store:write_verified"
    OLD_TABLE_DROPPED = "tidemark.reconciliation.rebucket.store:drop_table"
    REBUCKETING_FORGOTTEN = "tidemark.reconciliation.rebucket.store:forget"

    def place(self) -> tuple[Any, str]:
        """Return the module or class that has the function, and its name, as `setattr` takes them.

        Raises:
            ImportError: there is no such module.
            AttributeError: the module has no such class or function.
        """
        module, _, path = self.value.partition(":")
        *classes, name = path.split(".")
        owner = functools.reduce(getattr, classes, importlib.import_module(module))
        if not callable(getattr(owner, name)):
            raise AttributeError(f"{self.value} cannot be called")
        return owner, name
