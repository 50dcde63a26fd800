"""The tasks of a purge: plan, approve, and apply exactly the approved plan."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.hitl import HITLUser

from tidemark_airflow.environment.connections import kafka_environment
from tidemark_airflow.form import number_param
from tidemark_airflow.journals.journal import OF_ENVIRONMENT, AirflowJournal
from tidemark_airflow.operators import TidemarkOperator

ABOVE = "TIDEMARK_PURGE_APPROVAL_ABOVE"
ABOVE_FIELD = number_param(
    "Deletes without approval", 0, description=f"Empty: {ABOVE}, which is also the highest number."
)
HOURS = "TIDEMARK_PURGE_APPROVAL_HOURS"
APPROVERS = "TIDEMARK_PURGE_APPROVERS"
PLAN = "plan"
"""The task that plans."""
APPROVE = "approve"
"""The task that waits for the approval, and returns the only plan that may be applied."""
APPROVAL = f"{{{{ ti.xcom_pull('{APPROVE}') }}}}"
"""The template of that plan. A task that a person has only marked as success has returned none."""
_SHOWN_LINES = 200
"""The most lines of a plan on the page of its approval."""


def is_applied_on_schedule(journal: AirflowJournal = OF_ENVIRONMENT) -> bool:
    """Return whether a scheduled run applies its plan, or only prints it: TIDEMARK_SCHEDULED_PURGE.

    Raises:
        ValueError: the value is neither `plan` nor `apply`; Airflow shows an import error.
    """
    chosen = journal.setting("TIDEMARK_SCHEDULED_PURGE", "plan")
    if chosen not in ("plan", "apply"):
        raise ValueError(f"TIDEMARK_SCHEDULED_PURGE is {chosen!r}; set it to plan or apply")
    return chosen == "apply"


def approval_above() -> int:
    """Return how many deletes need no approval: TIDEMARK_PURGE_APPROVAL_ABOVE, 1000.

    Raises:
        ValueError: the value is no number; Airflow shows an import error.
    """
    return _number(ABOVE, 1000)


def approval_hours() -> int:
    """Return how many hours a plan waits for its approval: TIDEMARK_PURGE_APPROVAL_HOURS, 24.

    Raises:
        ValueError: the value is no number above 0; Airflow shows an import error.
    """
    return _number(HOURS, 24, least=1)


def approvers() -> list[HITLUser] | None:
    """Return the users of TIDEMARK_PURGE_APPROVERS; None if all who may run the DAG may approve.

    Raises:
        ValueError: the value has no user; Airflow shows an import error.
    """
    value = os.environ.get(APPROVERS, "")
    names = [name.strip() for name in value.split(",")]
    if not value:
        return None
    if not all(names):
        raise ValueError(f"{APPROVERS} is {value!r}; set it to ids of users, separated by commas")
    return [HITLUser(id=name, name=name) for name in names]


def deletes_without_approval(params: Mapping[str, Any], configured: int) -> int:
    """Return how many deletes a run may make without approval.

    The form (`params`) may only lower the `configured` number.

    Raises:
        AirflowFailException: the form has a higher number.
    """
    chosen = params.get("approval_above")
    if chosen is None:
        return configured
    if chosen > configured:
        raise AirflowFailException(
            f'"{ABOVE_FIELD.schema["title"]}" is {chosen}, which is more than {ABOVE} allows'
            f" ({configured}); leave the field empty, or give a lower number"
        )
    return int(chosen)


def _number(variable: str, default: int, least: int = 0) -> int:
    value = os.environ.get(variable, str(default))
    if not value.isdecimal() or int(value) < least:
        raise ValueError(f"{variable} is {value!r}; set it to a whole number from {least} on")
    return int(value)


class PlanOperator(TidemarkOperator):
    """Plans, and ends as success only if the run shall apply a plan that changes something.

    Otherwise it ends as skipped, and so do the other tasks.

    Args:
        above: the highest number of deletes without approval.
    """

    def __init__(self, *, above: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.above = above

    def _params(self, params: Mapping[str, Any], run_type: str) -> Mapping[str, Any]:
        deletes_without_approval(params, self.above)
        self._is_applied = not super()._params(params, run_type)["dry_run"]
        return {**params, "dry_run": True}

    def _update_outlets(self, context: Context, report: Mapping[str, Any]) -> None:
        if not self._is_applied:
            super()._update_outlets(context, report)
        if not report["details"]["can_be_applied"]:
            raise AirflowSkipException("nothing is to be deleted")
        # The run itself applies the plan; a button for another run would apply it twice.
        self.next_step = None


class PurgeApproval(ApprovalOperator):
    """Waits for the approval of a plan with many deletes; a rejection fails the run.

    A plan with at most `above` deletes needs no approval. Without an answer in time the task fails,
    so that no run waits forever. Returns the plan that may be applied.
    """

    def __init__(self, *, above: int, hours: int, **kwargs: Any) -> None:
        """Bind to the highest number of deletes without approval, and to the hours to wait."""
        super().__init__(
            subject="Approve what purge deletes?",
            response_timeout=timedelta(hours=hours),
            fail_on_reject=True,
            **kwargs,
        )
        self.above = above

    def execute(self, context: Context) -> Any:
        """Wait for an answer if the plan has more deletes than are allowed without approval."""
        report = context["ti"].xcom_pull(task_ids=PLAN, key="report")
        deletes = report["details"]["tombstones"]
        above = deletes_without_approval(context["params"], self.above)
        if deletes <= above:
            self.log.info("%d deletes need no approval, which is for more than %d", deletes, above)
            return report["details"]["approval"]
        self.body = approval_text(report)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the plan if it was approved."""
        super().execute_complete(context, event)
        return context["ti"].xcom_pull(task_ids=PLAN, key="report")["details"]["approval"]


