"""What `reconcile delete` takes away.

The rows of a persistence id are found by the keys of its events. The partitions of a tag are only
gone through for an id whose first events are deleted from messages, up to the time bucket after
its first event that is left; with `thorough`, always and all of them. Nothing here depends on
tag_write_progress alone, which is deleted before the rows: a run that was killed finds them again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.context import RunContext
from tidemark.continuity.scope import Scope, require_known
from tidemark.journal.ids_by_key import Entity, read_entities
from tidemark.reconciliation.delete import find as delete_find
from tidemark.reconciliation.delete.find import ViewRow
from tidemark.window import from_millis

MAX_LINES = 20


@dataclass(frozen=True)
class Doomed:
    """The keys of everything that goes.

    Attributes:
        of_views: how many rows or partitions of the tag views, for the report.
        lines_of_views: text for reports about the tag views.
        scanning: persistence ids.
        progress: (persistence id, tag).
        rows: of the tag views, one by one.
        partitions: (tag, time bucket) that go as a whole.
    """

    of_views: Mapping[str, int] = field(default_factory=dict)
    lines_of_views: Sequence[str] = ()
    scanning: Sequence[str] = ()
    progress: Sequence[tuple[str, str]] = ()
    rows: Collection[ViewRow] = ()
    partitions: Sequence[tuple[str, int]] = ()

    @property
    def persistence_ids(self) -> frozenset[str]:
        """All of which something goes."""
        of_rows = {row.persistence_id for row in self.rows}
        return frozenset({*self.scanning, *of_rows, *(name for name, _ in self.progress)})

    @property
    def counts(self) -> dict[str, int]:
        """How much goes of all three tables."""
        return {
            **self.of_views,
            "progress_rows_deleted": len(self.progress),
            "scanning_rows_deleted": len(self.scanning),
        }

    @property
    def lines(self) -> list[str]:
        """Text for reports: what goes of all three tables."""
        if not any(self.counts.values()):
            return [*self.lines_of_views, "no tag views of these"]
        return [
            *self.lines_of_views,
            f"rows of tag_write_progress: {len(self.progress):,}, of tag_scanning:"
            f" {len(self.scanning):,}",
            "messages stay: the actors write these tag views again when they next start,"
            " `reconcile rebuild` does it now",
        ]


def of_ids(run: RunContext, scope: Scope, *, thorough: bool) -> Doomed:
    """Plan the deletion of the rows of the scope's persistence ids, of all tags or of the scope's.

    Raises:
        InvalidInput: a persistence id or a tag occurs nowhere.
    """
    control, settings = run.control, run.settings
    entities = read_entities(control, settings, scope.persistence_ids or ())
    rows = set(delete_find.rows_of_events(control, settings, entities, scope.tags))
    searched = (
        entities if thorough else [entity for entity in entities if entity.has_lost_its_front]
    )
    lines = []
    if searched:
        partitions = delete_find.partitions_of(control, settings, scope.tags)
        if not thorough:
            partitions = _up_to_the_first_events(run, partitions, searched)
        names = [entity.persistence_id for entity in searched]
        rows.update(delete_find.rows_in_partitions(control, settings, partitions, names))
        why = "asked for" if thorough else "their first events are deleted from messages"
        lines.append(
            f"{len(partitions):,} partitions of the tag views were searched for rows of"
            f" {len(names)} persistence ids to which no event leads: {why}"
        )
    _require_known(run, scope, entities, rows)
    progress = [
        (entity.persistence_id, tag)
        for entity in entities
        for tag in sorted(entity.progress_tags)
        if scope.tags is None or tag in scope.tags
    ]
    touched = {row.persistence_id for row in rows} | {name for name, _ in progress}
    return Doomed(
        {"tag_rows_deleted": len(rows)},
        [*_lines_of_rows(rows), *lines],
        [
            entity.persistence_id
            for entity in entities
            if entity.is_scanned and entity.persistence_id in touched
        ],
        progress,
        rows,
    )


def of_tags(run: RunContext, tags: Collection[str], *, thorough: bool) -> Doomed:
    """Plan the deletion of everything of some tags, partition by partition.

    The scanning of persistence ids is deleted too, so that actors read all their events again: of
    ids with a row of progress, and with `thorough` of all ids that have rows.

    Raises:
        InvalidInput: a tag occurs nowhere.
    """
    control, settings = run.control, run.settings
    partitions = delete_find.partitions_of(control, settings, tags)
    progress = [
        (persistence_id, tag)
        for tag in sorted(tags)
        for persistence_id in delete_find.ids_with_progress(control, settings, tag)
    ]
    known_tags = {tag for tag, _ in partitions} | {tag for _, tag in progress}
    require_known(run, Scope(tags=(frozenset(tags) - known_tags) or None))
    ids = {persistence_id for persistence_id, _ in progress}
    if thorough:
        ids |= delete_find.ids_in_partitions(control, settings, partitions)
    buckets: dict[str, list[int]] = defaultdict(list)
    for tag, bucket in partitions:
        buckets[tag].append(bucket)
    return Doomed(
        {"partitions_deleted": len(partitions)},
        [
            f"tag {tag}: {len(its):,} whole time buckets, {_moment(its[0])} to {_moment(its[-1])}"
            for tag, its in buckets.items()
        ],
        delete_find.ids_with_scanning(control, settings, ids),
        progress,
        partitions=partitions,
    )


def _require_known(
    run: RunContext, scope: Scope, entities: Iterable[Entity], rows: Iterable[ViewRow]
) -> None:
    """Search only for what was not met on the way."""
    tags = {row.tag for row in rows}
    for entity in entities:
        tags |= entity.progress_tags | {tag for tag, _ in entity.timestamps}
    unknown_ids = frozenset(entity.persistence_id for entity in entities if not entity.is_known)
    unknown_tags = (scope.tags or frozenset()) - tags
    require_known(run, Scope(unknown_ids or None, unknown_tags or None))


def _up_to_the_first_events(
    run: RunContext, partitions: Sequence[tuple[str, int]], entities: Iterable[Entity]
) -> list[tuple[str, int]]:
    """Return the partitions up to the first event that is left: rows of deleted events lie there.

    The writers' clocks may disagree, by less than a time bucket: a row that lies beyond would not
    be found by any reader (docs/real-systems.md, "How a reader reads").
    """
    first_buckets = [entity.first_bucket for entity in entities]
    if None in first_buckets:
        return list(partitions)
    last = max(bucket for bucket in first_buckets if bucket is not None)
    last += run.settings.bucket_size.milliseconds
    return [partition for partition in partitions if partition[1] <= last]


def _lines_of_rows(rows: Iterable[ViewRow]) -> list[str]:
    numbers = Counter((row.persistence_id, row.tag) for row in rows)
    lines = [
        f"{persistence_id}: {number:,} rows of tag {tag}"
        for (persistence_id, tag), number in sorted(numbers.items())
    ]
    more = len(lines) - MAX_LINES
    return lines[:MAX_LINES] + ([f"and {more:,} more of these"] if more > 0 else [])


def _moment(time_bucket: int) -> str:
    return f"{from_millis(time_bucket):%Y-%m-%d %H:%M}"
