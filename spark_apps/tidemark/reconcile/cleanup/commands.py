"""The commands of cleanup, for `spark_apps/cleanup.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import snapshots as journal_snapshots
from tidemark.purge.messages.deletes import locks_of
from tidemark.purge.needs.events import needed
from tidemark.purge.saved.places import directory_of
from tidemark.reconcile.cleanup.operation import CleanupOperation, named, run_operation
from tidemark.settings import Settings
from tidemark.window import parse_moment

NeverUseAgain = Annotated[
    bool,
    typer.Option(
        "--never-use-again",
        help="Also delete the sequence nr, and the persistence id itself.",
    ),
]
Save = Annotated[
    str | None,
    typer.Option(
        "--save-to",
        metavar="DIRECTORY",
        help="Save rows as Parquet in this directory below TIDEMARK_SAVE_DIRS before deleting them;"
        " `restore` writes them back.",
    ),
]
EntityTypes = Annotated[
    list[str] | None,
    typer.Option("--entity-type", metavar="TYPE", help="Only this entity type; can be repeated."),
]


def events_to(
    to: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="The last sequence nr to delete.", show_default=False
        ),
    ],
    persistence_id: cli.PersistenceIds = None,
    save_to: Save = None,
    apply: cli.Apply = False,
) -> Job:
    """Delete the events of persistence ids up to a sequence nr, inclusive.

    Like deleteMessages of an actor, and Pekko's deleteEventsTo. Snapshots and tag views stay.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.messages.by_hand import plan_events_to

        ids = named(persistence_id)
        return CleanupOperation(
            "events-to",
            f"{_ids(ids)} up to {to}",
            lambda run: plan_events_to(run, ids, to, needed),
            locks_of,
        )

    return _changing(operation, apply, save_to)


def all_events(
    persistence_id: cli.PersistenceIds = None,
    never_use_again: NeverUseAgain = False,
    save_to: Save = None,
    apply: cli.Apply = False,
) -> Job:
    """Delete all events of persistence ids.

    Like Pekko's deleteAllEvents. The last sequence nr is kept unless --never-use-again is given.
    Snapshots and tag views stay. Stop the actors first.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.messages.by_hand import plan_all_events

        ids = named(persistence_id)
        return CleanupOperation(
            "all-events",
            _ids(ids),
            lambda run: plan_all_events(run, ids, needed, never_use_again=never_use_again),
            locks_of,
        )

    return _changing(operation, apply, save_to)


def deleted_events(
    entity_type: EntityTypes = None, save_to: Save = None, apply: cli.Apply = False
) -> Job:
    """Finish interrupted deletes: delete events up to metadata.deleted_to from messages."""

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.messages.plan import DeletedEventsPolicy, plan_deleted_events

        policy = DeletedEventsPolicy(tuple(entity_type or ()))
        return CleanupOperation(
            "deleted-events",
            ", ".join(entity_type or ["all persistence ids"]),
            lambda run: plan_deleted_events(run, policy, needed),
            locks_of,
        )

    return _changing(operation, apply, save_to)


def before_snapshot(
    keep: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Keep the newest N per persistence id.", show_default=False
        ),
    ],
    keep_after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also keep snapshots after this time, ISO 8601 in UTC."),
    ] = None,
    events: Annotated[
        bool,
        typer.Option("--events", help="Also delete the events up to the oldest kept snapshot."),
    ] = False,
    persistence_id: cli.PersistenceIds = None,
    entity_type: EntityTypes = None,
    everything: cli.Everything = False,
    save_to: Save = None,
    apply: cli.Apply = False,
) -> Job:
    """Delete old snapshots, and with --events the events before the kept snapshots.

    Like Pekko's deleteBeforeSnapshot and cleanupBeforeSnapshot. Deletes a snapshot only if it is
    not among the newest N and not after --keep-after. Actors may continue. Tag views stay.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.snapshots.plan import SnapshotsPolicy, plan_snapshots

        if bool(persistence_id or entity_type) == everything:
            raise InvalidInput(
                "say whose snapshots",
                where="--persistence-id, --entity-type, --all",
                do="name persistence ids or entity types, or give --all",
            )
        types = tuple(entity_type or ())
        after = None if keep_after is None else parse_moment(keep_after, "--keep-after")
        policy = SnapshotsPolicy(keep, after, events, types)
        ids = frozenset(persistence_id) if persistence_id else None
        return CleanupOperation(
            "before-snapshot",
            _ids(ids) if ids else ", ".join(types or ("all persistence ids",)),
            lambda run: plan_snapshots(run, policy, needed, ids),
            _all_locks if events else _snapshot_locks,
        )

    return _changing(operation, apply, save_to)


