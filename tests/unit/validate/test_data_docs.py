"""Data Docs and their bound, the write times, and the removed rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import settings as property_settings
from hypothesis import strategies as st

from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.purged import Removed
from tidemark.settings import Settings
from tidemark.validate import plan
from tidemark.validate.data_docs import build, gate, history
from tidemark.validate.data_docs.facts import CheckFacts, ValidationFacts
from tidemark.validate.findings import checks
from tidemark.validate.findings.check import Severity
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.window import from_millis, iso

DAY_MS = 86_400_000


def entries(*finished_at: datetime | None) -> Pieces:
    """Return a ledger with a piece a day, ended at these times (UTC, as the driver gives them)."""
    rows = [
        PieceRow(day * DAY_MS, State.FAILED, attempt=1, finished_at=ended)
        for day, ended in enumerate(finished_at)
    ]
    return cast(Pieces, SimpleNamespace(entries=lambda first, before: rows))


def pieces(*days: int) -> Sequence[Piece]:
    return [Piece(day * DAY_MS, Reason.UNFINISHED) for day in days]


def facts(run_id: str, **checks: CheckFacts) -> ValidationFacts:
    return ValidationFacts(
        run_id, iso(from_millis(0)), iso(from_millis(0)), "Day", "all", 7, 9, checks
    )


def test_page_escapes_what_comes_from_the_journal(tmp_path: Path) -> None:
    key = {"time_bucket": 0, "persistence_id": "<b>&", "tag": "<i>", "number": 2, "expected": 1}
    told = CheckFacts(30, 4, [{**key, "detail": "expected 1, found 2"}])

    docs = build.publish(
        {(0, checks.TAG_PID_SEQUENCE_NR_GAP.name): 30},
        checks.CHECKS,
        [0],
        Settings(data_docs_dir=tmp_path),
        facts("r", tag_pid_sequence_nr_gap=told),
    )

    page = docs.page.read_text()
    assert "30 findings in 1 of 1 time bucket" in page
    assert "<code>&lt;b&gt;&amp;</code>" in page
    assert "<i>" not in page
    assert "30 findings of 4 persistence ids" in " ".join(page.split())
    assert "and 29 more, which are in" in page


@pytest.mark.parametrize(
    ("earlier", "since"),
    [
        ([], 9),
        ([["a"]], 8),
        ([["a", "b"], ["a"], ["a"]], 6),
        # A run between that has passed the time bucket, or has not looked at it, ends the streak.
        ([["a"], ["b"], ["a"]], 8),
        ([["b"], ["a"]], 9),
    ],
)
def test_red_since_is_the_first_run_without_a_pass_since(
    earlier: list[list[str]], since: int
) -> None:
    def judged(hour: int, buckets: list[str]) -> history.JudgedRun:
        check = {"name": "gap", "severity": "blocks", "findings": dict.fromkeys(buckets, 1)}
        result = {"time": at(hour).isoformat(), "checks": [check]}
        return history.JudgedRun(Path(), result)

    runs = [judged(8 - place, buckets) for place, buckets in enumerate(earlier)]
    red = history.red_since([("gap", "a")], at(9), runs)
    assert red == {"gap": at(since).isoformat(timespec="seconds")}


def at(hour: int) -> datetime:
    return datetime(2024, 3, 1, hour, tzinfo=UTC)


def test_data_docs_keep_the_newest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "KEPT_RUNS", 2)

    for run_id in ("one", "two", "three", "four"):
        build.publish({}, checks.CHECKS, [0], Settings(data_docs_dir=tmp_path), facts(run_id))

    for kept in (history.PAGES, history.RESULTS):
        assert {directory.name for directory in (tmp_path / kept).iterdir()} == {"three", "four"}
    start_page = (tmp_path / "index.html").read_text()
    assert "/two/" not in start_page
    assert "/three/" in start_page


def test_a_result_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    settings = Settings(data_docs_dir=tmp_path)
    build.publish({}, checks.CHECKS, [0], settings, facts("one"))
    [result] = (tmp_path / history.RESULTS).rglob("*.json")
    result.write_text("{}")

    build.publish({}, checks.CHECKS, [0], settings, facts("two"))

    assert [run.facts["run_id"] for run in history.runs(tmp_path)] == ["two"]


NAMES = sorted(check.name for check in checks.CHECKS)
PLACES = [NO_TIME_BUCKET, 0, 3_600_000, 7_200_000]


@property_settings(max_examples=6, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(PLACES), st.sampled_from(NAMES)), st.just(2)))
def test_what_blocks_is_what_great_expectations_rejects(counts: dict[tuple[int, str], int]) -> None:
    blocking = {check.name for check in checks.CHECKS if check.severity is Severity.BLOCKS}
    expected = {(bucket, name) for bucket, name in counts if name in blocking}
    assert gate.blocked(counts, checks.CHECKS, PLACES[1:]) == expected


def test_findings_are_written_now() -> None:
    before = time.time_ns() // 1000

    written = plan.write_time(entries(None, datetime(2020, 1, 1)), pieces(0, 1))

    assert before <= written <= time.time_ns() // 1000


def test_findings_are_written_after_those_of_a_clock_ahead_of_ours() -> None:
    ahead = datetime(2200, 1, 1, 0, 0, 0, 500_000)

    written = plan.write_time(entries(ahead), pieces(0))

    assert written == int(ahead.replace(tzinfo=UTC).timestamp()) * 1_000_000 + 501_000


@pytest.mark.parametrize(
    ("removed", "span"),
    [
        (Removed(), None),
        (Removed(frozenset({3, 5})), (3, 5)),
        (Removed(expired_before=4), (-(2**63), 3)),
        (Removed(frozenset({9}), expired_before=4), (-(2**63), 9)),
    ],
)
def test_span_of_what_may_be_gone(removed: Removed, span: tuple[int, int] | None) -> None:
    assert removed.span() == span


def test_great_expectations_is_imported_while_the_caller_works() -> None:
    code = """
import sys
from tidemark.validate.data_docs import quiet_gx
assert "great_expectations" not in sys.modules, "imported with the module"
thread = quiet_gx.import_early()
assert quiet_gx.import_early() is thread, "begun twice"
quiet_gx.silence()
assert not thread.is_alive(), "silence returned before the import had ended"
assert "great_expectations.expectations.core" in sys.modules, "not imported"
quiet_gx.frames()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
