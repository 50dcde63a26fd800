"""The target of tag views: deletes all rows of time buckets that no projection needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.pekko import tables, tag_views
from tidemark.ledger import applications
from tidemark.ledger.claim import LedgerRecorder
from tidemark.ledger.piece import Piece, State
from tidemark.ledger.pieces import Pieces, days
from tidemark.ledger.schedule import time_buckets
from tidemark.project.definition import catalog
from tidemark.purge.needs import readers
from tidemark.purge.needs.tag_views import absent_lines, all_needs
from tidemark.purge.plan import Bucket, describe, plan_purge
from tidemark.purge.policies.file import PolicyFile
from tidemark.purge.policies.model import TagViews
from tidemark.purge.policies.pieces import recorded_failure
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.tag_write import store
from tidemark.window import Window, to_millis

_DELETED_AT_ONCE = 100
"""Partitions that are deleted between two checks of the locks."""
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class TagViewOrder:
    """What a policy for tag views needs besides its own values.

    Attributes:
        file: the file of the policies, for errors.
        policies: all policies for tag views, with the effective days.
        window: the time buckets that may be deleted; None for all.
        given_up: names of projections without a file, and of other readers, that need nothing.
    """

    file: PolicyFile
    policies: Sequence[TagViews]
    window: Window | None = None
    given_up: Collection[str] = ()

    def decider(self, tags: Sequence[str]) -> tuple[TagViews, list[str]]:
        """Return the policy that decides about a time bucket, and its tags without a policy.

        A time bucket is deleted completely, so it is kept for the longest retention of its tags.
        """
        by_tag = {tag: policy for policy in self.policies for tag in policy.tags}
        default = next((policy for policy in self.policies if not policy.tags), None)
        policies = [by_tag.get(tag, default) for tag in tags]
        candidates = [policy for policy in self.policies if policy in policies] or self.policies[:1]
        without = [tag for tag, policy in zip(tags, policies, strict=True) if policy is None]
        return max(candidates, key=lambda policy: policy.keep_days or 0), without


def plan_tag_views(run: RunContext, policy: TagViews, order: TagViewOrder) -> TargetPlan:
    """Plan the time buckets that a policy decides about.

    Raises:
        DefinitionError: the policy names a tag that does not exist, or keeps less than a
            projection looks back; or a projection file cannot be read, so that its needs are
            unknown.
    """
    settings = run.settings
    partitions = list(tag_views.partitions(run.control, settings))
    _require_known_tags(run, policy, order, {tag for tag, _ in partitions})
    _require_look_back(run, policy, order)
    ledger = Pieces.of(run.control, settings, applications.PURGE)
    unfinished = {piece.time_bucket for piece in ledger.standing().open_rows}
    oldest_kept = run.moment - timedelta(days=policy.keep_days or settings.retention_days)
    planned = plan_purge(
        partitions,
        order.window,
        bucket_ms=settings.bucket_size.milliseconds,
        oldest_kept=to_millis(oldest_kept),
        needs=all_needs(run.control, settings, order.given_up),
        unfinished=unfinished,
    )
    buckets = [decided for b in planned if (decided := _decided(b, policy, order)) is not None]
    deletions = {b.time_bucket: b for b in buckets if not b.kept_because}
    # A run that died after its last delete left pieces without rows, which are only to be ended.
    rowless = unfinished - {time_bucket for _, time_bucket in partitions}
    to_end = set(deletions) | (rowless if policy == order.policies[0] else set())
    pieces = [piece for piece in ledger.plan(to_end, force=True) if piece.time_bucket in to_end]
    number = sum(len(b.tags) for b in deletions.values())
    counts = {
        "buckets_purged": len(deletions),
        "partitions_deleted": number,
        "buckets_kept": len(buckets) - len(deletions),
    }
    lines = [
        *_lines(buckets, order),
        *absent_lines(run, order.given_up),
        *_reader_lines(run, order, {tag for tag, _ in partitions}),
    ]
    return TargetPlan(
        counts,
        lines or ["no tag-view bucket is past its retention"],
        Tombstones(partitions=number),
        digest([*deletions.values(), *sorted(to_end)]),
        sorted(days(to_end, tables.lock_of(settings))),
        partial(_delete, run, ledger, pieces, deletions, counts) if pieces else None,
        {"pieces": len(pieces), "planned": len(deletions)},
    )


def _decided(bucket: Bucket, policy: TagViews, order: TagViewOrder) -> Bucket | None:
    """Return the bucket if the policy decides about it."""
    decider, without = order.decider(bucket.tags)
    if decider != policy:
        return None
    if without and not bucket.kept_because:
        return replace(bucket, kept_because=f"no policy for {', '.join(without)}")
    return bucket


def _lines(buckets: Sequence[Bucket], order: TagViewOrder) -> list[str]:
    """Return a line for each time bucket; without a window, kept ones are counted by reason."""
    if order.window is not None:
        return [describe(bucket) for bucket in buckets]
    kept = Counter(bucket.kept_because for bucket in buckets if bucket.kept_because)
    lines = [describe(bucket) for bucket in buckets if not bucket.kept_because]
    return lines + [
        f"keep {time_buckets(number)}: {reason}" for reason, number in sorted(kept.items())
    ]


def _reader_lines(run: RunContext, order: TagViewOrder, known_tags: Collection[str]) -> list[str]:
    of_tags = [
        reader
        for reader in readers.readers_of(run.control, run.settings, order.given_up)
        if reader.source in (readers.ReaderSource.TAG, None)
    ]
    return readers.lines(of_tags, known_tags)


def _require_known_tags(
    run: RunContext, policy: TagViews, order: TagViewOrder, existing_tags: set[str]
) -> None:
    unknown = set(policy.tags) - existing_tags
    if unknown:
        # A tag whose rows are all deleted still has its progress.
        rows = run.control.stream(
            f"SELECT tag FROM {table(run.settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)}",
            page=5000,
        )
        for row in rows:
            unknown.discard(row["tag"])
            if not unknown:
                return
        first = next(index for index, tag in enumerate(policy.tags) if tag in unknown)
        message = f"no event has the tag {policy.tags[first]}"
        raise order.file.error(policy, message, "correct it, or leave it out", "tags", first)


def _require_look_back(run: RunContext, policy: TagViews, order: TagViewOrder) -> None:
    retention_ms = (policy.keep_days or run.settings.retention_days) * _DAY_MS
    for definition in catalog.load(run.settings.projections_dir):
        if not definition.source.reads_tag_views:
            continue
        look_back = definition.look_back
        buckets = run.settings.project_look_back if look_back is None else look_back
        if buckets * run.settings.bucket_size.milliseconds > retention_ms:
            raise order.file.error(
                policy,
                f"{policy.keep_days} days are less than the {time_buckets(buckets)} that"
                f" {definition.name} looks back",
                "keep longer, or look back less",
                "keep-days",
            )


def _partitions(deletions: Iterable[Bucket]) -> list[tuple[str, int]]:
    """Return the partitions of time buckets."""
    return [(tag, bucket.time_bucket) for bucket in deletions for tag in bucket.tags]


def _delete(
    run: RunContext,
    ledger: Pieces,
    pieces: Sequence[Piece],
    deletions: Mapping[int, Bucket],
    counts: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    recorder = LedgerRecorder(ledger, run)
    started = recorder.start(pieces)
    with recorded_failure(
        ensure_locked, lambda reason: recorder.finish(started, State.FAILED, {}, reason)
    ):
        partitions = iter(_partitions(deletions.values()))
        while part := list(islice(partitions, _DELETED_AT_ONCE)):
            # After a lock is lost, other runs may write these partitions.
            ensure_locked()
            tag_views.delete_partitions(run.control, run.settings, part)
            store.forget_late(run.control, run.settings, part)
        ensure_locked()
        ended = {key: {"partitions_deleted": len(b.tags)} for key, b in deletions.items()}
        recorder.finish(started, State.DONE, ended, None)
    return counts
