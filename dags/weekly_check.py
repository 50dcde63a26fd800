"""Checks everything again each week, to find later damage in time buckets that have passed.

`validate --scope all` compares all passed time buckets once more, and `reconcile check` compares
messages with tag views, progress and scanning. Starts each Sunday, unless
TIDEMARK_WEEKLY_CHECK=off, or by hand with the form. A task with findings fails, and its button
`Next step` opens the form of the repair.
"""

from __future__ import annotations

from tidemark_airflow.data_docs import DataDocsLink
from tidemark_airflow.form import run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import weekly

FORM = run_form()
# A check changes no journal, so it has no dry run.
del FORM["dry_run"]

for journal in journals():
    with journal_dag(
        "weekly_check",
        journal,
        description="Check all time buckets and tag views again, also those that have passed",
        schedule=weekly(journal),
        params=FORM,
        tags=["tag views"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="validate",
            **journal.arguments,
            application_name="validate",
            window=resolve_window(),
            options={"--scope": "all"},
            links=[DataDocsLink()],
        )
        if journal.has_tag_views:
            TidemarkOperator(
                task_id="reconcile",
                **journal.arguments,
                application_name="reconcile",
                command="check",
                dry_by_default=True,
            )
