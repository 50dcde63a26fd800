"""The frame around the work of every application: connect, report, and exit with a status.

The steps of an application are plan, read, transform, write, report. The frame passes the work a
`RunContext` and turns the work's `Outcome` or error into the report, the row in the table `run` and
the exit status.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import Any, NoReturn

from tidemark import clock, termination
from tidemark.application import log
from tidemark.application.clear_text import unencrypted_passwords
from tidemark.application.environment import unknown_variables
from tidemark.cassandra.control import Control
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput, SeveralErrors, TidemarkError, outage_of, root_cause
from tidemark.ledger.runs import note_end, write_report
from tidemark.settings import Settings
from tidemark.text import counted, harmless
from tidemark.window import Window, iso

LINES_REPORTED = 50


class _Report:
    """The report of one run, from its start to its last line."""

    def __init__(self, application: str, run_id: str | None, dry_run: bool) -> None:
        self.started_at = clock.now()
        self.lines: list[str] = []
        self.status = 0
        self.content: dict[str, Any] = {
            "application": application,
            "run_id": run_id or str(uuid.uuid4()),
            "state": RunState.FAILED,
            "window_start": None,
            "window_end": None,
            "done_start": None,
            "done_end": None,
            "dry_run": dry_run,
            "pieces": asdict(PieceCounts()),
            "counts": {},
            "lines": [],
            "error": None,
            "failure": None,
        }

    def window(self, window: Window) -> None:
        self.content |= {"window_start": iso(window.start), "window_end": iso(window.end)}

    def outcome(self, outcome: Outcome) -> None:
        self.content["state"] = outcome.state
        self.content["pieces"] = asdict(outcome.pieces)
        self.content["counts"] = dict(outcome.counts)
        self.lines = [harmless(line) for line in outcome.lines]
        self.content["lines"] = self.lines[:LINES_REPORTED]
        if outcome.done is not None:
            self.content["done_start"] = iso(outcome.done.start)
            self.content["done_end"] = iso(outcome.done.end)
        if outcome.details:
            self.content["details"] = outcome.details
        if outcome.error is not None:
            self.foreseen(outcome.error)

    def foreseen(self, error: TidemarkError) -> None:
        self.status = error.exit_status
        self.content["error"] = str(error)
        if isinstance(error, SeveralErrors):
            return  # There is no single place and remedy; the text has those of each error.
        self.content["failure"] = {
            "what": error.what,
            "where": error.where,
            "do": error.do,
            "remedy": None if error.remedy is None else asdict(error.remedy),
        }

    def failed(self, error: BaseException, pieces: PieceCounts) -> None:
        if (signal := termination.ended_by()) is not None:
            self.ended(signal, pieces)
        elif isinstance(error, TidemarkError):
            self.foreseen(error)
        else:
            self.unforeseen(error)

    def ended(self, signal: Signals, pieces: PieceCounts) -> None:
        self.status = 128 + signal
        self.content["pieces"] = asdict(pieces)
        done = f"{pieces.done:,} of {counted(pieces.planned, 'started piece')} are done; "
        self.content["error"] = f"ended by {signal.name}; {done if pieces.planned else ''}run again"

    def unforeseen(self, error: BaseException) -> None:
        if outage := outage_of(error):
            self.foreseen(outage)
            return
        # A bug report needs the traceback; a user reads the one line after the traceback.
        traceback.print_exception(error)
        self.status = 1
        self.content["error"] = root_cause(error)

    def end(self, report_file: Path | None) -> None:
        """Write the report's file; a failure to do so is reported after that of the work."""
        self.content["seconds"] = round((clock.now() - self.started_at).total_seconds(), 3)
        if report_file is None:
            return
        try:
            report_file.write_text(json.dumps(self.content) + "\n")
        except OSError as error:
            problem = _no_report(report_file, error)
            if not self.status:
                self.foreseen(problem)
            elif self.content["error"] != str(problem):
                self.content["error"] += f"; {problem}"

    def store(self, run: RunContext) -> None:
        """Store the report if Tidemark's tables exist; ignore a failure to do so."""
        control, settings = run.control, run.settings
        if not self.content["dry_run"]:
            note_end(run, self.content)
        with suppress(TidemarkError):
            if control.table_columns(settings.keyspace, "run") is not None:
                write_report(
                    control,
                    settings.keyspace,
                    self.content,
                    started_at=self.started_at,
                    finished_at=clock.now(),
                    ttl=settings.keep_reports_seconds,
                )

    def show(self) -> None:
        content = self.content
        seconds = content["seconds"]
        window = f" {content['window_start']} to {content['window_end']}"
        print(
            f"{content['application']}{window if content['window_start'] else ''}:"
            f" {content['state']} in {seconds:.1f} s"
        )
        pieces = ", ".join(
            f"{count} {state}" for state, count in content["pieces"].items() if count
        )
        if pieces:
            print(f"  pieces: {pieces}")
        for name, number in content["counts"].items():
            print(f"  {name.replace('_', ' ')}: {number:,}")
        for line in self.lines:
            print(f"  {line}")

    def show_json(self) -> None:
        print(json.dumps(self.content), flush=True)

    def show_errors(self) -> None:
        for error in self.content["error"].split("\n") if self.content["error"] else ():
            print(f"{self.content['application']}: error: {harmless(error)}", file=sys.stderr)


