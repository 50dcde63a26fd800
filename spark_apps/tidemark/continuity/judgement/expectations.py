"""The verdict of Great Expectations on the counts of findings, published as Data Docs.

GX is given one row for each time bucket and one column for each check, never the events: one
expectation costs several passes over its data.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tidemark import clock
from tidemark.continuity.findings.check import Check, Severity
from tidemark.continuity.judgement import quiet_gx
from tidemark.continuity.judgement.facts import RunFacts
from tidemark.continuity.judgement.history import PAGES, RESULTS, JudgedRun, red_since, runs
from tidemark.continuity.no_time_bucket import place_of
from tidemark.settings import Settings
from tidemark.text import path_name

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.data_context.data_context.abstract_data_context import (
        AbstractDataContext,
    )

SUITE = "sequence continuity"
KEPT_RUNS = 200


@dataclass(frozen=True)
class Verdict:
    """Whether nothing blocks, the directory of Data Docs, and the run's page there."""

    passed: bool
    data_docs: Path
    page: Path


def counts_table(
    checks: Iterable[Check], buckets: Iterable[int], counts: Mapping[tuple[int, str], int]
) -> pd.DataFrame:
    """Make a table of the findings: a row for each time bucket, a column for each check.

    Columns out: time_bucket (text for people, `place_of`), and one int64 by each check's name.
    """
    return pd.DataFrame(
        [
            {
                "time_bucket": place_of(bucket),
                **{check.name: counts.get((bucket, check.name), 0) for check in checks},
            }
            for bucket in sorted(buckets)
        ]
    )


def judge(
    table: pd.DataFrame, checks: Sequence[Check], settings: Settings, facts: RunFacts
) -> Verdict:
    """Validate `counts_table` and build its page of the Data Docs under `data_docs_dir`.

    The pages of the last KEPT_RUNS runs are kept. Great Expectations is imported here, since that
    takes seconds and only a run with findings to judge needs it.
    """
    quiet_gx.silence()
    import great_expectations as gx
    from great_expectations.checkpoint.actions import UpdateDataDocsAction
    from great_expectations.core import RunIdentifier

    directory = settings.data_docs_dir.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    _drop_old_runs(directory)
    now = clock.now()
    bad = [
        (check.name, bucket)
        for check in checks
        for bucket in table.loc[table[check.name] > 0, "time_bucket"]
    ]
    earlier = runs(directory, settings.journal_keyspace) if bad else []
    kept = {"facts": facts.as_json(), "since": red_since(bad, now, earlier)}
    suite = _suite(len(table), checks, kept)
    context = _context(directory)
    batch = quiet_gx.whole_frames(context, settings.journal_keyspace, "time buckets")
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=SUITE, data=batch, suite=context.suites.add(suite))
    )
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(
            name=SUITE,
            validation_definitions=[validation],
            actions=[UpdateDataDocsAction(name="data docs")],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["time_bucket"],
                "return_unexpected_index_query": False,
            },
        )
    )
    result = checkpoint.run(
        batch_parameters={"dataframe": table},
        run_id=RunIdentifier(run_name=path_name(facts.run_id), run_time=now),
    )
    [identifier] = result.run_results
    names: tuple[str, ...] = identifier.to_tuple()  # type: ignore[no-untyped-call]
    page = directory.joinpath(PAGES, *names[:-1], f"{names[-1]}.html")
    content: dict[str, Any] = result.run_results[identifier].to_json_dict()  # type: ignore[no-untyped-call]
    judged = JudgedRun(page, content)
    return Verdict(judged.passed, directory, page)


def _suite(time_buckets: int, checks: Sequence[Check], kept: Mapping[str, Any]) -> ExpectationSuite:
    """Return the expectations; what is `kept` is stored with the result, for its page."""
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
        ExpectColumnValuesToBeInSet,
    )
    from great_expectations.expectations.core.expect_table_row_count_to_equal import (
        ExpectTableRowCountToEqual,
    )
    from great_expectations.expectations.metadata_types import FailureSeverity

    severities = {
        Severity.BLOCKS: FailureSeverity.CRITICAL,
        Severity.WARNS: FailureSeverity.WARNING,
    }
    return ExpectationSuite(
        name=SUITE,
        expectations=[
            ExpectTableRowCountToEqual(
                value=time_buckets,
                description="Every time bucket of the run is judged.",
                meta=dict(kept),
            ),
            *(
                ExpectColumnValuesToBeInSet(
                    column=check.name,
                    value_set=[0],
                    description=check.rule,
                    severity=severities[check.severity],
                )
                for check in checks
            ),
        ],
    )


def _context(directory: Path) -> AbstractDataContext:
    """Make a context that keeps its results in files, so that the start page lists earlier runs."""
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    defaults = InMemoryStoreBackendDefaults()
    defaults.stores[defaults.validation_results_store_name]["store_backend"] = {
        "class_name": "TupleFilesystemStoreBackend",
        "base_directory": str(directory / RESULTS),
        "suppress_store_backend_id": True,
    }
    defaults.data_docs_sites = {SUITE: _site(directory)}
    return quiet_gx.context(defaults)


def _site(directory: Path) -> dict[str, Any]:
    module = "tidemark.continuity.judgement.site"
    view = {"module_name": module, "class_name": "PageView"}
    index = {"module_name": module, "class_name": "IndexRenderer", "directory": str(directory)}
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "view": view,
            "renderer": index,
        },
        "site_section_builders": {
            "expectations": "None",
            "validations": {
                "view": view,
                "renderer": {"module_name": module, "class_name": "RunRenderer"},
            },
            "profiling": "None",
        },
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(directory),
        },
    }


def _drop_old_runs(directory: Path) -> None:
    """Delete all but the newest runs; folders are <results or pages>/<suite>/<run name>/<time>."""
    times = sorted((directory / RESULTS).glob("*/*/*"), key=lambda path: path.name, reverse=True)
    for old in times[KEPT_RUNS:]:
        for part in (RESULTS, PAGES):
            shutil.rmtree(
                directory / part / old.relative_to(directory / RESULTS), ignore_errors=True
            )
