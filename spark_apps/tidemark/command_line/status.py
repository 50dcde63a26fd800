"""Show the state of the system. Nothing is written, and Spark is not started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tidemark.application import cli
from tidemark.application.reader import connected
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable
from tidemark.ledger import applications
from tidemark.ledger.piece import State as PieceState
from tidemark.partitioning.keys import BucketSize
from tidemark.status import overview, projections, rules, text
from tidemark.status.answers import subjects
from tidemark.status.as_json import as_json as json_of
from tidemark.status.page import LIMIT, MOST, Page
from tidemark.status.rules import PartState
from tidemark.user_files import journals
from tidemark.validate.findings.check import Severity
from tidemark.window import parse_moment

APPLICATION = applications.STATUS
EXIT_STATUS = {PartState.OK: 0, PartState.EMPTY: 0, PartState.BAD: 3}
"""The exit status of the overview; that of the other states is ATTENTION."""
ATTENTION = 4

AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=MOST, metavar="N", help="The most rows of a page.")]
After = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help="The next page: the token that the page before ends with."),
]


def main(
    context: typer.Context,
    as_json: AsJson = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again and again; Ctrl-C ends it with status 0.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.5, metavar="SECONDS", help="How often, with --watch.")
    ] = 5.0,
    cadence: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How often the schedule starts tag-write: daily, hourly, five-minutes or off.",
            show_default="TIDEMARK_CADENCE, or that of the journal's entry",
        ),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What runs the chain on a schedule: three-dags or one-dag.",
            show_default="TIDEMARK_CHAIN, or that of the journal's entry",
        ),
    ] = None,
) -> None:
    """Show the state of the system: one line for each part, since when, and what to do.

    States: ok, empty (nothing has run yet), unknown, late, stopped (nothing has run since), bad.
    Exit status: 0 if all is ok or empty, 3 if something is bad, 4 otherwise.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if context.invoked_subcommand is not None:
        return
    period = rules.period_of(cadence or journals.scheduled("cadence", "daily"))
    is_one_dag = (chain or journals.scheduled("chain", "three-dags")) == rules.ONE_DAG
    with connected(APPLICATION) as run:

        def show() -> PartState:
            answer = overview.overview(run, period, is_one_dag=is_one_dag)
            _print(json.dumps(json_of(answer)) if as_json else "\n".join(text.of_overview(answer)))
            return answer.state

        if watch:
            _watch(show, every, clears=not as_json and sys.stdout.isatty())
            return
        state = show()
    raise typer.Exit(EXIT_STATUS.get(state, ATTENTION))


def _watch(show: Callable[[], object], every: float, *, clears: bool) -> None:
    """Call `show` until Ctrl-C; an outage of Cassandra is printed, and does not end the loop."""
    try:
        while True:
            if clears:
                print("\x1b[H\x1b[2J", end="")
            try:
                show()
            except CassandraUnavailable as error:
                _print(str(error))
            time.sleep(every)
    except KeyboardInterrupt:
        return


def of_time_buckets(
    application: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The newest time buckets of this application, such as tag-write, one a line.",
        ),
    ] = None,
    subject: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Its subject, such as pekko/totals.", show_default="the journal"
        ),
    ] = "",
    state: Annotated[
        PieceState | None, typer.Option(help="Only time buckets in this state.")
    ] = None,
    size: Annotated[
        BucketSize | None,
        typer.Option(help="Their bucket size.", show_default="TIDEMARK_BUCKET_SIZE"),
    ] = None,
    limit: Limit = LIMIT,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Show how many time buckets of each application are in which state."""
    _page(
        lambda run: subjects.of_time_buckets(
            run, application, subject=subject, size=size, state=state, limit=limit, after=after
        ),
        text.of_ledgers if application is None else text.of_time_buckets,
        as_json=as_json,
    )


def of_projections(
    history: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The lag of this projection in the last 14 days, as `observe` measured it.",
        ),
    ] = None,
    limit: Limit = LIMIT,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Show the projections: condition, lag, oldest gap, held, paused, quarantined.

    The lag in events is what tag-write and validate have counted in the open time buckets; a number
    with + is a lower bound. `project.py status --exact` counts, with Spark.
    """
    if history is not None:
        with connected(APPLICATION) as run:
            values = projections.lag_history(run, history)
        _print(json.dumps(json_of(values)) if as_json else "\n".join(text.of_lag_history(values)))
        return
    _page(
        lambda run: subjects.of_projections(run, limit=limit, after=after),
        text.of_projections,
        as_json=as_json,
    )


