"""Shows the state, the plans and the offsets of projections, and changes them by hand.

Only by hand: with the form, REST or the command line. The answer is in the task's log and in its
XCom `report`. Without names, `status`, `plan`, `releases` and `quarantine list` show all
projections; `pause` and `resume` need names, `diff` needs two versions of one projection, such as
`totals@1` and `totals@2`, and the others exactly one name. `set-offset`, `skip`, `clear`,
`promote`, `drop-release`, `quarantine retry` and `quarantine discard` only show what they would do,
and end as skipped, unless `Apply` is given; the button `Next step` opens the form that does it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.operations import MANAGE_FORM, MANAGE_PROJECTIONS
from tidemark_airflow.operators import TidemarkOperator

OPTIONS = ["persistence_id", "tag", "slice", "to", "expected", "max_pieces", "exact", "verify"]
OPTIONS += ["apply", "version", "window_start", "window_end", "all", "force", "ranges"]
OPTIONS += ["gaps", "before", "sequence_nr", "limit", "reason"]

with DAG(
    dag_id="manage_projections",
    description="Status, plan, pause, offsets and releases of projections, by hand",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=MANAGE_FORM,
    tags=["tidemark", "by hand", "read models"],
    doc_md=__doc__,
    **defaults(),
):
    TidemarkOperator(
        task_id="manage_projections",
        application_name="project",
        command="{{ params.operation }}",
        params_as_options={f"--{name.replace('_', '-')}": name for name in OPTIONS},
        params_as_arguments=["projections"],
        operations=MANAGE_PROJECTIONS,
    )
