"""The tasks of a run of the chain, and those that divide an order into such runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Context, get_current_context, task, task_group

from tidemark_airflow.assets import ALIAS, READ_MODELS, TAG_VIEWS, VALIDATED, UpdateAfterFailure
from tidemark_airflow.data_docs import DataDocsLink
from tidemark_airflow.journals.journal import AirflowJournal
from tidemark_airflow.operators import ChainStep, TidemarkOperator
from tidemark_airflow.window import iso

PREVIEW = "preview"
_OUTLETS: Mapping[str, list[Any]] = {
    "tag-write": [TAG_VIEWS],
    "validate": [VALIDATED],
    "project": [READ_MODELS, ALIAS],
}
_LINKS = {"validate": [DataDocsLink()]}
_PARAMS_AS_OPTIONS = {"--projection": "projections"}
DAYS_AT_A_TIME = {"minute": 1, "hour": 7, "day": 31}
"""The default days of a run of an order, by bucket size.

A run plans and checks at most TIDEMARK_CATCH_UP_BUCKETS time buckets, and the journal is read anew
in each run.
"""


class PreviewOperator(TidemarkOperator):
    """Runs the application as a dry run, and succeeds whether or not there is anything to do."""

    def _params(self, params: Mapping[str, Any], run_type: str) -> Mapping[str, Any]:
        return {**super()._params(params, run_type), "dry_run": True}

    def _update_outlets(self, context: Context, report: Mapping[str, Any]) -> None:
        for line in report["lines"]:
            self.log.info("%s", line)
        if not context["params"]["dry_run"]:
            # The run itself executes the plan.
            self.next_step = None


def preview(window: Any, journal: AirflowJournal) -> PreviewOperator:
    """Return the task that shows what the chain would process in a window."""
    return PreviewOperator(
        task_id=PREVIEW,
        **journal.arguments,
        application_name="chain",
        window=window,
        params_as_options=_PARAMS_AS_OPTIONS,
        # It only reads, so it does not wait for the applications that write.
        pool="default_pool",
    )


@task
def parts(window: Any, default_days: int) -> list[dict[str, str]]:
    """Return the windows of the runs of an order, the oldest first; none if there is no work."""
    context = get_current_context()
    params, ti = context["params"], context["ti"]
    report = ti.xcom_pull(task_ids=PREVIEW, key="report")
    if params["dry_run"] or report["state"] != "planned":
        return []
    return divided(window, params["days_at_a_time"] or default_days)


def divided(window: Mapping[str, str], days: int) -> list[dict[str, str]]:
    """Divide a window of `resolve_window` into windows of so many days; the last is the rest."""
    start, end = (datetime.fromisoformat(window[bound]) for bound in ("start", "end"))
    length = timedelta(days=days)
    starts = [start + length * number for number in range(-((start - end) // length))]
    return [
        {**window, "start": iso(first), "end": iso(min(first + length, end))} for first in starts
    ]


def run_chain(window: Any, journal: AirflowJournal, **kwargs: Any) -> None:
    """Add a run of the chain over a window, with a task for each step; `kwargs` as of a task."""
    chain = TidemarkOperator(
        task_id="chain",
        **journal.arguments,
        application_name="chain",
        window=window,
        params_as_options=_PARAMS_AS_OPTIONS,
        # A second try would hide from the steps what the first one has completed.
        retries=0,
        **kwargs,
    )
    for name, assets in _OUTLETS.items():
        if TAG_VIEWS in assets and not journal.has_tag_views:
            continue
        outlets = [journal.asset(asset) for asset in assets]
        task_id = name.replace("-", "_")
        step = ChainStep(
            task_id=task_id,
            **journal.arguments,
            application_name=name,
            outlets=outlets,
            links=_LINKS.get(name, ()),
        )
        chain >> step >> UpdateAfterFailure(task_id=f"{task_id}_after_failure", outlets=outlets)


def run_each(windows: Any, journal: AirflowJournal) -> None:
    """Add a run of the chain for each of the windows, one at a time."""

    @task_group
    def part(window: Any) -> None:
        """Run the chain over a part of the range."""
        # The pool of the journal has one slot, and Airflow fills it in the order of the windows.
        run_chain(window, journal, map_index_template="{{ task.window['start'] }}")

    part.expand(window=windows)