def of_findings(
    settled: Annotated[
        bool, typer.Option("--settled", help="Those that somebody has settled instead.")
    ] = False,
    check: Annotated[str, typer.Option(metavar="NAME", help="Only those of this check.")] = "",
    severity: Annotated[
        Severity | None, typer.Option(help="Only open findings with this severity.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only those first found, or settled, before this time, ISO 8601 in UTC.",
        ),
    ] = None,
    time_bucket: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only those of this time bucket, ISO 8601 in UTC."),
    ] = None,
    limit: Limit = LIMIT,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Show the findings of validate that are open."""
    found_before = None if before is None else parse_moment(before, "--before")
    bucket = None if time_bucket is None else parse_moment(time_bucket, "--time-bucket")
    _page(
        lambda run: subjects.of_findings(
            run,
            settled=settled,
            check=check,
            severity=severity,
            before=found_before,
            time_bucket=bucket,
            limit=limit,
            after=after,
        ),
        text.of_findings,
        as_json=as_json,
    )


def of_purges(limit: Limit = LIMIT, after: After = None, as_json: AsJson = False) -> None:
    """Show how the policies of purge have ended, and its newest plans with their approvals."""
    with connected(APPLICATION) as run:
        purges = subjects.of_purges(run, limit=limit, after=after)
    if as_json:
        _print(json.dumps(json_of(purges)))
        return
    _print("\n".join([*text.of_policies(purges.policies), "", *text.of_plans(purges.plans)]))


def of_replication(
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka", help="Ask Kafka for the number of events that wait in each partition."
        ),
    ] = False,
    held: Annotated[
        bool, typer.Option("--held", help="The keys of which records are held, one a line.")
    ] = False,
    limit: Limit = LIMIT,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Show how far the topics of kafka-journal are replicated, by topic partition."""
    _page(
        lambda run: subjects.of_replication(run, kafka=kafka, held=held, limit=limit, after=after),
        text.of_held_keys if held else text.of_partitions,
        as_json=as_json,
    )


def of_groups(
    stream: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The open groups of this stream, one a line."),
    ] = None,
    limit: Limit = LIMIT,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Show the streams of event groups, and how many groups of each are open and held."""
    _page(
        lambda run: subjects.of_groups(run, stream, limit=limit, after=after),
        text.of_streams if stream is None else text.of_groups,
        as_json=as_json,
    )


def of_runs(limit: Limit = LIMIT, after: After = None, as_json: AsJson = False) -> None:
    """Show the newest runs: how far each is, rows a second, the time left, who has started it."""
    _page(
        lambda run: subjects.of_runs(run, limit=limit, after=after), text.of_runs, as_json=as_json
    )


def _page(
    read: Callable[[RunContext], Page[Any]],
    as_text: Callable[[Page[Any]], list[str]],
    *,
    as_json: bool,
) -> None:
    """Read a page and print it."""
    with connected(APPLICATION) as run:
        page = read(run)
    _print(json.dumps(json_of(page)) if as_json else "\n".join(as_text(page)))


def _print(lines: str) -> None:
    print(lines, flush=True)


def start() -> None:
    """Run the command line of this process."""
    cli.readers(
        APPLICATION,
        main,
        {
            "time-buckets": of_time_buckets,
            "projections": of_projections,
            "findings": of_findings,
            "purges": of_purges,
            "replication": of_replication,
            "groups": of_groups,
            "runs": of_runs,
        },
        examples={
            "": ["", "--json", "--watch", "projections"],
            "time-buckets": ["", "--application tag-write --state failed"],
            "projections": ["", "--json", "--history totals"],
            "findings": ["--limit 20 --severity blocks --before 2026-11-20", "--settled"],
            "purges": [""],
            "replication": ["", "--kafka", "--held"],
            "groups": ["", "--stream default"],
            "runs": ["--limit 10"],
        },
    )
