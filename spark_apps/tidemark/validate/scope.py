"""The part of a journal that an application works on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import tag_views
from tidemark.journals.pekko.ids_by_key import unknown_ids, without_snapshots
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.window import Window, iso

_NAMED = 10
_BATCH = 1000
"""The number of partitions that are read concurrently."""


@dataclass(frozen=True)
class Scope:
    """Persistence ids, tags and time buckets; None means all.

    Attributes:
        persistence_ids: only these persistence ids.
        tags: only these tags.
        window: only the time buckets of this window.
        slices: only persistence ids of these slices; not together with persistence_ids.
    """

    persistence_ids: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    window: Window | None = None
    slices: SliceRange | None = None

    @classmethod
    def of(
        cls,
        persistence_ids: list[str] | None,
        tags: list[str] | None,
        window: Window | None = None,
        *,
        everything: bool = True,
    ) -> Scope:
        """Return the scope that command line options name.

        Raises:
            InvalidInput: nothing was named, and `everything` was not requested.
        """
        is_restricted = bool(persistence_ids or tags or window)
        if not is_restricted and not everything:
            raise InvalidInput(
                "nothing to work on",
                where="--persistence-id, --tag, --window-start, --all",
                do="name persistence ids, tags or a window, or give --all",
            )
        return cls(
            frozenset(persistence_ids) if persistence_ids else None,
            frozenset(tags) if tags else None,
            window,
        )

    @classmethod
    def of_ids(cls, persistence_ids: list[str] | None, slices: str | None) -> Scope:
        """Return the scope that the options --persistence-id and --slices name.

        Raises:
            InvalidInput: both are given, or the range is not valid.
        """
        if persistence_ids and slices is not None:
            raise InvalidInput(
                "persistence ids and slices together",
                where="--persistence-id, --slices",
                do="give one of them",
            )
        ids = frozenset(persistence_ids) if persistence_ids else None
        return cls(ids, slices=None if slices is None else slice_ranges.parse(slices))

    def details(self) -> dict[str, object]:
        """Return the slices or the first persistence ids as fields for programs."""
        if self.slices is not None:
            return {"slices": slice_ranges.text(self.slices)}
        return {"persistence_ids": sorted(self.persistence_ids or ())[:_NAMED]}

    def options(self) -> dict[str, object]:
        """Return the command line options of the scope, by name without leading dashes."""
        options: dict[str, object] = {}
        if self.persistence_ids is not None:
            options["persistence-id"] = sorted(self.persistence_ids)
        if self.tags is not None:
            options["tag"] = sorted(self.tags)
        if self.window is not None:
            options |= {
                "window-start": iso(self.window.start),
                "window-end": iso(self.window.end),
            }
        return options

    @property
    def is_everything(self) -> bool:
        """Whether the scope is not restricted."""
        return self == Scope()

    def __str__(self) -> str:
        """Return the text for the plan, the audit and the report."""
        parts = []
        if self.persistence_ids is not None:
            noun = "persistence id" if len(self.persistence_ids) == 1 else "persistence ids"
            parts.append(f"{noun} {_some(self.persistence_ids)}")
        if self.slices is not None:
            parts.append(f"the persistence ids of slices {slice_ranges.text(self.slices)}")
        if self.tags is not None:
            parts.append(f"tags {_some(self.tags)}")
        if self.window is not None:
            parts.append(f"time buckets {self.window}")
        return ", ".join(parts) or "all tag views"


def _some(names: frozenset[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    more = len(names) - _NAMED
    return shown + (f" and {more:,} more" if more > 0 else "")


def require_known(run: RunContext, scope: Scope) -> None:
    """Reject persistence ids and tags that do not exist, before anything is changed.

    A persistence id is known by its messages, metadata, progress, scanning, snapshots or tag-view
    rows; a tag by its tag views, progress, rule or messages. Usually a few reads by key are enough;
    an id that seems unknown is searched for in the keys of the tag views, a tag in all messages.

    Raises:
        InvalidInput: some are unknown; the message names them.
    """
    if scope.persistence_ids:
        reject_unknown(run, "persistence id", _unknown_ids(run, scope.persistence_ids))
    if scope.tags:
        reject_unknown(run, "tag", _unknown_tags(run, scope.tags))


def reject_unknown(run: RunContext, kind: str, unknown: Iterable[str]) -> None:
    """Reject names, if there are any.

    Raises:
        InvalidInput: the message names them.
    """
    if names := frozenset(unknown):
        settings, is_r2dbc = run.settings, run.settings.is_r2dbc
        journal_table = settings.r2dbc_journal_table if is_r2dbc else "messages"
        remedy = "correct the name" if is_r2dbc else "see `reconcile tags` for what there is"
        raise InvalidInput(
            f"no such {kind} in {journal_table}: {_some(names)}",
            where=settings.r2dbc_connection or settings.journal_keyspace,
            do=f"nothing was touched; {remedy}",
        )


def _unknown_ids(run: RunContext, ids: Iterable[str]) -> list[str]:
    # Imported here: deletes by key need no Spark.
    from tidemark.journals.pekko import snapshots

    unknown = unknown_ids(run.control, run.settings, ids)
    if unknown and snapshots.has_snapshots(run.control, run.settings):
        unknown = without_snapshots(run.control, run.settings, unknown)
    return [name for name in unknown if not _has_tag_view_rows(run, name)]


def _has_tag_view_rows(run: RunContext, persistence_id: str) -> bool:
    views = table(run.settings.journal_keyspace, run.settings.events_by_tag_table)
    probe = (
        f"SELECT persistence_id FROM {views} WHERE tag_name = ? AND timebucket = ?"
        " AND persistence_id = ? LIMIT 1 ALLOW FILTERING"
    )
    keys = (
        (*partition, persistence_id)
        for partition in tag_views.partitions(run.control, run.settings)
    )
    while batch := list(islice(keys, _BATCH)):
        if any(run.control.execute_many(probe, batch)):
            return True
    return False


def _unknown_tags(run: RunContext, tags: Iterable[str]) -> list[str]:
    # Imported here for the same reason.
    from tidemark.tag_write import rules

    unknown = set(tags) - rules.written_tags(run.control, run.settings, set(tags))
    return sorted(tag for tag in unknown if not _is_given(run, tag))


def _is_given(run: RunContext, tag: str) -> bool:
    # Imported here: an operation whose tag has tag views starts no Spark.
    from pyspark.sql import functions as F

    from tidemark.journals.pekko import frames
    from tidemark.tag_write import rules

    if any(rule.tag == tag for rule in rules.load(run.settings.tagging_dir)):
        return True
    index = frames.message_index(run.spark, run.settings)
    return not index.where(F.array_contains("tags", tag)).isEmpty()
