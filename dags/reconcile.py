"""Lists, checks, repairs, deletes, rebuilds or re-buckets the tag views.

Only by hand: with the form, REST or the command line. Without a window, ids and tags it works on
nothing, unless `all` is given. A dry run unless the form says otherwise: then the plan is in the
log, and the task ends as skipped.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemark_airflow.form import moment_param, names_param, run_form
from tidemark_airflow.operators import TidemarkOperator

OPERATIONS = ["tags", "check", "repair", "delete", "rebuild", "truncate", "rebucket"]
OPERATIONS += ["propagate-deletes"]


with DAG(
    dag_id="reconcile",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(
        dry_run=True,
        operation=Param("check", type="string", enum=OPERATIONS, title="Operation"),
        persistence_ids=names_param("Persistence ids", "not chosen by persistence id"),
        tags=names_param("Tags", "not chosen by tag"),
        all=Param(False, type="boolean", title="All", description="All ids and tags."),
        window_start=moment_param("First time bucket", "Empty: all of them."),
        window_end=moment_param("End of the time buckets", "Exclusive. Give both or neither."),
        to=Param(
            None,
            type=["null", "string"],
            enum=[None, "Minute", "Hour", "Day"],
            title="To bucket size",
        ),
        drop_old=Param(None, type=["null", "string"], title="Drop this old table"),
    ),
    tags=["tidemark"],
    doc_md=__doc__,
):
    TidemarkOperator(
        task_id="reconcile",
        application_name="reconcile",
        command="{{ params.operation }}",
        params_as_options={
            "--persistence-id": "persistence_ids",
            "--tag": "tags",
            "--all": "all",
            "--window-start": "window_start",
            "--window-end": "window_end",
            "--to": "to",
            "--drop-old": "drop_old",
        },
        dry_by_default=True,
    )
