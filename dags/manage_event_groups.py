"""Shows the state of event groups; retries, cancels, settles or plays back groups; releases tables.

Starts only by hand: with the form, REST or the command line. `status` shows the open groups of a
stream, or the events of one group. By default operations that write are dry runs: the plan is in
the log, the task ends as skipped, and its button `Next step` opens the form that applies the plan.
Groups are submitted with `submit_event_groups`, whose dry run also draws their events.
"""

from __future__ import annotations

from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operations import MANAGE_EVENT_GROUPS, MANAGE_EVENT_GROUPS_FORM
from tidemark_airflow.operators import TidemarkOperator

for journal in journals():
    with journal_dag(
        "manage_event_groups",
        journal,
        description="Status, retry, cancel, settle, release and playback of event groups, by hand",
        schedule=None,
        params=MANAGE_EVENT_GROUPS_FORM,
        tags=["by hand", "event groups"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="manage_event_groups",
            **journal.arguments,
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
