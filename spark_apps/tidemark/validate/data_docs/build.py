"""Data Docs: the result of each run as a file, and the pages built from these files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark import clock
from tidemark.settings import Settings
from tidemark.text import path_name
from tidemark.validate.data_docs import site
from tidemark.validate.data_docs.facts import ValidationFacts
from tidemark.validate.data_docs.history import PAGES, RESULTS, JudgedRun, red_since, runs
from tidemark.validate.findings.check import Check
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET, bucket_text

KEPT_RUNS = 200


@dataclass(frozen=True)
class DataDocs:
    """The directory of Data Docs, and the page of a run there."""

    directory: Path
    page: Path


def publish(
    counts: Mapping[tuple[int, str], int],
    checks: Sequence[Check],
    buckets: Collection[int],
    settings: Settings,
    facts: ValidationFacts,
) -> DataDocs:
    """Store the result of a run, and write its page and the start page under `data_docs_dir`.

    The results and pages of the last KEPT_RUNS runs are kept. `counts`: the number of findings by
    time bucket (epoch ms) and check. `checks`: all checks of the run, in display order. `buckets`:
    the time buckets that the run has checked; NO_TIME_BUCKET is not counted.
    """
    directory = settings.data_docs_dir.absolute()
    now = clock.now()
    earlier_runs = runs(directory)
    journal_runs = [
        run for run in earlier_runs if run.journal_keyspace == settings.journal_keyspace
    ]
    buckets_with_findings = {(name, bucket_text(bucket)) for bucket, name in counts}
    result = {
        "time": now.isoformat(),
        "journal_keyspace": settings.journal_keyspace,
        "time_buckets": len({*buckets} - {NO_TIME_BUCKET}),
        "facts": facts.as_json(),
        "since": red_since(buckets_with_findings, now, journal_runs),
        "checks": [
            {
                "name": check.name,
                "rule": check.rule,
                "severity": check.severity,
                "findings": {
                    bucket_text(bucket): number
                    for (bucket, name), number in sorted(counts.items())
                    if name == check.name
                },
            }
            for check in checks
        ],
    }
    name = Path(path_name(facts.run_id), f"{now:%Y%m%dT%H%M%S.%fZ}")
    text = json.dumps(result)
    page = PAGES / name.with_name(f"{name.name}.html")
    run = JudgedRun(page, json.loads(text))
    kept_runs, old_runs = earlier_runs[: KEPT_RUNS - 1], earlier_runs[KEPT_RUNS - 1 :]
    for old_run in old_runs:
        old_run.delete(directory)
    # The start page lists runs by their results: write the page that it links to first.
    _write(directory / page, site.run_page(run))
    _write(directory / RESULTS / name.with_name(f"{name.name}.json"), text)
    _write(directory / "index.html", site.start_page([run, *kept_runs]))
    return DataDocs(directory, directory / page)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
