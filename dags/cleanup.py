"""Deletes events and snapshots like Pekko's Cleanup, and restores saved rows of it and of purge.

Starts only by hand: with the form, REST or the command line. The log shows which rows stay, and who
needs them. By default every operation is a dry run: the plan is in the log, the task ends as
skipped, and its button `Next step` opens the form that applies the plan. The plan says if actors
must be stopped.
"""

from __future__ import annotations

from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals_with_tag_views
from tidemark_airflow.operations import CLEANUP, CLEANUP_FORM
from tidemark_airflow.operators import TidemarkOperator

OPTIONS = [
    "all",
    "keep",
    "keep_after",
    "events",
    "to",
    "never_use_again",
    "save_to",
    "keep_write_times",
]

for journal in journals_with_tag_views():
    with journal_dag(
        "cleanup",
        journal,
        description="Delete events and snapshots by hand, and restore them",
        schedule=None,
        params=CLEANUP_FORM,
        tags=["by hand", "events", "snapshots"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="cleanup",
            **journal.arguments,
            application_name="cleanup",
            command="{{ params.operation }}",
            params_as_options={
                "--persistence-id": "persistence_ids",
                "--entity-type": "entity_types",
                "--from": "saved_in",
                "--run": "of_run",
                **{f"--{name.replace('_', '-')}": name for name in OPTIONS},
            },
            dry_by_default=True,
            operations=CLEANUP,
        )
