"""The buttons `Next step` and `Run again` of a task, each of which opens a form filled in.

A link cannot fill in Airflow's own form (3.3), so the links open `pages.next_step`, which shows the
fields and starts the run by Airflow's REST API in the name of the reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from tidemark_airflow.journals.journal import DEFAULT, named
from tidemark_airflow.operations import operations_of

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from starlette.types import Receive, Scope, Send

PREFIX = "/tidemark/next-step"
"""The path of the pages, below that of Airflow itself."""
LONGEST_LINK = 6000
"""The characters of a path that every browser and proxy accepts; longer links have no button."""
_REMEDY = "reconcile"
"""The application that can be the remedy of errors."""
_LISTS = {
    "reconcile": {"persistence-id": "persistence_ids", "tag": "tags"},
    "project": {"projection": "projections"},
    "purge": {"policy": "policies"},
    "replicate": {"topic": "topics", "key": "keys"},
}
"""The lists of the forms of each application by their options; other fields have their names."""
_OF_COMMANDS = {
    "project": "manage_projections",
    "replicate": "manage_replication",
    "run-event-groups": "manage_event_groups",
}
"""The DAGs whose operations are the commands of an application, if its DAG has none."""
_OF_RUNS = {"run-event-groups": "event_groups"}
"""The DAGs that do not have the name of their application."""
_ARGUMENTS = {"project": "projections", "run-event-groups": "groups"}
"""The fields with the arguments of the commands."""


@dataclass(frozen=True)
class Step:
    """A run that a person may start: its DAG, and the values of the form's fields by name."""

    dag_id: str
    fields: Mapping[str, Any]

    def url(self) -> str:
        """Return the path of the page with the filled-in form."""
        query = urlencode({"conf": json.dumps(self.fields)}, quote_via=quote)
        return f"{below_airflow(PREFIX)}/{self.dag_id}?{query}"

    def __str__(self) -> str:
        """Return the DAG and the fields as a clause for people."""
        fields = ", ".join(
            f"{name.replace('_', ' ')} {_shown(self.fields[name])}" for name in self.fields
        )
        return (
            f"trigger the DAG {self.dag_id} with {fields}" if fields else f"trigger {self.dag_id}"
        )


def below_airflow(path: str) -> str:
    """Return a path of a plugin for the browser, below the path of Airflow."""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path
    return f"{base.rstrip('/')}{path}"


def remedy_of(report: Mapping[str, Any] | None, journal: str = DEFAULT) -> Step | None:
    """Return the remedy of a failure in an application's report; None if it has no remedy.

    A remedy that writes starts as a dry run, the default of its form.
    """
    failure = (report or {}).get("failure") or {}
    remedy = failure.get("remedy")
    if not remedy or remedy["application"] != _REMEDY:
        return None
    return step_of(remedy, journal)


def step_of(remedy: Mapping[str, Any], journal: str = DEFAULT) -> Step:
    """Return the run of a DAG that a remedy describes: `application`, `command` and `options`.

    A field that only a person can fill in, such as a reason, is empty.
    """
    application, command = remedy["application"], remedy["command"]
    fields: dict[str, Any] = {"operation": command} if command else {}
    lists = _LISTS.get(application, {})
    for option, value in remedy["options"].items():
        name = lists.get(option, option.replace("-", "_"))
        fields[name] = [value] if option in lists and not isinstance(value, list) else value
    if remedy.get("arguments"):
        fields[_ARGUMENTS[application]] = [*remedy["arguments"]]
    base = (_OF_COMMANDS if command else _OF_RUNS).get(application, application.replace("-", "_"))
    operation = operations_of(base).get(command)
    needs = () if operation is None else operation.needs
    return Step(named(base, journal), fields | {name: None for name in needs if name not in fields})


def applied(dag_id: str, given: Mapping[str, Any], report: Mapping[str, Any]) -> Step | None:
    """Return the run that applies the plan of a dry run; None if it would change nothing.

    `given` are the fields that differ from the form's defaults.
    """
    can_be_applied = report.get("details", {}).get("can_be_applied")
    if report["state"] != "planned" or not (report["pieces"]["planned"] or can_be_applied):
        return None
    is_dry_by_default = dag_id.partition(".")[0] == "manage_projections"
    flag = {"apply": True} if is_dry_by_default else {"dry_run": False}
    return Step(dag_id, {**given, **flag})


class NextStepLink(BaseOperatorLink):
    """The button `Next step`: the remedy of a failure, or the run that applies a plan."""

    name = "Next step"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path; empty without a next step, and then there is no button."""
        return _link(getattr(operator, "next_step", None))


class RunAgainLink(BaseOperatorLink):
    """The button `Run again` of a task that failed: the same run with the same window."""

    name = "Run again"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path; empty if the task did not fail."""
        return _link(getattr(operator, "run_again", None))


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the pages: an ASGI application, which is loaded at the first request."""
    # Every process of Airflow loads this file; only the server needs what the pages import.
    from tidemark_airflow.pages.next_step import app

    await app(scope, receive, send)


def _link(step: Step | None) -> str:
    url = "" if step is None else step.url()
    return url if len(url) <= LONGEST_LINK else ""


def _shown(value: Any) -> str:
    if value is None:
        return "to be filled in"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
