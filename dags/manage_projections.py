"""Says how projections stand, what they would do and how far they are, and changes that by hand.

Only by hand: with the form, REST or the command line. The answer is in the task's log and in its
XCom `report`. Without names, `status`, `plan` and `releases` speak of all projections; `pause` and
`resume` need names, the others exactly one. `set-offset`, `skip`, `clear` and `drop-release` only
show what they would do, and end as skipped, unless `apply` is given. A field that the operation
does not have is refused.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemark_airflow.form import moment_param, names_param, number_param, text_param
from tidemark_airflow.operators import TidemarkOperator

LOOKING = ["status", "plan", "get-offset", "releases"]
CHANGING = ["pause", "resume", "set-offset", "skip", "clear", "drop-release"]
OPTIONS = ["persistence_id", "tag", "slice", "to", "expected", "max_pieces", "exact", "apply"]
OPTIONS += ["version", "window_start", "window_end"]
FLAGS = {"exact": "Exact (status)", "apply": "Apply (set-offset, skip, clear, drop-release)"}

with DAG(
    dag_id="manage_projections",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params={
        "operation": Param("status", type="string", enum=[*LOOKING, *CHANGING], title="Operation"),
        "projections": names_param("Projections", "all of them (status, plan, releases)"),
        "persistence_id": text_param("Persistence id (get-offset, set-offset, skip)"),
        "tag": text_param("Tag (get-offset, set-offset, skip)"),
        "slice": number_param("Slice (get-offset)", 0, 1023),
        "to": number_param("To (set-offset)", 0),
        "expected": number_param("Only if the offset is (set-offset)", 0),
        "version": number_param("Version (drop-release)", 1),
        "max_pieces": number_param("Most time buckets (plan)", 1),
        "window_start": moment_param("Window start (plan)", "Give both ends."),
        "window_end": moment_param("Window end (plan)", "Exclusive."),
        **{name: Param(False, type="boolean", title=title) for name, title in FLAGS.items()},
    },
    tags=["tidemark"],
    doc_md=__doc__,
):
    TidemarkOperator(
        task_id="manage_projections",
        application_name="project",
        command="{{ params.operation }}",
        params_as_options={f"--{name.replace('_', '-')}": name for name in OPTIONS},
        params_as_arguments=["projections"],
    )
