"""Lists, checks, repairs, deletes, rebuilds or re-buckets the tag views, or settles findings.

Starts only by hand: with the form, REST or the command line. `check` and `repair` cover everything
unless the form restricts them; `delete`, `rebuild` and `propagate-deletes` need a scope, or `All`.
By default operations that write are dry runs: the plan is in the log, the task ends as skipped, and
its button `Next step` opens the form that applies the plan.
"""

from __future__ import annotations

from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operations import RECONCILE, RECONCILE_FORM
from tidemark_airflow.operators import TidemarkOperator

OPTIONS = ["all", "from_findings", "window_start", "window_end", "to", "table", "drop_old"]
OPTIONS += ["recheck", "search_all", "allow_unsearchable", "limit", "check", "number", "reason"]

for journal in journals():
    with journal_dag(
        "reconcile",
        journal,
        description="Check and repair the tag views by hand; delete, rebuild or re-bucket them",
        schedule=None,
        params=RECONCILE_FORM,
        tags=["by hand", "tag views"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="reconcile",
            **journal.arguments,
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
