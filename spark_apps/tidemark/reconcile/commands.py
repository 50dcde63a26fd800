"""The commands of reconcile, for `spark_apps/reconcile.py`.

Each imports its module when it runs, since deleting by key needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from tidemark import clock
from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput
from tidemark.reconcile.operation import ReconcileOperation, run_operation
from tidemark.validate.scope import Scope
from tidemark.window import Window


def tags(
    persistence_id: cli.PersistenceIds = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show at most this many tags.")
    ] = 100,
) -> Job:
    """List the tags that messages carry, with counts.

    For each tag: the number of its events and persistence ids, its first and last event, its rows
    in the tag views, and the persistence ids without progress. The list includes tags of which only
    rows or progress remain. Nothing is written.
    """

    def work(run: RunContext) -> Outcome:
        from tidemark.reconcile.tags import run_tags

        return run_tags(run, Scope.of(persistence_id, None), limit=limit)

    return Job(work)


def check(
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    everything: cli.Everything = False,
) -> Job:
    """Compare messages with tag views, progress and scanning.

    Findings are written with their exact keys to the table `finding`, where they replace earlier
    findings of the same scope, and end the run with exit status 3. The journal is not changed, and
    no lock is taken: actors may continue.
    """

    def work(run: RunContext) -> Outcome:
        from tidemark.reconcile.check import run_check

        window = _window(window_start, window_end, run)
        return run_check(run, _scope(persistence_id, tag, window, everything, by_default=True))

    return Job(work, _reported(window_start, window_end))


def repair(
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    everything: cli.Everything = False,
    from_findings: Annotated[
        bool,
        typer.Option(
            "--from-findings", help="Only persistence ids with open findings of validate or check."
        ),
    ] = False,
    apply: cli.Apply = False,
) -> Job:
    """Repair the findings of validate and check, with as few writes as possible.

    Stop the actors of these persistence ids first: they keep their numbering in memory. With
    --from-findings or with persistence ids, all of their events and rows are compared again before
    a row is changed. After the repair, they are no longer findings.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile.repair import run as repair

        window = _window(window_start, window_end, run)
        scope = _scope(persistence_id, tag, window, everything, by_default=True)
        if from_findings and (everything or not scope.is_everything):
            raise InvalidInput(
                "--from-findings already selects the persistence ids",
                where="--from-findings, --all, --persistence-id, --tag, --window-start",
                do="leave --from-findings or the others out",
            )
        return repair.of_findings() if from_findings else repair.operation(scope)

    return _changing(operation, apply, _reported(window_start, window_end))


def delete(
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    search_all: Annotated[
        bool,
        typer.Option("--search-all", help="Also search the tags for rows without an event."),
    ] = False,
    apply: cli.Apply = False,
) -> Job:
    """Delete persistence ids or tags from the tag views.

    With both, only the rows of these persistence ids with these tags are deleted. Persistence ids
    are deleted by key, without Spark. The table messages does not change. Actors write the rows
    again when they recover, or `rebuild` does.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile.delete import run as delete

        return delete.operation(Scope.of(persistence_id, tag), search_all=search_all)

    return _changing(operation, apply)


def propagate_deletes(
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    everything: cli.Everything = False,
    allow_unsearchable: Annotated[
        bool,
        typer.Option(
            "--allow-unsearchable",
            help="Also delete more than 5000 numbers, where readers without an offset then fail.",
        ),
    ] = False,
    apply: cli.Apply = False,
) -> Job:
    """Delete the rows of events that were deleted from messages.

    Pekko never does this. The other rows keep their numbers; progress and scanning stay.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile.propagate_deletes import run as propagate

        scope = _scope(persistence_id, tag, None, everything)
        return propagate.operation(scope, allow_unsearchable=allow_unsearchable)

    return _changing(operation, apply)


def rebuild(
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    everything: cli.Everything = False,
    apply: cli.Apply = False,
) -> Job:
    """Delete tag views and write them again from messages.

    The scope is everything, persistence ids, tags, or a window of time buckets. Stop the readers
    and the actors of that scope first.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile.rebuild import run as rebuild

        window = _window(window_start, window_end, run)
        return rebuild.operation(_scope(persistence_id, tag, window, everything))

    return _changing(operation, apply, _reported(window_start, window_end))


def settle(
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason; it is stored.", show_default=False)
    ],
    persistence_id: cli.PersistenceIds = None,
    tag: cli.Tags = None,
    check: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only findings of this check.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Only findings with this number, as in the table `finding`."
        ),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Settle findings of validate or check, so that they no longer block.

    The journal does not change. Use this for findings that no run can repair: an event that is
    lost, or that no reader can read. Give at least one option that selects the findings. A finding
    is settled in its present state: if more is lost there, it is open again.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile import settle

        choice = settle.FindingFilter(
            frozenset(persistence_id or ()), frozenset(tag or ()), check, number
        )
        return settle.operation(choice, reason)

    return _changing(operation, apply)


def truncate(
    apply: cli.Apply = False,
) -> Job:
    """Empty all tag views, progress and scanning.

    `rebuild --all` does this and writes them again. Stop readers and actors first.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.reconcile import truncate

        return truncate.operation()

    return _changing(operation, apply)


