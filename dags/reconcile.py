"""Lists, checks, repairs, deletes, rebuilds or re-buckets the tag views, or settles an event.

Only by hand: with the form, REST or the command line. Without a window, ids and tags it works on
nothing, unless `all` is given. A dry run unless the form says otherwise: then the plan is in the
log, and the task ends as skipped.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemark_airflow.form import moment_param, names_param, number_param, run_form, text_param
from tidemark_airflow.operators import TidemarkOperator

SIZES = [None, "Minute", "Hour", "Day"]
OPERATIONS = ["tags", "check", "repair", "delete", "rebuild", "truncate", "rebucket"]
OPERATIONS += ["propagate-deletes", "settle"]
SINGLE = ["all", "window_start", "window_end", "to", "table", "drop_old", "thorough"]
SINGLE += ["beyond_search_limit", "limit", "sequence_nr", "reason"]


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
        to=Param(None, type=["null", "string"], enum=SIZES, title="To bucket size"),
        table=text_param("Name of the new table"),
        drop_old=text_param("Drop this old table"),
        thorough=Param(False, type="boolean", title="Thorough"),
        beyond_search_limit=Param(False, type="boolean", title="Beyond the search limit"),
        limit=number_param("Show at most this many tags", 1),
        sequence_nr=number_param("Sequence nr of the event to settle", 1),
        reason=text_param("Why nobody needs the event to settle"),
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
            **{f"--{name.replace('_', '-')}": name for name in SINGLE},
        },
        dry_by_default=True,
    )
