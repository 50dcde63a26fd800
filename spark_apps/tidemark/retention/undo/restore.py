"""What deletions took and saved, written back.

Cassandra hides a row behind every later delete of it. A restored row is therefore written at the
time of the restore, unless somebody asks for its old write time: that is right in another keyspace
or cluster, and once the delete is compacted away. Its lifetime goes on from where it was when it
was saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journal import snapshots
from tidemark.retention.messages.deletes import locks_of
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo import copies
from tidemark.retention.undo.copies import Copy, Kind
from tidemark.retention.undo.events import plan_events
from tidemark.retention.undo.tag_views import plan_tag_views
from tidemark.settings import Settings

_VARIABLES = (
    "TIDEMARK_JOURNAL_KEYSPACE",
    "TIDEMARK_SNAPSHOT_KEYSPACE",
)
_OF_KIND: Mapping[Kind, Sequence[int]] = {
    Kind.EVENTS: (0, 1),
    Kind.TAG_VIEWS: (0,),
}
"""Which of its keyspaces a copy of each kind is of."""


class _Planner(Protocol):
    def __call__(
        self, run: RunContext, found: Sequence[Copy], *, keep_write_times: bool
    ) -> TargetPlan: ...


_PLANNERS: Mapping[Kind, _Planner] = {
    Kind.EVENTS: plan_events,
    Kind.TAG_VIEWS: plan_tag_views,
}


def locks(settings: Settings) -> list[str]:
    """Return what must be locked."""
    return [*locks_of(settings), snapshots.lock_of(settings)]


def plan_restore(run: RunContext, directory: str, *, keep_write_times: bool = False) -> TargetPlan:
    """Plan to write back what the copies in a directory hold and the tables lack.

    Args:
        run: the context of the run.
        directory: that of `--save-to`, as `places.directory_of` returns it.
        keep_write_times: write each row at its old write time; the copies may then be of other
            keyspaces.

    Raises:
        InvalidInput: there is no complete copy that can be used, or it is of other keyspaces.
        WrongData: a journal has gone on in a way that the copies do not fit.
    """
    found, unusable = copies.complete(run, directory)
    lines = [line for copy in found for line in _other_keyspaces(run, copy, keep_write_times)]
    plans = [
        planner(run, own, keep_write_times=keep_write_times)
        for kind, planner in _PLANNERS.items()
        if (own := [copy for copy in found if copy.kind is kind])
    ]
    changing = [plan.apply for plan in plans if plan.apply is not None]
    counts: Counter[str] = Counter()
    for plan in plans:
        counts.update(plan.counts)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for change in changing:
            change(ensure_locked)
        return counts

    if keep_write_times:
        lines.append("each row is written at its old write time, which a later delete would hide")
    lines += [line for plan in plans for line in plan.lines]
    return TargetPlan(
        counts,
        [*unusable, *(lines if changing else ["everything is there already"])],
        Tombstones(),
        digest([keep_write_times, *(plan.digest for plan in plans)]),
        locks(run.settings),
        apply if changing else None,
    )


def _other_keyspaces(run: RunContext, copy: Copy, keep_write_times: bool) -> list[str]:
    """Return in words into which other keyspaces a copy goes."""
    ours = copies.keyspaces_of(run.settings)
    others = [place for place in _OF_KIND[copy.kind] if copy.keyspaces[place] != ours[place]]
    if not others:
        return []
    theirs = " and ".join(copy.keyspaces[place] for place in others)
    own = " and ".join(ours[place] for place in others)
    if not keep_write_times:
        raise InvalidInput(
            f"the copy is of {theirs}, not of {own}",
            where=copy.place,
            do=f"set {' and '.join(_VARIABLES[place] for place in others)}; or say"
            " --keep-write-times if it is meant for another keyspace",
        )
    return [f"{copy.place}: what is saved of {theirs} goes into {own}"]
