"""Restores deleted rows from saved copies, persistence id by persistence id.

Cassandra hides a row if a later delete covers it. A restored row is therefore written with the
time of the restore, unless --keep-write-times is given: that is right in another keyspace or
cluster, and once the delete is compacted away. A row keeps the TTL that remained when it was
saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import snapshots
from tidemark.purge.messages.deletes import locks_of
from tidemark.purge.saved import copies
from tidemark.purge.saved.copies import Copy
from tidemark.purge.target import TargetPlan
from tidemark.purge.undo.events import plan_events
from tidemark.settings import Settings

_VARIABLES = (
    "TIDEMARK_JOURNAL_KEYSPACE",
    "TIDEMARK_SNAPSHOT_KEYSPACE",
)
_MOST_NAMED = 10


def locks(settings: Settings) -> list[str]:
    """Return the resources to lock."""
    return [*locks_of(settings), snapshots.lock_of(settings)]


def plan_restore(
    run: RunContext,
    directory: str,
    of_run: str | None = None,
    persistence_ids: Collection[str] = (),
    *,
    keep_write_times: bool = False,
) -> TargetPlan:
    """Plan to write back the rows of the copies in a directory that the tables lack.

    Only the copies of the run `of_run`, and only these persistence ids, if given. With
    `keep_write_times` each row is written with its old write time, and the copies may be of other
    keyspaces.

    Returns:
        The plan. It has an error (status 3) if the journals of some persistence ids no longer fit
        the copies; it leaves these as they are.

    Raises:
        InvalidInput: there is no complete copy that can be used, none of this run, or none with one
            of these persistence ids; or it is of other keyspaces.
    """
    saved_copies, unusable = copies.complete(run, directory)
    if of_run is not None:
        saved_copies = _of_run(saved_copies, of_run, directory)
    lines = [
        line for copy in saved_copies for line in _other_keyspaces(run, copy, keep_write_times)
    ]
    if keep_write_times:
        lines.append("each row is written at its old write time, which a later delete would hide")
    plan = plan_events(run, saved_copies, persistence_ids, keep_write_times=keep_write_times)
    nothing = [] if plan.error else ["everything is there already"]
    lines = [*lines, *plan.lines] if plan.apply else nothing
    return replace(plan, lines=[*unusable, *lines], locks=locks(run.settings))


def _of_run(saved_copies: Sequence[Copy], of_run: str, directory: str) -> list[Copy]:
    chosen = [copy for copy in saved_copies if copy.run_id == of_run]
    if not chosen:
        # The newest runs, since whoever undoes a purge wants one of these.
        runs = list(dict.fromkeys(copy.run_id for copy in reversed(saved_copies)))
        more = f" and {len(runs) - _MOST_NAMED:,} older" if len(runs) > _MOST_NAMED else ""
        raise InvalidInput(
            f"no copy of the run {of_run} is in {directory}",
            where="--run",
            do=f"name one of {', '.join(runs[:_MOST_NAMED])}{more}",
        )
    return chosen


def _other_keyspaces(run: RunContext, copy: Copy, keep_write_times: bool) -> list[str]:
    """Return lines that name the other keyspaces into which a copy is restored."""
    pairs = list(zip(copy.keyspaces, copies.keyspaces_of(run.settings), _VARIABLES, strict=True))
    others = [pair for pair in pairs if pair[0] != pair[1]]
    if not others:
        return []
    # The journal and the snapshots may share a keyspace.
    joined = (" and ".join(dict.fromkeys(names)) for names in zip(*others, strict=True))
    theirs, own, variables = joined
    if not keep_write_times:
        raise InvalidInput(
            f"the copy is of {theirs}, not of {own}",
            where=copy.place,
            do=f"set {variables}; or say --keep-write-times if it is meant for another keyspace",
        )
    return [f"{copy.place}: what is saved of {theirs} goes into {own}"]
