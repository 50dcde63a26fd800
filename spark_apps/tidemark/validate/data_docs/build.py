"""Data Docs: the result of each run as a file, and the pages that are made of these files."""

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
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET, place_of

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
    """Keep the result of a run, and write its page and the start page under `data_docs_dir`.

    The results and pages of the last KEPT_RUNS runs are kept.

    Args:
        counts: the number of findings by time bucket (epoch ms) and check.
        checks: all checks of the run, in the order in which they are shown.
        buckets: the time buckets that the run has checked; NO_TIME_BUCKET does not count.
        settings: the journal, and where Data Docs are.
        facts: what the page shows besides.
    """
    directory = settings.data_docs_dir.absolute()
    now = clock.now()
    earlier = runs(directory)
    of_journal = [run for run in earlier if run.journal_keyspace == settings.journal_keyspace]
    bad = {(name, place_of(bucket)) for bucket, name in counts}
    result = {
        "time": now.isoformat(),
        "journal_keyspace": settings.journal_keyspace,
        "time_buckets": len({*buckets} - {NO_TIME_BUCKET}),
        "facts": facts.as_json(),
        "since": red_since(bad, now, of_journal),
        "checks": [
            {
                "name": check.name,
                "rule": check.rule,
                "severity": check.severity,
                "findings": {
                    place_of(bucket): number
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
    kept, old = earlier[: KEPT_RUNS - 1], earlier[KEPT_RUNS - 1 :]
    for dropped in old:
        dropped.delete(directory)
    # The start page lists a run by its result: the page that it links to is there by then.
    _write(directory / page, site.run_page(run))
    _write(directory / RESULTS / name.with_name(f"{name.name}.json"), text)
    _write(directory / "index.html", site.start_page([run, *kept]))
    return DataDocs(directory, directory / page)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
