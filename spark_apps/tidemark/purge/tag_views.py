"""The target of tag views: time buckets go as a whole, if no projection needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.pekko import tables, tag_views
from tidemark.ledger import applications
from tidemark.ledger.claim import LedgerRecorder
from tidemark.ledger.pieces import Piece, Pieces, State, days
from tidemark.ledger.schedule import time_buckets
from tidemark.project.definition import catalog
from tidemark.purge.needs import readers
from tidemark.purge.needs.tag_views import absent_lines, all_needs
from tidemark.purge.plan import Bucket, describe, plan_purge
from tidemark.purge.policies.file import PolicyFile
from tidemark.purge.policies.model import TagViews
from tidemark.purge.policies.pieces import recorded_failure
from tidemark.purge.target import TargetPlan, Tombstones, digest
from tidemark.tag_write import store
from tidemark.window import Window, to_millis

_DELETED_AT_ONCE = 100
"""Partitions that are deleted between two looks at the locks."""
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class TagViewOrder:
    """What a policy for tag views must know beside itself.

    Attributes:
        file: the file of the policies, for errors.
        policies: all policies for tag views, with the days that count.
        window: the time buckets that may go; None for all.
        given_up: names of projections without a file, and of other readers, that need nothing.
    """

    file: PolicyFile
    policies: Sequence[TagViews]
    window: Window | None = None
    given_up: Collection[str] = ()

    def decider(self, tags: Sequence[str]) -> tuple[TagViews, list[str]]:
        """Return the policy that decides about a time bucket, and its tags without a policy.

        A time bucket goes as a whole, so it stays for the longest retention of its tags.
        """
        named = {tag: policy for policy in self.policies for tag in policy.tags}
        rest = next((policy for policy in self.policies if not policy.tags), None)
        found = [named.get(tag, rest) for tag in tags]
        known = [policy for policy in self.policies if policy in found] or self.policies[:1]
        without = [tag for tag, policy in zip(tags, found, strict=True) if policy is None]
        return max(known, key=lambda policy: policy.keep_days or 0), without


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
    deletions = {bucket.time_bucket: bucket for bucket in buckets if not bucket.kept_because}
    # A run that died after its last delete left pieces without rows: only their end is missing.
    rowless = unfinished - {time_bucket for _, time_bucket in partitions}
    to_end = set(deletions) | (rowless if policy == order.policies[0] else set())
    pieces = [p for p in ledger.plan(to_end, force=True) if p.time_bucket in to_end]
    number = sum(len(bucket.tags) for bucket in deletions.values())
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
    """Each time bucket; without a window, what is kept is only counted by reason."""
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
    run: RunContext, policy: TagViews, order: TagViewOrder, known: set[str]
) -> None:
    unknown = set(policy.tags) - known
    if unknown:
        # Of a tag whose rows have all gone, what was written remains.
        rows = run.control.stream(
            f"SELECT tag FROM {table(run.settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)}",
            page=5000,
        )
        for row in rows:
            unknown.discard(row["tag"])
            if not unknown:
                return
        first = next(index for index, tag in enumerate(policy.tags) if tag in unknown)
        what = f"no event has the tag {policy.tags[first]}"
        raise order.file.error(policy, what, "correct it, or leave it out", "tags", first)


def _require_look_back(run: RunContext, policy: TagViews, order: TagViewOrder) -> None:
    kept = (policy.keep_days or run.settings.retention_days) * _DAY_MS
    for definition in catalog.load(run.settings.projections_dir):
        if not definition.source.reads_tag_views:
            continue
        look_back = definition.look_back
        buckets = run.settings.project_look_back if look_back is None else look_back
        if buckets * run.settings.bucket_size.milliseconds > kept:
            raise order.file.error(
                policy,
                f"{policy.keep_days} days are less than the {time_buckets(buckets)} that"
                f" {definition.name} looks back",
                "keep longer, or look back less",
                "keep-days",
            )


def _places(deletions: Iterable[Bucket]) -> list[tuple[str, int]]:
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
        places = iter(_places(deletions.values()))
        while part := list(islice(places, _DELETED_AT_ONCE)):
            # What was lost meanwhile may be written by others now.
            ensure_locked()
            tag_views.delete_partitions(run.control, run.settings, part)
            store.forget_late(run.control, run.settings, part)
        ensure_locked()
        ended = {key: {"partitions_deleted": len(b.tags)} for key, b in deletions.items()}
        recorder.finish(started, State.DONE, ended, None)
    return counts
