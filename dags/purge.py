"""Deletes data that the policies of `include/retention.yaml` allow to delete and nobody needs.

Starts when `project` has updated a read model, by hand with the form, or by
`airflow backfill create --dag-id purge`. It is never scheduled by time. It covers all data past its
retention, or the window of the form or of a backfill. By hand it is a dry run by default; a run
that an asset starts applies its plan if TIDEMARK_SCHEDULED_PURGE is `apply`, and otherwise only
prints it (`plan`, the default).

A run that applies a plan first makes it; a plan with more deletes than
TIDEMARK_PURGE_APPROVAL_ABOVE (1000) waits in "Required actions" for at most
TIDEMARK_PURGE_APPROVAL_HOURS (24). All users who may run the DAG may approve, or only the users of
TIDEMARK_PURGE_APPROVERS. A rejection fails the run, and so does no answer. Exactly the approved
plan is applied: if the data has changed since, nothing is deleted.
"""

from __future__ import annotations

from tidemark_airflow.assets import READ_MODELS
from tidemark_airflow.form import FLAG_BELOW_RETENTION, SAVE_TO, names_param, number_param, run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.purging import ABOVE_FIELD, plan_approve_apply
from tidemark_airflow.tasks import resolve_window_if_given
from tidemark_airflow.timetables import started_by

for journal in journals():
    with journal_dag(
        "purge",
        journal,
        description="Delete rows by policy: past their retention, and needed by nobody",
        schedule=started_by(READ_MODELS, journal=journal),
        params=run_form(
            dry_run=True,
            empty="all that is past its retention",
            retention_days=number_param("Retention in days; empty: TIDEMARK_RETENTION_DAYS", 1),
            below_retention=FLAG_BELOW_RETENTION,
            give_up=names_param(
                "Give up projections", "none; for projections that ran and have no file"
            ),
            policies=names_param("Policies", "all policies in the file"),
            save_to=SAVE_TO,
            approval_above=ABOVE_FIELD,
        ),
        tags=["chain", "tag views"],
        doc_md=__doc__,
    ) as dag:
        plan_approve_apply(
            resolve_window_if_given(),
            journal=journal,
            params_as_options={
                "--retention-days": "retention_days",
                "--below-retention": "below_retention",
                "--give-up": "give_up",
                "--policy": "policies",
                "--save-to": "save_to",
            },
        )