def all_snapshots(
    persistence_id: cli.PersistenceIds = None, save_to: Save = None, apply: cli.Apply = False
) -> Job:
    """Delete all snapshots of persistence ids; events and tag views stay.

    Like Pekko's deleteAllSnapshots.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.snapshots.plan import plan_all_snapshots

        ids = named(persistence_id)
        return CleanupOperation(
            "all-snapshots", _ids(ids), lambda run: plan_all_snapshots(run, ids), _snapshot_locks
        )

    return _changing(operation, apply, save_to)


def tagged_events(persistence_id: cli.PersistenceIds = None, apply: cli.Apply = False) -> Job:
    """Delete persistence ids from the tag views, as `reconcile delete` does.

    Like Pekko's deleteAllTaggedEvents. Messages stay, so the actors write the rows again when they
    recover, unless you delete their events first.
    """

    def work(run: RunContext) -> Outcome:
        from tidemark.reconcile.delete import run as delete
        from tidemark.reconcile.operation import run_operation as reconcile
        from tidemark.validate.scope import Scope

        return reconcile(run, delete.operation(Scope(named(persistence_id))), apply=apply)

    return Job(work, dry_run=not apply)


def delete_all(
    persistence_id: cli.PersistenceIds = None,
    never_use_again: NeverUseAgain = False,
    save_to: Save = None,
    apply: cli.Apply = False,
) -> Job:
    """Delete events, snapshots and tag views of persistence ids.

    Like Pekko's deleteAll. The last sequence nr is kept unless --never-use-again is given. Stop the
    actors first.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.reconcile.cleanup.everything import locks, plan_everything

        ids = named(persistence_id)
        return CleanupOperation(
            "all",
            _ids(ids),
            lambda run: plan_everything(run, ids, needed, never_use_again=never_use_again),
            locks,
        )

    return _changing(operation, apply, save_to)


def restore(
    saved_in: Annotated[
        str,
        typer.Option(
            "--from", metavar="DIRECTORY", help="The directory of --save-to.", show_default=False
        ),
    ],
    of_run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN_ID",
            help="Only rows that this run saved; its report contains the id.",
            show_default="all runs",
        ),
    ] = None,
    persistence_id: cli.PersistenceIds = None,
    keep_write_times: Annotated[
        bool,
        typer.Option(
            "--keep-write-times",
            help="Write each row with its old write time. Use it for another keyspace or cluster,"
            " or after compaction has removed the delete.",
        ),
    ] = False,
    apply: cli.Apply = False,
) -> Job:
    """Write back rows that other commands and purge have saved with --save-to and deleted.

    Restores events, snapshots and metadata. If the journal of a persistence id no longer matches
    the copy, the run lists the persistence id and does not change it; it restores the others and
    ends with exit status 3. The write time of the rows is that of the restore. Stop the actors
    first.
    """

    def operation(run: RunContext) -> CleanupOperation:
        from tidemark.purge.undo.restore import locks, plan_restore

        directory = directory_of(saved_in, run.settings, "--from")
        return CleanupOperation(
            "restore",
            directory,
            lambda run: plan_restore(
                run, directory, of_run, persistence_id or (), keep_write_times=keep_write_times
            ),
            locks,
        )

    return _changing(operation, apply)


def _changing(
    operation: Callable[[RunContext], CleanupOperation], apply: bool, save: str | None = None
) -> Job:
    return Job(
        lambda run: run_operation(run, operation(run), apply=apply, save=save), dry_run=not apply
    )


def _snapshot_locks(settings: Settings) -> Sequence[str]:
    return [journal_snapshots.lock_of(settings)]


def _all_locks(settings: Settings) -> Sequence[str]:
    return [*locks_of(settings), *_snapshot_locks(settings)]


def _ids(ids: frozenset[str], limit: int = 10) -> str:
    shown = ", ".join(sorted(ids)[:limit])
    more = f" and {len(ids) - limit} more" if len(ids) > limit else ""
    return f"persistence ids {shown}{more}"


COMMANDS: Mapping[str, Command] = {
    "events-to": events_to,
    "all-events": all_events,
    "deleted-events": deleted_events,
    "before-snapshot": before_snapshot,
    "all-snapshots": all_snapshots,
    "tagged-events": tagged_events,
    "all": delete_all,
    "restore": restore,
}
"""By the name on the command line."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": ["before-snapshot --keep 2 --all", "all --persistence-id 'aircraft|N14228' --apply"],
    "events-to": ["--persistence-id 'aircraft|N14228' --to 5"],
    "all-events": ["--persistence-id 'aircraft|N14228'"],
    "deleted-events": ["", "--apply"],
    "before-snapshot": [
        "--keep 2 --all",
        "--keep 1 --keep-after 2026-11-01 --events --persistence-id 'aircraft|N14228' --apply",
    ],
    "all-snapshots": ["--persistence-id 'aircraft|N14228'"],
    "tagged-events": ["--persistence-id 'aircraft|N14228'"],
    "all": [
        "--persistence-id 'aircraft|N14228'",
        "--persistence-id 'aircraft|N14228' --save-to saved --apply",
    ],
    "restore": [
        "--from saved",
        "--from saved --run 3f2b6c1e-8a4d-4f0e-9b57-1c2d3e4f5a6b --apply",
        "--from saved --persistence-id 'aircraft|N14228' --apply",
    ],
}
"""Options of calls that the help of each command shows; under "" those of the application."""