def approval_text(report: Mapping[str, Any]) -> str:
    """Return the plan for the page of its approval, in Markdown.

    The lines contain persistence ids, which may contain Markdown: they are a code block, whose
    fence is longer than any sequence of backticks in the lines.
    """
    lines = report["lines"]
    hidden = len(lines) - _SHOWN_LINES
    shown = [
        *lines[:_SHOWN_LINES],
        *([f"... {hidden} lines more in the log"] if hidden > 0 else []),
    ]
    numbers = [
        f"* **{name}** ({part['target']}): "
        + ", ".join(
            f"{number:,} {kind.removesuffix('_deleted')}"
            for kind, number in part["tombstones"].items()
        )
        for name, part in report["details"]["policies"].items()
    ]
    heading = f"{report['details']['tombstones']:,} deletes, by kind:"
    backticks = re.findall("`+", "\n".join(shown))
    fence = "`" * max([3, *(len(sequence) + 1 for sequence in backticks)])
    return "\n".join([heading, "", *numbers, "", fence, *shown, fence])


def plan_approve_apply(
    window: Any,
    *,
    params_as_options: dict[str, str],
    journal: AirflowJournal = OF_ENVIRONMENT,
) -> None:
    """Add the three tasks of a purge to the DAG.

    `window` is the result of `resolve_window_if_given`; for `params_as_options` see
    `TidemarkOperator`.
    """
    shared: dict[str, Any] = {
        "application_name": "purge",
        "window": window,
        "params_as_options": params_as_options,
        "dry_by_default": True,
        # For expired journals of kafka-journal.
        "more_connections": {journal.kafka_connection: kafka_environment},
        "reads_kafka": True,
        **journal.arguments,
    }
    above = approval_above()
    plan = PlanOperator(
        task_id=PLAN, above=above, applies_on_schedule=is_applied_on_schedule(journal), **shared
    )
    approve = PurgeApproval(
        task_id=APPROVE, above=above, hours=approval_hours(), assigned_users=approvers()
    )
    purge = TidemarkOperator(
        task_id="purge", options={"--approved": APPROVAL}, always_applies=True, **shared
    )
    plan >> approve >> purge