@dataclass(frozen=True)
class PartReport:
    """The end of an application's run within a run of another application.

    Attributes:
        content: its report, like that of a separate run.
        error: why it has failed, completely or in part.
        has_ended: whether it has come to its end; otherwise the error has interrupted it.
    """

    content: Mapping[str, Any]
    error: TidemarkError | None
    has_ended: bool


def run_application(
    application: str,
    work: Callable[[RunContext], Outcome],
    *,
    window: Callable[[], Window] | None = None,
    run_id: str | None = None,
    report_file: Path | None = None,
    as_json: bool = False,
    dry_run: bool = False,
) -> NoReturn:
    """Run `work` and exit with status 0 on success, else with the status of the error.

    Progress and an error of one line are written to standard error, the report to standard output:
    as text, and for programs also as one last line of JSON. The report is also stored in the table
    `run`, if Tidemark's tables exist.

    Args:
        application: name of the application, such as `tag-write`.
        work: function that does the work; SIGTERM and SIGINT end it by `termination.Ended`.
        window: function that returns the window of the report; it runs first, because it rejects
            bad parameters.
        run_id: caller's name for this run; by default a new UUID.
        report_file: file to which the report is also written.
        as_json: whether to print the line of JSON on a terminal, too.
        dry_run: whether the run changes nothing, for the report.
    """
    report = _Report(application, run_id, dry_run)
    _warn(application, unknown_variables(os.environ))
    with termination.raised():
        try:
            if report_file is not None:
                _require_writable(report_file)
            if window is not None:
                report.window(window())
            settings = Settings.load()
            _warn(application, unencrypted_passwords(settings))
            with log.on_standard_error(application), Control(settings) as control:
                run = RunContext(application, settings, control, report.content["run_id"])
                _do(run, work, report)
        except (termination.Ended, TidemarkError) as error:
            report.failed(error, PieceCounts())
    report.end(report_file)
    report.show()
    if as_json or not sys.stdout.isatty():
        report.show_json()
    report.show_errors()
    sys.exit(report.status)


def run_part(
    run: RunContext,
    application: str,
    work: Callable[[RunContext], Outcome],
    window: Window,
) -> PartReport:
    """Do the work of another application within a run; store and show its report."""
    part = run.part(application)
    report = _Report(application, part.run_id, dry_run=False)
    report.window(window)
    has_ended = False
    try:
        error = _done(part, work, report).error
        has_ended = True
    except TidemarkError as raised:
        error = raised
    except Exception as raised:
        what = f"{application} failed: {root_cause(raised)}"
        error = outage_of(raised) or TidemarkError(what, do="see the traceback above")
    finally:
        run.parts[application] = report.content
        run.progress.planned += part.progress.planned
        run.progress.done += part.progress.done
        report.end(None)
        report.show()
    return PartReport(report.content, error, has_ended)


def _do(run: RunContext, work: Callable[[RunContext], Outcome], report: _Report) -> None:
    """Do the work and store its report; errors are only in the report."""
    with suppress(termination.Ended, Exception):
        _done(run, work, report)


def _done(run: RunContext, work: Callable[[RunContext], Outcome], report: _Report) -> Outcome:
    """Do the work and store its report, even if the work raises an error."""
    termination.stop_with(run.stop_jobs)
    try:
        outcome = work(run)
        if outcome.error is not None:
            termination.check()
        report.outcome(outcome)
    except (termination.Ended, Exception) as error:
        report.failed(error, run.progress)
        if run.parts:
            report.content["details"] = {"steps": run.parts}
        raise
    finally:
        report.store(run)
    return outcome


def _warn(application: str, lines: Iterable[str]) -> None:
    for line in lines:
        print(f"{application}: warning: {line}", file=sys.stderr)


def _require_writable(report_file: Path) -> None:
    """Raise InvalidInput before the work if the report's file cannot be written.

    A new file is removed again: an empty file would be taken for a report.
    """
    existed = report_file.exists()
    try:
        report_file.touch()
        if not existed:
            report_file.unlink()
    except OSError as error:
        raise _no_report(report_file, error) from None


def _no_report(report_file: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"the report cannot be written to {report_file}: {error.strerror}",
        where="--report",
        do="name a file in a directory that exists and may be written",
    )
