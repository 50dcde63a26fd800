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
    BUCKET_SIZE_RECORDED = "tidemark.journals.pekko.bucket_size:record_bucket_size"
    UNWRITABLE_QUARANTINED = "tidemark.tag_write.store:quarantine_unwritable"
    TAG_VIEWS_WRITTEN = "tidemark.tag_write.store:write_tag_views"
    PROGRESS_WRITTEN = "tidemark.tag_write.store:write_progress"
    SCANNING_WRITTEN = "tidemark.tag_write.store:write_scanning"
    TAG_WRITE_TAILS_WRITTEN = "tidemark.tag_write.store:write_tails"
    TAG_WRITE_TAILS_FORGOTTEN = "tidemark.tag_write.completeness:forget"
    LATE_ROWS_RECORDED = "tidemark.tag_write.store:record_late"
    # validate
    FINDINGS_WRITTEN = "tidemark.validate.store:write_findings"
    OLDER_FINDINGS_DELETED = "tidemark.validate.store:delete_older"
    VALIDATED_TAILS_WRITTEN = "tidemark.validate.reading.tails:write"
    # project
    ORIGIN_NOTED = "tidemark.project.offset_store.bucket_origin:note"
    EVENTS_ACCEPTED = "tidemark.project.acceptance.accept:Acceptance.accept"
    BUCKET_ROWS_WRITTEN = "tidemark.project.writing.tables:write_bucket_rows"
    OLDER_ROWS_DELETED = "tidemark.project.writing.tables:delete_older_rows"
    NEWEST_WRITTEN = "tidemark.project.writing.tables:write_newest"
    REMOVED_STATES_MARKED = "tidemark.project.offset_store.removed_states:remember"
    EVENTS_APPENDED = "tidemark.project.writing.tables:write_events"
    BATCH_EXPORTED = "tidemark.project.writing.export_files:write_batch"
    EXPORTED_BUCKET_REPLACED = "tidemark.project.writing.export_files:replace_bucket"
    EXPORTED_BUCKET_REMOVED = "tidemark.project.writing.export_files:remove_bucket"
    EXPORTED_BATCHES_REMOVED = "tidemark.project.writing.export_files:remove_batches"
    ICEBERG_TABLE_PREPARED = "tidemark.project.writing.iceberg.write:prepare"
    ICEBERG_BATCH_BEGUN = "tidemark.project.writing.iceberg.write:begin_batch"
    ICEBERG_BATCH_WRITTEN = "tidemark.project.writing.iceberg.write:write_batch"
    ICEBERG_BATCH_PUBLISHED = "tidemark.project.writing.iceberg.write:publish_batch"
    POSTGRES_ROWS_SENT = "tidemark.postgres.copy:send"
    POSTGRES_FENCE_HELD = "tidemark.project.postgres.fence:Fence.hold"
    POSTGRES_OFFSETS_MERGED = "tidemark.project.offset_store.postgres_offsets:PostgresOffsets.merge"
    POSTGRES_COMMITTED = "tidemark.postgres.transaction:Transaction.commit"
    RESULT_WRITTEN = "tidemark.project.writing.write:write"
    OFFSETS_WRITTEN = "tidemark.project.offset_store.consumption:write_offsets"
    CURSORS_WRITTEN = "tidemark.project.offset_store.offsets:OffsetStore.advance_cursors"
    GAPS_REPLACED = "tidemark.project.offset_store.missing_numbers:replace"
    SLICES_RECORDED = "tidemark.project.offset_store.slice_records:record"
    SLICES_SETTLED = "tidemark.project.running.slice_session:roll_up"
    PIECES_FINISHED = "tidemark.project.running.run:_attempt"
    # Offsets that are changed by hand.
    REVISION_RAISED = "tidemark.project.management.change:_raise_revision"
    OPERATION_AUDITED = "tidemark.ledger.audit:record"
    PIECES_RESTATED = "tidemark.ledger.pieces:Pieces.restate"
    OFFSETS_FORGOTTEN = "tidemark.project.offset_store.offsets:OffsetStore.forget_offsets"
    CURSORS_FORGOTTEN = "tidemark.project.offset_store.offsets:OffsetStore.forget_cursors"
    SKIPS_FORGOTTEN = "tidemark.project.offset_store.skips:forget"
    SKIPS_CUT = "tidemark.project.offset_store.skips:cut"
    SKIP_ADDED = "tidemark.project.offset_store.skips:add"
    STATES_VOIDED = "tidemark.project.writing.tables:void_states"
    ALL_STATES_VOIDED = "tidemark.project.offset_store.management_state:void_states"
    OFFSET_SET = "tidemark.project.offset_store.offsets:OffsetStore.set_offset"
    # Written by several applications.
    RUN_PROGRESS_NOTED = "tidemark.ledger.claim:note_progress"
    FRONTIER_ADVANCED = "tidemark.ledger.frontier.partition:Partition.advance"
    EVENTS_QUARANTINED = "tidemark.ledger.quarantine:write"
    EVENTS_RELEASED = "tidemark.ledger.quarantine:release"
    EVENT_QUARANTINED = "tidemark.ledger.quarantine:write_one"
    PARTITIONS_DELETED = "tidemark.journals.pekko.tag_views:delete_partitions"
    # purge
    POLICY_STARTED = "tidemark.purge.policies.pieces:PolicyPieces.start"
    POLICY_FINISHED = "tidemark.purge.policies.pieces:PolicyPieces.finish"
    OWN_ROWS_DELETED = "tidemark.purge.own_tables.store:delete"
    ROWS_OF_IDS_DELETED = "tidemark.purge.own_tables.store:delete_of_ids"
    LEDGER_ROWS_DELETED = "tidemark.ledger.frontier.partition:Partition.delete_rows"
    ICEBERG_SNAPSHOTS_EXPIRED = "tidemark.project.writing.iceberg.upkeep:expire"
    ICEBERG_ORPHANS_REMOVED = "tidemark.project.writing.iceberg.upkeep:remove_orphans"
    PURGES_SENT = "tidemark.purge.kafka_journal.send:send_purges"
    # replicate
    RANGES_STARTED = "tidemark.replicate.ranges:Ranges.start"
    RECORDS_QUARANTINED = "tidemark.replicate.quarantine:write"
    MENDED_RECORDS_KEPT = "tidemark.replicate.quarantine:keep"
    RECORDS_RELEASED = "tidemark.replicate.quarantine:release"
    DELETIONS_NOTED = "tidemark.replicate.tables.deletions:Notes.note"
    PURGED_HEADS_MARKED = "tidemark.replicate.tables.deletions:mark_heads"
    REPLICATED_EVENTS_DELETED = "tidemark.replicate.tables.deletions:delete_events"
    PURGES_DONE = "tidemark.replicate.tables.deletions:Notes.purge"
    REPLICATED_EVENTS_WRITTEN = "tidemark.replicate.tables.rows:write_events"
    REPLICATED_HEADS_WRITTEN = "tidemark.replicate.tables.rows:write_heads"
    EXPIRY_REMOVED = "tidemark.replicate.tables.rows:remove_expiry"
    DELETES_DONE = "tidemark.replicate.tables.deletions:Notes.delete"
    DELETIONS_FORGOTTEN = "tidemark.replicate.tables.deletions:Notes.forget"
    POINTERS_WRITTEN = "tidemark.replicate.tables.pointers:write"
    RANGE_FINISHED = "tidemark.replicate.ranges:Ranges.finish"
    # run-event-groups
    GROUP_SUBMITTED = "tidemark.event_groups.stream.store:Stream.submit"
    GROUP_QUARANTINED = "tidemark.event_groups.topic.store:TopicSource.quarantine"
    TOPIC_TAKEN = "tidemark.event_groups.topic.store:TopicSource.move"
    GROUP_STATE_SET = "tidemark.event_groups.stream.store:Stream.set_state"
    IMAGES_KEPT = "tidemark.event_groups.stream.before_images:BeforeImages.keep"
    IMAGES_FORGOTTEN = "tidemark.event_groups.stream.before_images:BeforeImages.forget"
    EVENT_BEGUN = "tidemark.event_groups.stream.store:Stream.begin"
    EVENT_ENDED = "tidemark.event_groups.stream.store:Stream.end"
    STATEMENT_SENT = "tidemark.event_groups.driver_engine.few_rows:send"
    COMPENSATION_SENT = "tidemark.event_groups.execution.rollback:send"
    LIBRARY_LOADED = "tidemark.event_groups.stream.libraries:LoadedLibraries.load"
    ROW_RESTORED = "tidemark.event_groups.driver_engine.before_image:Restoring.restore"
    HOOK_SENT = "tidemark.event_groups.execution.hooks:_attempted"
    HOOK_TOLD = "tidemark.event_groups.stream.deliveries:Deliveries.record"
    RESTORED_PART_WRITTEN = "tidemark.event_groups.driver_engine.before_image:write_part"
    OPEN_FROM_MOVED = "tidemark.event_groups.stream.store:Stream.move_open_from"
    CHANGE_NOTED = "tidemark.event_groups.stream.holding:HeldGroups.note_change"
    HELD_GROUPS_KEPT = "tidemark.event_groups.stream.holding:HeldGroups.keep"
    STATEMENT_PLAYED = "tidemark.event_groups.playback.run:send"
    MANY_ROWS_EMPTIED = "tidemark.event_groups.stream.kept_parts:KeptParts.empty"
    MANY_ROWS_ANNOUNCED = "tidemark.event_groups.stream.kept_parts:KeptParts.announce"
    MANY_ROWS_FORGOTTEN = "tidemark.event_groups.stream.kept_parts:KeptParts.forget"
    MANY_ROWS_KEPT = "tidemark.event_groups.spark_engine.store:KeptImages.write"
    MANY_ROWS_SENT = "tidemark.event_groups.spark_engine.writes:send"
    # reconcile
    TABLE_EMPTIED = "tidemark.reconcile.truncate:empty_table"
    SCANNING_DELETED = "tidemark.reconcile.delete.store:delete_scanning"
    PROGRESS_DELETED = "tidemark.reconcile.delete.store:delete_progress"
    ROWS_DELETED = "tidemark.reconcile.delete.store:delete_rows"
    DELETES_PROPAGATED = "tidemark.reconcile.propagate_deletes.store:delete_rows"
    REPAIR_ROWS_DELETED = "tidemark.reconcile.repair.store:delete_rows"
    TAILS_FORGOTTEN_BY_SPARK = "tidemark.reconcile.deletes:forget"
    SCANNING_DELETED_BY_SPARK = "tidemark.reconcile.deletes:delete_scanning"
    PROGRESS_DELETED_BY_SPARK = "tidemark.reconcile.deletes:delete_progress"
    # Deletes of events and snapshots.
    DELETED_TO_WRITTEN = "tidemark.purge.messages.store:write_deleted_to"
    MESSAGE_PARTITIONS_DELETED = "tidemark.purge.messages.store:delete_partitions"
    MESSAGE_RANGES_DELETED = "tidemark.purge.messages.store:delete_ranges"
    IDS_UNLISTED = "tidemark.purge.messages.store:unlist_ids"
    IDS_FORGOTTEN = "tidemark.purge.messages.store:forget_ids"
    OLD_SNAPSHOTS_DELETED = "tidemark.purge.snapshots.store:delete_before"
    ALL_SNAPSHOTS_DELETED = "tidemark.purge.snapshots.store:delete_all"
    HISTORY_ENDED = "tidemark.purge.snapshots.store:end_history"
    EVENTS_RESTORED = "tidemark.purge.undo.store:write_messages"
    SNAPSHOTS_RESTORED = "tidemark.purge.undo.store:write_snapshots"
    IDS_LISTED = "tidemark.purge.undo.store:write_listed"
    METADATA_RESTORED = "tidemark.purge.undo.store:write_metadata"
    # reconcile rebucket
    NEW_TABLE_CREATED = "tidemark.reconcile.rebucket.store:create_table"
    ROWS_COPIED = "tidemark.reconcile.rebucket.store:copy_rows"
    COPIED_ROWS_DELETED = "tidemark.reconcile.rebucket.store:delete_rows"
    VERIFICATION_WRITTEN = "tidemark.reconcile.rebucket.store:write_verified"
    OLD_TABLE_DROPPED = "tidemark.reconcile.rebucket.store:drop_table"
    REBUCKETING_FORGOTTEN = "tidemark.reconcile.rebucket.store:forget"

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
