"""Shows the state of event groups; retries, cancels, settles or plays back groups; releases tables.

Starts only by hand: with the form, REST or the command line. `status` shows the open groups of a
stream, or the events of one group. By default operations that write are dry runs: the plan is in
the log, the task ends as skipped, and its button `Next step` opens the form that applies the plan.
Groups are submitted with `submit_event_groups`, whose dry run also draws their events.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.operations import MANAGE_EVENT_GROUPS, MANAGE_EVENT_GROUPS_FORM
from tidemark_airflow.operators import TidemarkOperator

with DAG(
    dag_id="manage_event_groups",
    description="Status, retry, cancel, settle, release and playback of event groups, by hand",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=MANAGE_EVENT_GROUPS_FORM,
    tags=["tidemark", "by hand", "event groups"],
    doc_md=__doc__,
    **defaults(),
):
    TidemarkOperator(
        task_id="manage_event_groups",
        application_name="run_event_groups",
        command="{{ params.operation }}",
        params_as_options={
            "--stream": "stream",
            "--as": "settled_as",
            "--into": "into",
            "--group": "played_group",
            "--from": "first",
            "--to": "last",
        },
        params_as_arguments=["groups", "tables"],
        dry_by_default=True,
        operations=MANAGE_EVENT_GROUPS,
    )
