"""Numbers the window's tagged events and writes `tag_views`, with its progress and scanning tables.

Starts by schedule (one run per date bucket), by hand with the form, or by
`airflow backfill create --dag-id tag_write`. After it has written time buckets, `validate` starts.
A journal in PostgreSQL has no tag views, so it has no such DAG.
"""

from __future__ import annotations

from tidemark_airflow.assets import TAG_VIEWS, UpdateAfterFailure
from tidemark_airflow.form import FORCE, STRATEGY, run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals_with_tag_views
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import THREE_DAGS, by_date_bucket

for journal in journals_with_tag_views():
    with journal_dag(
        "tag_write",
        journal,
        description="Number the tagged events of the window and write their rows in the tag views",
        schedule=by_date_bucket(THREE_DAGS, journal),
        params=run_form(force=FORCE, strategy=STRATEGY),
        tags=["chain", "tag views"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="tag_write",
            **journal.arguments,
            application_name="tag_write",
            window=resolve_window(),
            params_as_options={"--strategy": "strategy"},
            outlets=[journal.asset(TAG_VIEWS)],
        ) >> UpdateAfterFailure(outlets=[journal.asset(TAG_VIEWS)])
