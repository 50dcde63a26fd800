"""Removes tag-view buckets past retention that every projection has consumed.

Starts when `project` has moved a read model, by hand with the form, or by
`airflow backfill create --dag-id purge`. It is never scheduled by time. A dry run unless the
form says otherwise: a run that an asset starts only prints its plan.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.assets import READ_MODELS
from tidemark_airflow.form import number_param, run_form
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import started_by

with DAG(
    dag_id="purge",
    schedule=started_by(READ_MODELS),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(
        dry_run=True,
        retention_days=number_param("Retention in days; empty: TIDEMARK_RETENTION_DAYS", 1),
    ),
    tags=["tidemark"],
    doc_md=__doc__,
) as dag:
    TidemarkOperator(
        task_id="purge",
        application_name="purge",
        window=resolve_window(),
        params_as_options={"--retention-days": "retention_days"},
        dry_by_default=True,
    )
