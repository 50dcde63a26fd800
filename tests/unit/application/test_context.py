"""The Spark session of a run, opened once, beside other work if asked, and its cancelled jobs."""

from __future__ import annotations

from typing import cast
from unittest.mock import MagicMock

import pytest

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.settings import Settings


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Replace the function that opens a session by a mock, and return it."""
    opening = MagicMock()
    monkeypatch.setattr(RunContext, "_open_spark", opening)
    return opening


@pytest.fixture
def run() -> RunContext:
    return RunContext("test", Settings(), cast(Control, MagicMock()), "r1")


def test_jobs_of_a_session_that_nobody_has_asked_for_are_cancelled_too(
    run: RunContext, opened: MagicMock
) -> None:
    run.start_spark()
    assert run._opening is not None
    session = cast(MagicMock, run._opening.result())
    run.stop_jobs()
    session.sparkContext.cancelAllJobs.assert_called_once_with()
    assert cast(MagicMock, run.spark) is session
    opened.assert_called_once_with()


def test_a_session_is_opened_at_its_first_use_and_only_once(
    run: RunContext, opened: MagicMock
) -> None:
    run.stop_jobs()
    opened.assert_not_called()
    session = cast(MagicMock, run.spark)
    assert cast(MagicMock, run.spark) is session
    opened.assert_called_once_with()
    run.stop_jobs()
    session.sparkContext.cancelAllJobs.assert_called_once_with()


def test_a_session_that_could_not_be_opened_has_no_jobs(run: RunContext, opened: MagicMock) -> None:
    opened.side_effect = InvalidInput("jars are missing")
    run.start_spark()
    with pytest.raises(InvalidInput, match="jars are missing"):
        _ = run.spark
    run.stop_jobs()


def test_a_run_that_has_lost_its_locks_waits_no_longer_to_write(run: RunContext) -> None:
    run.stop_jobs()
    cast(MagicMock, run.control).stop_writing.assert_called_once_with()
