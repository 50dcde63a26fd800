"""Numbers the window's tagged events and writes `tag_views`, with its progress and scanning tables.

Starts by schedule (one run per date bucket), by hand with the form, or by
`airflow backfill create --dag-id tag_write`. After it has written time buckets, `validate` starts.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.assets import TAG_VIEWS, UpdateAfterFailure
from tidemark_airflow.form import FORCE, STRATEGY, run_form
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import THREE_DAGS, by_date_bucket

with DAG(
    dag_id="tag_write",
    description="Number the tagged events of the window and write their rows in the tag views",
    schedule=by_date_bucket(THREE_DAGS),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(force=FORCE, strategy=STRATEGY),
    tags=["tidemark", "chain", "tag views"],
    doc_md=__doc__,
    **defaults(),
):
    TidemarkOperator(
        task_id="tag_write",
        application_name="tag_write",
        window=resolve_window(),
        params_as_options={"--strategy": "strategy"},
        outlets=[TAG_VIEWS],
    ) >> UpdateAfterFailure(outlets=[TAG_VIEWS])
