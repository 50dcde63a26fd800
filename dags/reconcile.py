"""Lists, checks, repairs, deletes, rebuilds or re-buckets the tag views, or settles findings.

Starts only by hand: with the form, REST or the command line. `check` and `repair` cover everything
unless the form restricts them; `delete`, `rebuild` and `propagate-deletes` need a scope, or `All`.
By default operations that write are dry runs: the plan is in the log, the task ends as skipped, and
its button `Next step` opens the form that applies the plan.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.operations import RECONCILE, RECONCILE_FORM
from tidemark_airflow.operators import TidemarkOperator

OPTIONS = ["all", "from_findings", "window_start", "window_end", "to", "table", "drop_old"]
OPTIONS += ["recheck", "search_all", "allow_unsearchable", "limit", "check", "number", "reason"]

with DAG(
    dag_id="reconcile",
    description="Check and repair the tag views by hand; delete, rebuild or re-bucket them",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=RECONCILE_FORM,
    tags=["tidemark", "by hand", "tag views"],
    doc_md=__doc__,
    **defaults(),
):
    TidemarkOperator(
        task_id="reconcile",
        application_name="reconcile",
        command="{{ params.operation }}",
        params_as_options={
            "--persistence-id": "persistence_ids",
            "--tag": "tags",
            **{f"--{name.replace('_', '-')}": name for name in OPTIONS},
        },
        dry_by_default=True,
        operations=RECONCILE,
    )
