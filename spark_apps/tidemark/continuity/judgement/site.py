"""The pages of Data Docs: those of the runs and the start page, from Great Expectations' results.

Great Expectations' own pages load their styles and scripts from six public hosts, show of a failed
check the number of findings and no key, and list the runs by name only. It takes other classes by
configuration; these fill templates of include/data_docs, which need no network and no script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from typing import Any

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
)
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tidemark.continuity.judgement import history
from tidemark.continuity.judgement.history import JudgedRun
from tidemark.continuity.no_time_bucket import NOWHERE, place_of
from tidemark.settings import REPOSITORY

TEMPLATES = REPOSITORY / "include" / "data_docs"
PLOTTED = 60
"""Runs in the plots of the start page."""
BUCKETS_NAMED = 12
"""Time buckets that a failed check names by itself; the table has them all."""
_HEIGHT = 64


@dataclass(frozen=True)
class Page:
    """A template, and what fills it."""

    template: str
    values: Mapping[str, Any]


class PageView:
    """The view that Great Expectations has each page made by."""

    def render(self, page: Page, **_: object) -> str:
        """Return the page as HTML; whatever comes from the journal is escaped."""
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        environment.filters["minute"] = _minute
        environment.filters["moment"] = lambda millis: _minute(place_of(millis))
        return environment.get_template(page.template).render(page.values)


class RunRenderer:
    """The page of one run."""

    def render(self, result: ExpectationSuiteValidationResult) -> Page:
        """Return the page: the verdict, what to do, each failed check with keys, then the rest."""
        content: dict[str, Any] = result.to_json_dict()  # type: ignore[no-untyped-call]
        run = JudgedRun(Path(), content)
        by_check: dict[str, list[tuple[str, int]]] = {}
        for check, bucket, number in run.by_time_bucket():
            by_check.setdefault(check, []).append((bucket, number))
        broken = [check for check in run.checks if check.name in by_check]
        passed = [check for check in run.checks if check.name not in by_check]
        return Page(
            "run.html",
            {
                "run": run,
                "facts": run.facts,
                "root": "../" * 4,
                "since": run.since,
                "broken": [(check, by_check[check.name]) for check in broken],
                "passed": passed,
                "buckets_named": BUCKETS_NAMED,
                "nowhere": NOWHERE,
            },
        )


class IndexRenderer:
    """The start page: the newest run of each journal, the trend, and all runs."""

    def __init__(self, directory: str) -> None:
        """Read the runs below `directory`, which Great Expectations' links do not describe."""
        self._directory = Path(directory)

    def render(self, _links: object) -> Page:
        """Return the page; the links to the runs are their own."""
        runs = history.runs(self._directory)
        by_journal: dict[str, list[JudgedRun]] = {}
        for run in runs:
            by_journal.setdefault(run.journal_keyspace, []).append(run)
        journals = [
            {"keyspace": keyspace, "newest": of_journal[0], "plots": plots(of_journal)}
            for keyspace, of_journal in sorted(by_journal.items())
        ]
        return Page("index.html", {"journals": journals, "runs": runs, "root": ""})


def plots(runs: Sequence[JudgedRun]) -> list[dict[str, Any]]:
    """Return the plots of a journal's newest runs (newest first), oldest bar on the left.

    Heights grow with the logarithm: one finding is to be seen beside a thousand.
    """
    shown = list(reversed(runs[:PLOTTED]))
    return [
        _plot("findings", shown, [run.findings for run in shown]),
        _plot("events checked", shown, [run.facts["events"] for run in shown]),
    ]


def _plot(name: str, runs: Sequence[JudgedRun], values: Sequence[int]) -> dict[str, Any]:
    highest = max(values)
    bars = [
        {
            "height": round(2 + (_HEIGHT - 2) * log1p(value) / log1p(highest), 1) if value else 2,
            "value": value,
            "run": run,
        }
        for run, value in zip(runs, values, strict=True)
    ]
    return {"name": name, "bars": bars, "height": _HEIGHT, "highest": highest}


def _minute(moment: str) -> str:
    """Return an ISO 8601 time for people, to the minute; of midnight the day."""
    return re.sub(r"T(\d\d:\d\d).*", r" \1", moment).removesuffix(" 00:00")
