"""Checks sequence continuity of the journal and of the tag views; a failed check stops `project`.

Starts after `tag_write` has written time buckets, by hand with the form, or by
`airflow backfill create --dag-id validate`. It is never scheduled by time, except for a journal in
PostgreSQL, which has no tag views: then a run starts for each date bucket. A window of the form is
checked even if its time buckets have passed before; other runs leave these out.

With persistence ids or slices, a run checks only these, in all time buckets whatever the window. It
marks no time bucket as passed, so that nothing downstream starts.
"""

from __future__ import annotations

from tidemark_airflow.assets import VALIDATED, UpdateAfterFailure
from tidemark_airflow.data_docs import DataDocsLink
from tidemark_airflow.form import FORCE, LAYERS, SCOPE, SLICES, names_param, run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import of_validate

for journal in journals():
    with journal_dag(
        "validate",
        journal,
        description="Check the sequence numbers before anything downstream starts",
        schedule=of_validate(journal),
        params=run_form(
            force=FORCE,
            scope=SCOPE,
            layers=LAYERS,
            persistence_ids=names_param("Persistence ids", "the time buckets of the window"),
            slices=SLICES,
        ),
        tags=["chain", "tag views"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="validate",
            **journal.arguments,
            application_name="validate",
            window=resolve_window(),
            params_as_options={
                "--scope": "scope",
                "--layer": "layers",
                "--persistence-id": "persistence_ids",
                "--slices": "slices",
            },
            option_without_params="--skip-passed",
            outlets=[journal.asset(VALIDATED)],
            links=[DataDocsLink()],
        ) >> UpdateAfterFailure(outlets=[journal.asset(VALIDATED)])
