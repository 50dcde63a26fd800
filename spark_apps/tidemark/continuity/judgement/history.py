"""Earlier runs of validate, from the results that Great Expectations has kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.continuity.findings.check import Severity
from tidemark.continuity.no_time_bucket import NOWHERE

RESULTS = "results"
PAGES = "validations"
WARNING = "warning"
"""The severity in Great Expectations of a check that warns."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgedCheck:
    """A check as it was when a run was judged; users' checks come and go.

    Attributes:
        name: in findings.
        rule: what holds where it finds nothing.
        severity: of `findings.checks.Severity`.
    """

    name: str
    rule: str
    severity: Severity


@dataclass(frozen=True)
class JudgedRun:
    """The result of one run, as Great Expectations has kept it.

    Attributes:
        page: the path of its page below the directory of Data Docs.
        result: its validation result, of JSON's types.
    """

    page: Path
    result: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """`RunFacts`, of JSON's types."""
        facts: Mapping[str, Any] = self._kept["facts"]
        return facts

    @property
    def since(self) -> Mapping[str, str]:
        """Since when each check with findings has been red, ISO 8601 (`red_since`)."""
        since: Mapping[str, str] = self._kept["since"]
        return since

    @property
    def time(self) -> datetime:
        """When the run was judged."""
        return datetime.fromisoformat(self.result["meta"]["run_id"]["run_time"])

    @property
    def journal_keyspace(self) -> str:
        """The keyspace whose journal was checked."""
        name: str = self.result["meta"]["active_batch_definition"]["data_asset_name"]
        return name

    @property
    def passed(self) -> bool:
        """Whether every expectation that blocks was met."""
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
        [number] = {check["result"]["element_count"] for check in self._of_checks()}
        return int(number) - bool(self.facts.get("layers"))

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
        for check in self._of_checks():
            if warns not in (None, check["expectation_config"]["severity"] == WARNING):
                continue
            name = check["expectation_config"]["kwargs"]["column"]
            for place in check["result"].get("unexpected_index_list", ()):
                yield name, place["time_bucket"], place[name]

    @property
    def checks(self) -> list[JudgedCheck]:
        """The checks of the run, in the order in which they are shown."""
        configured = [check["expectation_config"] for check in self._of_checks()]
        return [
            JudgedCheck(
                config["kwargs"]["column"],
                config["description"],
                Severity.WARNS if config["severity"] == WARNING else Severity.BLOCKS,
            )
            for config in configured
        ]

    @property
    def _kept(self) -> Mapping[str, Any]:
        """What was kept with the expectation about the whole table."""
        [whole] = [check for check in self.result["results"] if not _is_of_check(check)]
        kept: Mapping[str, Any] = whole["expectation_config"]["meta"]
        return kept

    def _of_checks(self) -> list[Mapping[str, Any]]:
        return [check for check in self.result["results"] if _is_of_check(check)]


def _is_of_check(expectation: Mapping[str, Any]) -> bool:
    return "column" in expectation["expectation_config"]["kwargs"]


def runs(directory: Path, journal_keyspace: str | None = None) -> list[JudgedRun]:
    """Return the runs below a directory of Data Docs, the newest first.

    What cannot be read, or is of an older form, is left out and logged.
    """
    judged = []
    for file in (directory / RESULTS).rglob("*.json"):
        page = PAGES / file.relative_to(directory / RESULTS).with_suffix(".html")
        try:
            run = JudgedRun(page, json.loads(file.read_text()))
            if journal_keyspace in (None, run.journal_keyspace) and run.facts:
                judged.append(run)
        except (OSError, ValueError, LookupError) as error:
            _log.warning("%s is left out of Data Docs: %r", file, error)
    return sorted(judged, key=lambda run: run.time, reverse=True)


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
