"""Says how projections stand, pauses or resumes them.

Only by hand: with the form, REST or the command line. The answer is in the task's log and in its
XCom `report`. Without names, `status` speaks of all projections; `pause` and `resume` need names.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemark_airflow.form import names_param
from tidemark_airflow.operators import TidemarkOperator

with DAG(
    dag_id="manage_projections",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params={
        "operation": Param(
            "status", type="string", enum=["status", "pause", "resume"], title="Operation"
        ),
        "projections": names_param("Projections"),
    },
    tags=["tidemark"],
    doc_md=__doc__,
):
    TidemarkOperator(
        task_id="manage_projections",
        application_name="project",
        command="{{ params.operation }}",
        params_as_arguments=["projections"],
    )
