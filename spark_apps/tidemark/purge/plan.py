"""The plan of purge: which time buckets of the tag views to delete, and why the others stay.

Plain data, no I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from tidemark.window import Window, from_millis, to_millis


@dataclass(frozen=True)
class ReaderNeed:
    """The tags that a projection reads, and the time buckets that it has consumed.

    Attributes:
        projection: the projection's name.
        tags: the tags that it reads; None if its file is absent, so that they are unknown.
        done: the consumed time buckets, epoch ms.
        subject: the projection's name in the ledger.
        begin: the first time bucket that it processes, epoch ms; it needs no earlier one.
    """

    projection: str
    tags: frozenset[str] | None
    done: Set[int]
    subject: str = ""
    begin: int = -(2**63)

    def reads(self, tags: Iterable[str]) -> bool:
        """Return whether the projection reads one of the tags, or may read it."""
        return self.tags is None or not self.tags.isdisjoint(tags)


@dataclass(frozen=True)
class Bucket:
    """A time bucket that has rows, its tags, and why it is kept (empty if it may be purged)."""

    time_bucket: int
    tags: tuple[str, ...]
    kept_because: str = ""


def plan_purge(
    partitions: Iterable[tuple[str, int]],
    window: Window | None,
    *,
    bucket_ms: int,
    oldest_kept: int,
    needs: Sequence[ReaderNeed],
    unfinished: Collection[int] = (),
) -> list[Bucket]:
    """Decide about every time bucket in the window that has rows, ascending.

    All rows of a bucket are deleted, or none. It is kept while it is younger than the retention,
    and from the first bucket on that some projection has not consumed: a projection looks back
    for missing events, so all later buckets are kept, even if the projection skipped ahead.

    Args:
        partitions: the (tag_name, time bucket) that exist in tag_views, inside the window or not.
        window: the time that may be purged; None for all that is past its retention.
        bucket_ms: the bucket size.
        oldest_kept: epoch ms; a bucket is kept unless it ended at or before this.
        needs: every projection that reads tag views, lagging, paused or never run.
        unfinished: buckets that an earlier purge began; they are in the plan, too.
    """
    tags_of: dict[int, list[str]] = defaultdict(list)
    for tag, time_bucket in partitions:
        tags_of[time_bucket].append(tag)
    frontiers = {need.projection: frontier(tags_of, need) for need in needs}
    first = -(2**63) if window is None else to_millis(window.start)
    end = oldest_kept - bucket_ms + 1 if window is None else to_millis(window.end)
    return [
        Bucket(
            time_bucket,
            tuple(sorted(tags)),
            _reason_to_keep(time_bucket, bucket_ms, oldest_kept, frontiers),
        )
        for time_bucket, tags in sorted(tags_of.items())
        if first <= time_bucket < end or time_bucket in unfinished
    ]


def describe(bucket: Bucket) -> str:
    """Return a bucket's line of the plan, for people."""
    verdict = f"keep: {bucket.kept_because}" if bucket.kept_because else "purge"
    moment = from_millis(bucket.time_bucket)
    return f"{moment:%Y-%m-%d %H:%M}  {verdict}  {len(bucket.tags)} tags: {', '.join(bucket.tags)}"


def frontier(tags_of: Mapping[int, Sequence[str]], need: ReaderNeed) -> int | None:
    """Return the first bucket with rows of the projection's tags that it has not consumed."""
    unconsumed = (
        time_bucket
        for time_bucket, tags in tags_of.items()
        if time_bucket >= need.begin and time_bucket not in need.done and need.reads(tags)
    )
    return min(unconsumed, default=None)


def _reason_to_keep(
    time_bucket: int, bucket_ms: int, oldest_kept: int, frontiers: Mapping[str, int | None]
) -> str:
    if time_bucket + bucket_ms > oldest_kept:
        return "younger than the retention"
    readers = sorted(
        name
        for name, frontier in frontiers.items()
        if frontier is not None and time_bucket >= frontier
    )
    return f"needed by {', '.join(readers)}" if readers else ""
