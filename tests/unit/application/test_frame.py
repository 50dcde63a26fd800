"""The frame around every application: its report, for people, for programs and in a file."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import pytest

from tidemark import termination
from tidemark.application import frame
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.window import Window


def refused() -> Window:
    raise InvalidInput("no window", where="--window-start", do="give both")


def run(report_file: Path | None = None, *, as_json: bool = False) -> int:
    with pytest.raises(SystemExit) as ended:
        frame.run_application(
            "tag-write",
            lambda run: pytest.fail("never comes that far"),
            window=refused,
            run_id="r",
            report_file=report_file,
            as_json=as_json,
        )
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("is_terminal", "as_json", "lines"), [(True, False, 0), (True, True, 1), (False, False, 1)]
)
def test_json_is_for_programs(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    as_json: bool,
    lines: int,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert run(as_json=as_json) == 2
    shown = capsys.readouterr()
    assert sum(line.startswith("{") for line in shown.out.splitlines()) == lines
    assert shown.err == "tag-write: error: no window (--window-start); give both\n"


def test_report_has_the_error_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert run(file) == 2
    report = json.loads(file.read_text())
    assert report["error"] == "no window (--window-start); give both"
    assert report["failure"] == {
        "what": "no window",
        "where": "--window-start",
        "do": "give both",
        "remedy": None,
    }


def test_line_of_a_report_is_one_line_wherever_it_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A report travels to Airflow, where a line of it becomes a part of a page."""
    file = tmp_path / "report.json"
    report = frame._Report("purge", "r", dry_run=True)
    report.outcome(Outcome(RunState.PLANNED, lines=["a\n```\n## b", "\x1b[2J"]))
    report.end(file)
    report.show()
    report.show_errors()
    harmless = ["a\\n```\\n## b", "\\x1b[2J"]
    assert json.loads(file.read_text())["lines"] == harmless
    assert capsys.readouterr().out.splitlines()[-2:] == [f"  {line}" for line in harmless]


def test_errors_after_a_signal_are_told_as_the_end_by_the_signal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    report = frame._Report("purge", "r", dry_run=False)
    with termination.raised():
        with pytest.raises(termination.Ended):
            signal.raise_signal(signal.SIGTERM)
        # A second signal must not interrupt the release of the locks.
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(termination.Ended):
            termination.check()
        report.failed(RuntimeError("the JVM is gone"), PieceCounts(planned=3, done=2))
    termination.check()
    assert signal.getsignal(signal.SIGTERM) is before
    assert report.status == 143
    report.end(None)
    report.show()
    report.show_errors()
    why = "ended by SIGTERM; 2 of 3 started pieces are done; run again"
    assert capsys.readouterr().err == f"purge: error: {why}\n"


def test_run_that_dies_leaves_no_empty_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever reads the file must see that there is none."""
    file = tmp_path / "report.json"

    def dies() -> Window:
        raise MemoryError

    with pytest.raises(MemoryError):
        frame.run_application(
            "tag-write", lambda run: pytest.fail("no"), window=dies, report_file=file
        )
    assert not file.exists()


def test_directory_that_is_not_there_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(tmp_path / "none" / "report.json") == 2
    shown = capsys.readouterr()
    assert shown.err.count("the report cannot be written to") == 1
    assert "no window" not in shown.err


def test_password_that_is_not_encrypted_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the connection is made. No Cassandra listens at port 1."""
    monkeypatch.setenv("TIDEMARK_CASSANDRA_HOSTS", "127.0.0.1:1")
    monkeypatch.setenv("TIDEMARK_CASSANDRA_USERNAME", "tidemark")
    monkeypatch.setenv("TIDEMARK_CASSANDRA_PASSWORD", "hunter2")
    monkeypatch.setenv("TIDEMARK_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("TIDEMARK_KAFKA_BOOTSTRAP_SERVERS", "kafka-1:9092,kafka-2:9092")
    monkeypatch.setenv("TIDEMARK_KAFKA_PASSWORD", "hunter2")
    with pytest.raises(SystemExit):
        frame.run_application("replicate", lambda run: pytest.fail("never comes that far"))
    shown = capsys.readouterr()
    warning, error = shown.err.splitlines()
    assert warning == (
        "replicate: warning: the connection to Kafka has a password and is not encrypted (kafka-1,"
        " kafka-2); set TIDEMARK_KAFKA_SECURITY_PROTOCOL=SASL_SSL, see docs/cluster.md"
    )
    assert error.startswith("replicate: error: ")
    assert "hunter2" not in shown.out + shown.err


def test_a_run_that_is_ended_reports_the_parts_that_have_begun() -> None:
    stored: list[str] = []
    run = cast(
        "RunContext",
        SimpleNamespace(
            parts={},
            progress=PieceCounts(),
            stop_jobs=lambda: None,
            part=lambda name: SimpleNamespace(
                run_id=f"r/{name}", progress=PieceCounts(), stop_jobs=lambda: None
            ),
        ),
    )
    window = Window(*(datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2)))
    done = Outcome(RunState.DONE, PieceCounts(1, 1))

    def ends(_: RunContext) -> Outcome:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal has raised")

    def work(run: RunContext) -> Outcome:
        frame.run_part(run, "tag-write", lambda _: done, window)
        frame.run_part(run, "validate", ends, window)
        raise AssertionError("the signal has raised")

    report = frame._Report("chain", "r", dry_run=False)
    with (
        patch.object(frame._Report, "store", lambda part, _: stored.append(part.content["state"])),
        termination.raised(),
    ):
        frame._do(run, work, report)
    steps = report.content["details"]["steps"]
    assert {name: step["state"] for name, step in steps.items()} == {
        "tag-write": "done", "validate": "failed"
    }  # fmt: skip
    assert stored == ["done", "failed", "failed"]
    assert report.content["error"] == "ended by SIGTERM; run again"
