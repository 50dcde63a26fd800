"""Plans which rows of given persistence ids `reconcile delete` deletes.

The rows of a persistence id are found by the keys of its events. The partitions of a tag are
searched only for an id whose first events are deleted from messages, up to the time bucket after
its first remaining event; with `search_all`, always and all of them. Nothing here depends on
tag_write_progress alone, which is deleted before the rows: the next run after a crash finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tidemark.context import RunContext
from tidemark.journals.pekko.ids_by_key import Entity, read_entities
from tidemark.reconcile.delete import find as delete_find
from tidemark.reconcile.delete.find import ViewRow
from tidemark.validate.scope import Scope, require_known

MAX_LINES = 20
STAYS = (
    "messages stay: the actors write these tag views again when they next start,"
    " `reconcile rebuild` does it now"
)


@dataclass(frozen=True)
class TagRowsToDelete:
    """The keys of everything to delete.

    Attributes:
        lines_of_views: text for reports about the tag views.
        scanning: persistence ids.
        progress: (persistence id, tag).
        rows: of the tag views, one by one.
    """

    lines_of_views: Sequence[str] = ()
    scanning: Sequence[str] = ()
    progress: Sequence[tuple[str, str]] = ()
    rows: Collection[ViewRow] = ()

    @property
    def persistence_ids(self) -> frozenset[str]:
        """All persistence ids with anything to delete."""
        of_rows = {row.persistence_id for row in self.rows}
        return frozenset({*self.scanning, *of_rows, *(name for name, _ in self.progress)})

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of rows to delete in all three tables."""
        return {
            "tag_rows_deleted": len(self.rows),
            "progress_rows_deleted": len(self.progress),
            "scanning_rows_deleted": len(self.scanning),
        }

    @property
    def lines(self) -> list[str]:
        """Text for reports about all three tables."""
        if not any(self.counts.values()):
            return [*self.lines_of_views, "no tag views of these"]
        return [
            *self.lines_of_views,
            f"rows of tag_write_progress: {len(self.progress):,}, of tag_scanning:"
            f" {len(self.scanning):,}",
            STAYS,
        ]


def of_ids(run: RunContext, scope: Scope, *, search_all: bool) -> TagRowsToDelete:
    """Plan to delete the rows of the scope's persistence ids, of all tags or of the scope's."""
    control, settings = run.control, run.settings
    entities = read_entities(control, settings, scope.persistence_ids or ())
    rows = set(delete_find.rows_of_events(control, settings, entities, scope.tags))
    searched = (
        entities if search_all else [entity for entity in entities if entity.has_lost_its_front]
    )
    lines = []
    if searched:
        partitions = delete_find.partitions_of(control, settings, scope.tags)
        if not search_all:
            partitions = _up_to_the_first_events(run, partitions, searched)
        ids = [entity.persistence_id for entity in searched]
        rows.update(delete_find.rows_in_partitions(control, settings, partitions, ids))
        reason = "asked for" if search_all else "their first events are deleted from messages"
        lines.append(
            f"{len(partitions):,} partitions of the tag views were searched for rows of"
            f" {len(ids)} persistence ids to which no event leads: {reason}"
        )
    _require_known(run, scope, entities, rows)
    progress = [
        (entity.persistence_id, tag)
        for entity in entities
        for tag in sorted(entity.progress_tags)
        if scope.tags is None or tag in scope.tags
    ]
    touched = {row.persistence_id for row in rows} | {name for name, _ in progress}
    return TagRowsToDelete(
        [*_lines_of_rows(rows), *lines],
        [
            entity.persistence_id
            for entity in entities
            if entity.is_scanned and entity.persistence_id in touched
        ],
        progress,
        rows,
    )


def _require_known(
    run: RunContext, scope: Scope, entities: Iterable[Entity], rows: Iterable[ViewRow]
) -> None:
    """Search only for the persistence ids and tags that have not been found yet."""
    tags = {row.tag for row in rows}
    for entity in entities:
        tags |= entity.progress_tags | {tag for tag, _ in entity.timestamps}
    unknown_ids = frozenset(entity.persistence_id for entity in entities if not entity.is_known)
    unknown_tags = (scope.tags or frozenset()) - tags
    require_known(run, Scope(unknown_ids or None, unknown_tags or None))


def _up_to_the_first_events(
    run: RunContext, partitions: Sequence[tuple[str, int]], entities: Iterable[Entity]
) -> list[tuple[str, int]]:
    """Return the partitions up to the first remaining event, where rows of deleted events are.

    The writers' clocks may disagree, by less than a time bucket: no reader would find a later row
    (docs/real-systems.md, "How a reader reads").
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
