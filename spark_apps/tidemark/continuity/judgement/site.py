"""The pages of Data Docs: templates of include/data_docs, which need no network and no script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log1p
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tidemark.continuity.judgement.history import JudgedRun
from tidemark.continuity.no_time_bucket import NOWHERE, place_of
from tidemark.installation import SHIPPED

TEMPLATES = SHIPPED / "data_docs"
PLOTTED = 60
"""Runs in the plots of the start page."""
BUCKETS_NAMED = 12
"""Time buckets that a failed check names by itself; the table has them all."""
_HEIGHT = 64


def run_page(run: JudgedRun) -> str:
    """Return the page of a run: the verdict, what to do, each failed check with keys, the rest."""
    broken = [(check, list(check["findings"].items())) for check in run.checks if check["findings"]]
    return _filled(
        "run.html",
        run=run,
        facts=run.facts,
        root="../" * (len(run.page.parts) - 1),
        since=run.since,
        broken=broken,
        passed=[check for check in run.checks if not check["findings"]],
        buckets_named=BUCKETS_NAMED,
        nowhere=NOWHERE,
    )


def start_page(runs: Sequence[JudgedRun]) -> str:
    """Return the start page: the newest run of each journal, the trend, and all runs.

    The runs are given the newest first.
    """
    by_journal: dict[str, list[JudgedRun]] = {}
    for run in runs:
        by_journal.setdefault(run.journal_keyspace, []).append(run)
    journals = [
        {"keyspace": keyspace, "newest": of_journal[0], "plots": plots(of_journal)}
        for keyspace, of_journal in sorted(by_journal.items())
    ]
    return _filled("index.html", journals=journals, runs=runs, root="")


def _filled(template: str, **values: object) -> str:
    """Return a template as HTML; whatever comes from the journal is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["minute"] = _minute
    environment.filters["moment"] = lambda millis: _minute(place_of(millis))
    return environment.get_template(template).render(values)


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
