"""Earlier runs of validate, from the result files of Data Docs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.validate.findings.check import Severity
from tidemark.validate.no_time_bucket import WITHOUT_TIME_BUCKET

RESULTS = Path("runs")
PAGES = Path("validations")
"""The directories of results and pages below that of Data Docs; files are <run id>/<time>."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgedRun:
    """The result of one run, as `build.publish` stores it.

    Attributes:
        page: the path of its page below the directory of Data Docs.
        result: the content of its JSON file.
    """

    page: Path
    result: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """`ValidationFacts` as JSON."""
        facts: Mapping[str, Any] = self.result["facts"]
        return facts

    @property
    def since(self) -> Mapping[str, str]:
        """The time since when each check has had findings, ISO 8601 (see `red_since`)."""
        since: Mapping[str, str] = self.result["since"]
        return since

    @property
    def time(self) -> datetime:
        """The time when the run was judged."""
        return datetime.fromisoformat(self.result["time"])

    @property
    def journal_keyspace(self) -> str:
        """The keyspace whose journal was checked."""
        return str(self.result["journal_keyspace"])

    @property
    def passed(self) -> bool:
        """Whether no finding blocks."""
        return not self.findings

    @property
    def state(self) -> str:
        """`failed`, `warned` or `passed`."""
        if not self.passed:
            return "failed"
        return "warned" if self.warnings else "passed"

    @property
    def time_buckets(self) -> int:
        """The number of time buckets checked."""
        return int(self.result["time_buckets"])

    @property
    def bad_time_buckets(self) -> set[str]:
        """The time buckets with findings that block, ISO 8601."""
        return {bucket for _, bucket, _ in self.by_time_bucket(warns=False)} - {WITHOUT_TIME_BUCKET}

    @property
    def findings_in_no_time_bucket(self) -> int:
        """The number of blocking findings without a time bucket; any fails all time buckets."""
        return sum(
            number
            for _, bucket, number in self.by_time_bucket(warns=False)
            if bucket == WITHOUT_TIME_BUCKET
        )

    @property
    def findings(self) -> int:
        """The number of findings that block."""
        return sum(number for _, _, number in self.by_time_bucket(warns=False))

    @property
    def warnings(self) -> int:
        """The number of findings that warn."""
        return sum(number for _, _, number in self.by_time_bucket(warns=True))

    def by_time_bucket(self, *, warns: bool | None = None) -> Iterator[tuple[str, str, int]]:
        """Yield check, time bucket (ISO 8601) and number of findings, of one severity or both."""
        for check in self.checks:
            if warns in (None, check["severity"] == Severity.WARNS):
                for bucket, number in check["findings"].items():
                    yield check["name"], bucket, number

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        """The name, rule and severity of each check then, and its findings by time bucket."""
        checks: Sequence[Mapping[str, Any]] = self.result["checks"]
        return checks

    def delete(self, directory: Path) -> None:
        """Delete the result and the page of the run below the directory of Data Docs."""
        result = RESULTS / self.page.relative_to(PAGES).with_suffix(".json")
        for file in (directory / result, directory / self.page):
            file.unlink(missing_ok=True)
            # Two runs may have the same run id, and then the same directory.
            with suppress(OSError):
                file.parent.rmdir()


def runs(directory: Path) -> list[JudgedRun]:
    """Return the runs below a directory of Data Docs, the newest first.

    Unreadable results are left out and logged.
    """
    timed_runs = []
    for file in (directory / RESULTS).glob("*/*.json"):
        page = PAGES / file.relative_to(directory / RESULTS).with_suffix(".html")
        try:
            run = JudgedRun(page, json.loads(file.read_text()))
            timed_runs.append((run.time, run))
        except (OSError, ValueError, LookupError) as error:
            _log.warning("%s is left out of Data Docs: %r", file, error)
    return [run for _, run in sorted(timed_runs, key=lambda timed: timed[0], reverse=True)]


def red_since(
    failures: Iterable[tuple[str, str]], now: datetime, earlier_runs: Sequence[JudgedRun]
) -> dict[str, str]:
    """Return since when (ISO 8601) each check has been red without a break in a time bucket.

    A run that did not check a time bucket counts like a run in which it passed; validate checks a
    failed bucket in each run until it passes. `failures`: check and time bucket (ISO 8601) of the
    run's findings. `earlier_runs`: the newest first.
    """
    since: dict[str, str] = {}
    streaks = dict.fromkeys(failures, now)
    unbroken = set(streaks)
    for run in earlier_runs:
        unbroken &= {(check, bucket) for check, bucket, _ in run.by_time_bucket()}
        for failure in unbroken:
            streaks[failure] = run.time
    for (check, _), began in sorted(streaks.items(), key=lambda entry: entry[1], reverse=True):
        since[check] = began.isoformat(timespec="seconds")
    return since