def rebucket(
    to: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Minute, Hour or Day: the new bucket size.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The new table.", show_default="tag_views_<size>"),
    ] = None,
    recheck: Annotated[
        bool,
        typer.Option(
            "--recheck", help="Compare all rows, including rows that earlier runs have verified."
        ),
    ] = False,
    drop_old: Annotated[
        str | None,
        typer.Option("--drop-old", metavar="NAME", help="Drop this old table, after the switch."),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Copy the tag views into a table of another bucket size.

    The copy is verified row by row. A repeated run catches up: it copies new rows of the old table,
    and deletes rows that were deleted there. It prints the Pekko settings for the switch. The old
    table stays until you run --drop-old, after the switch and without --to. --drop-old drops
    nothing unless all rows are in the configured table.
    """

    def operation(run: RunContext) -> ReconcileOperation:
        from tidemark.partitioning.keys import BucketSize
        from tidemark.reconcile.rebucket import drop as rebucket_drop
        from tidemark.reconcile.rebucket import run as rebucket

        if (to is None) == (drop_old is None):
            raise InvalidInput(
                "rebucket makes tag views or drops old ones",
                where="--to, --drop-old",
                do="give one of the two",
            )
        if drop_old is not None:
            return rebucket_drop.operation(drop_old)
        size = BucketSize.parse(to or "", where="--to")
        return rebucket.operation(size, table, recheck=recheck)

    return _changing(operation, apply)


def _changing(
    operation: Callable[[RunContext], ReconcileOperation],
    apply: bool,
    window: Callable[[], Window] | None = None,
) -> Job:
    return Job(lambda run: run_operation(run, operation(run), apply=apply), window, not apply)


def _reported(start: str | None, end: str | None) -> Callable[[], Window] | None:
    return (lambda: Window.parse(start, end)) if start or end else None


def _window(start: str | None, end: str | None, run: RunContext) -> Window | None:
    if not start and not end:
        return None
    window = Window.parse(start, end)
    window.require_whole_buckets(run.settings.bucket_size, clock.now())
    return window


def _scope(
    persistence_ids: list[str] | None,
    tags: list[str] | None,
    window: Window | None,
    everything: bool,
    *,
    by_default: bool = False,
) -> Scope:
    if everything and (persistence_ids or tags or window):
        raise InvalidInput(
            "--all and a narrower scope contradict each other",
            where="--all, --persistence-id, --tag, --window-start",
            do="leave one of them out",
        )
    return Scope.of(persistence_ids, tags, window, everything=everything or by_default)


COMMANDS: Mapping[str, Command] = {
    "tags": tags,
    "check": check,
    "repair": repair,
    "delete": delete,
    "rebuild": rebuild,
    "truncate": truncate,
    "propagate-deletes": propagate_deletes,
    "rebucket": rebucket,
    "settle": settle,
}
"""By the name on the command line."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": ["check", "repair", "repair --apply", "rebuild --all --apply", "rebucket --to Day"],
    "tags": ["", "--persistence-id 'aircraft|N14228'"],
    "check": ["", "--window-start 2026-11-20 --window-end 2026-11-21", "--tag delayed"],
    "repair": ["", "--from-findings --apply", "--persistence-id 'aircraft|N14228'", "--apply"],
    "delete": ["--tag delayed", "--persistence-id 'aircraft|N14228' --apply"],
    "rebuild": [
        "--all",
        "--window-start 2026-11-20 --window-end 2026-11-21 --apply",
        "--tag delayed --apply",
    ],
    "truncate": ["", "--apply"],
    "propagate-deletes": ["--all", "--persistence-id 'aircraft|N14228' --apply"],
    "rebucket": ["--to Day", "--to Day --apply", "--drop-old tag_views --apply"],
    "settle": ["--persistence-id 'aircraft|N14228' --check unwritable_event --reason 'a test'"],
}
"""Options of calls that the help of each command shows; under "" those of the application."""
