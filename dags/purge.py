"""Removes tag-view buckets past retention that every projection has consumed.

Starts when `project` has moved a read model, by hand with the form, or by
`airflow backfill create --dag-id purge`. It is never scheduled by time. It looks at all that is
past its retention; with a window in the form, and in a backfill, at that window. By hand it is a
dry run unless the form says otherwise; a run that an asset starts applies its plan if
TIDEMARK_SCHEDULED_PURGE is `apply`, else it only prints it (`plan`, the default).
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.assets import READ_MODELS
from tidemark_airflow.form import FLAG_BELOW_RETENTION, names_param, number_param, run_form
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.purging import is_applied_on_schedule
from tidemark_airflow.tasks import resolve_window_if_given
from tidemark_airflow.timetables import started_by

with DAG(
    dag_id="purge",
    description="Remove tag-view buckets past retention that every projection has consumed",
    schedule=started_by(READ_MODELS),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(
        dry_run=True,
        empty="all that is past its retention",
        retention_days=number_param("Retention in days; empty: TIDEMARK_RETENTION_DAYS", 1),
        below_retention=FLAG_BELOW_RETENTION,
        give_up=names_param("Give up projections", "none; only one that ran and has no file"),
    ),
    tags=["tidemark", "chain", "tag views"],
    doc_md=__doc__,
    **defaults(),
) as dag:
    TidemarkOperator(
        task_id="purge",
        application_name="purge",
        window=resolve_window_if_given(),
        params_as_options={
            "--retention-days": "retention_days",
            "--below-retention": "below_retention",
            "--give-up": "give_up",
        },
        dry_by_default=True,
        applies_on_schedule=is_applied_on_schedule(),
    )
