"""The pages of Data Docs, from templates in include/data_docs that need no network or script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log1p
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tidemark.installation import SHIPPED
from tidemark.validate.data_docs.history import JudgedRun
from tidemark.validate.no_time_bucket import WITHOUT_TIME_BUCKET, bucket_text

TEMPLATES = SHIPPED / "data_docs"
PLOTTED = 60
"""The number of runs in the plots of the start page."""
BUCKETS_NAMED = 12
"""The number of time buckets listed for a failed check; the table has them all."""
_HEIGHT = 64


def run_page(run: JudgedRun) -> str:
    """Return the page of a run: verdict, steps to take, failed checks with keys, other checks."""
    failed_checks = [
        (check, list(check["findings"].items())) for check in run.checks if check["findings"]
    ]
    return _filled(
        "run.html",
        run=run,
        facts=run.facts,
        root="../" * (len(run.page.parts) - 1),
        since=run.since,
        broken=failed_checks,
        passed=[check for check in run.checks if not check["findings"]],
        buckets_named=BUCKETS_NAMED,
        nowhere=WITHOUT_TIME_BUCKET,
    )


def start_page(runs: Sequence[JudgedRun]) -> str:
    """Return the start page: the newest run of each journal, the trend, and all runs.

    `runs`: the newest first.
    """
    by_journal: dict[str, list[JudgedRun]] = {}
    for run in runs:
        by_journal.setdefault(run.journal_keyspace, []).append(run)
    journals = [
        {"keyspace": keyspace, "newest": journal_runs[0], "plots": plots(journal_runs)}
        for keyspace, journal_runs in sorted(by_journal.items())
    ]
    return _filled("index.html", journals=journals, runs=runs, root="")


def _filled(template: str, **values: object) -> str:
    """Return a template as HTML; values are escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["minute"] = _minute
    environment.filters["moment"] = lambda millis: _minute(bucket_text(millis))
    return environment.get_template(template).render(values)


def plots(runs: Sequence[JudgedRun]) -> list[dict[str, Any]]:
    """Return the plots of a journal's newest runs (newest first), oldest bar on the left.

    Heights are logarithmic, so that one finding is visible next to a thousand.
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
    """Return an ISO 8601 time for people, to the minute; only the day if it is midnight."""
    return re.sub(r"T(\d\d:\d\d).*", r" \1", moment).removesuffix(" 00:00")
