"""Shows the state, plans and offsets of projections, and changes them by hand.

Starts only by hand: with the form, REST or the command line. The answer is in the task's log and in
its XCom `report`. Without names, `status`, `plan`, `releases` and `quarantine list` cover all
projections; `pause` and `resume` need names, `diff` needs two versions of one projection, such as
`totals@1` and `totals@2`, and the other operations exactly one name. Without `Apply`, `set-offset`,
`skip`, `clear`, `promote`, `drop-release`, `take-over`, `hand-over`, `quarantine retry` and
`quarantine discard` only show their plan and end as skipped; the button `Next step` opens the form
that applies the plan.
"""

from __future__ import annotations

from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operations import MANAGE_FORM, MANAGE_PROJECTIONS
from tidemark_airflow.operators import TidemarkOperator

OPTIONS = ["persistence_id", "tag", "slice", "to", "expected", "max_pieces", "exact", "verify"]
OPTIONS += ["apply", "version", "window_start", "window_end", "all", "force", "ranges"]
OPTIONS += ["gaps", "before", "sequence_nr", "limit", "reason", "other", "time_window"]

for journal in journals():
    with journal_dag(
        "manage_projections",
        journal,
        description="Status, plan, pause, offsets and releases of projections, by hand",
        schedule=None,
        params=MANAGE_FORM,
        tags=["by hand", "read models"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="manage_projections",
            **journal.arguments,
            application_name="project",
            command="{{ params.operation }}",
            params_as_options={f"--{name.replace('_', '-')}": name for name in OPTIONS},
            params_as_arguments=["projections"],
            operations=MANAGE_PROJECTIONS,
        )
