"""Earlier runs of validate, from the results that Data Docs keep."""

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
from tidemark.validate.no_time_bucket import NOWHERE

RESULTS = Path("runs")
PAGES = Path("validations")
"""The directories of results and of pages below that of Data Docs: <run id>/<time> in each."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgedRun:
    """The result of one run, as `data_docs.publish` keeps it.

    Attributes:
        page: the path of its page below the directory of Data Docs.
        result: of JSON's types.
    """

    page: Path
    result: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """`RunFacts`, of JSON's types."""
        facts: Mapping[str, Any] = self.result["facts"]
        return facts

    @property
    def since(self) -> Mapping[str, str]:
        """Since when each check with findings has been red, ISO 8601 (`red_since`)."""
        since: Mapping[str, str] = self.result["since"]
        return since

    @property
    def time(self) -> datetime:
        """When the run was judged."""
        return datetime.fromisoformat(self.result["time"])

    @property
    def journal_keyspace(self) -> str:
        """The keyspace whose journal was checked."""
        return str(self.result["journal_keyspace"])

    @property
    def passed(self) -> bool:
        """Whether there is no finding that blocks."""
        return not self.findings

    @property
    def state(self) -> str:
        """`failed`, `warned` or `passed`."""
        if not self.passed:
            return "failed"
        return "warned" if self.warnings else "passed"

    @property
    def time_buckets(self) -> int:
        """How many time buckets were looked at."""
        return int(self.result["time_buckets"])

    @property
    def bad_time_buckets(self) -> set[str]:
        """The time buckets with findings that block, ISO 8601."""
        return {bucket for _, bucket, _ in self.by_time_bucket(warns=False)} - {NOWHERE}

    @property
    def findings_in_no_time_bucket(self) -> int:
        """How many findings block that belong to no time bucket: then none of the run passes."""
        return sum(
            number for _, place, number in self.by_time_bucket(warns=False) if place == NOWHERE
        )

    @property
    def findings(self) -> int:
        """How many findings there are that block."""
        return sum(number for _, _, number in self.by_time_bucket(warns=False))

    @property
    def warnings(self) -> int:
        """How many findings there are that warn."""
        return sum(number for _, _, number in self.by_time_bucket(warns=True))

    def by_time_bucket(self, *, warns: bool | None = None) -> Iterator[tuple[str, str, int]]:
        """Yield check, time bucket (ISO 8601) and number of findings, of one severity or both."""
        for check in self.checks:
            if warns in (None, check["severity"] == Severity.WARNS):
                for place, number in check["findings"].items():
                    yield check["name"], place, number

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        """The checks as they were: name, rule, severity, and findings by time bucket."""
        checks: Sequence[Mapping[str, Any]] = self.result["checks"]
        return checks

    def delete(self, directory: Path) -> None:
        """Delete its result and its page below the directory of Data Docs."""
        result = RESULTS / self.page.relative_to(PAGES).with_suffix(".json")
        for file in (directory / result, directory / self.page):
            file.unlink(missing_ok=True)
            # Two runs may have one run id, and then one directory.
            with suppress(OSError):
                file.parent.rmdir()


def runs(directory: Path) -> list[JudgedRun]:
    """Return the runs below a directory of Data Docs, the newest first.

    What cannot be read is left out and logged.
    """
    judged = []
    for file in (directory / RESULTS).glob("*/*.json"):
        page = PAGES / file.relative_to(directory / RESULTS).with_suffix(".html")
        try:
            run = JudgedRun(page, json.loads(file.read_text()))
            judged.append((run.time, run))
        except (OSError, ValueError, LookupError) as error:
            _log.warning("%s is left out of Data Docs: %r", file, error)
    return [run for _, run in sorted(judged, key=lambda timed: timed[0], reverse=True)]


def red_since(
    bad: Iterable[tuple[str, str]], now: datetime, earlier: Sequence[JudgedRun]
) -> dict[str, str]:
    """Return since when each check has been red without a break in one of its time buckets.

    A run that did not look at a time bucket says nothing of it, and cannot be told from one that
    passed it; validate looks at a failed bucket in each run until it passes.

    Args:
        bad: check and time bucket (ISO 8601) of the run's findings.
        now: when the run is judged.
        earlier: the runs before it, the newest first.

    Returns:
        The time of the first run of the streak by the check's name, ISO 8601.
    """
    since: dict[str, str] = {}
    streaks = dict.fromkeys(bad, now)
    alive = set(streaks)
    for run in earlier:
        alive &= {(check, bucket) for check, bucket, _ in run.by_time_bucket()}
        for place in alive:
            streaks[place] = run.time
    for (check, _), began in sorted(streaks.items(), key=lambda entry: entry[1], reverse=True):
        since[check] = began.isoformat(timespec="seconds")
    return since
