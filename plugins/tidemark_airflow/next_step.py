"""The buttons that lead on from a task: `Next step` and `Run again`, each to a form filled in.

Airflow's own form cannot be filled in by a link (3.3), so the links lead to `pages.next_step`,
which shows the fields and starts the run by Airflow's REST API in the name of the reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from tidemark_airflow.operations import RECONCILE

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from starlette.types import Receive, Scope, Send

PREFIX = "/tidemark/next-step"
"""The path of the pages, below the one that Airflow itself is at."""
LONGEST_LINK = 6000
"""Characters of a path that every browser and proxy takes; above that there is no button."""
_REMEDY = "reconcile"
"""The application, and its DAG, that errors name as their remedy."""
_FIELDS = {"persistence-id": "persistence_ids", "tag": "tags"}
"""Fields of the forms that are not named as the option is."""
_LISTS = frozenset(_FIELDS.values())


@dataclass(frozen=True)
class Step:
    """A run that somebody may start.

    Attributes:
        dag_id: its DAG.
        fields: the values of its form's fields, by name.
    """

    dag_id: str
    fields: Mapping[str, Any]

    def url(self) -> str:
        """Return the path of the page with the form, filled in."""
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
    """Return a path of a plugin as the browser needs it: below the one that Airflow is at."""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path
    return f"{base.rstrip('/')}{path}"


def remedy_of(report: Mapping[str, Any] | None) -> Step | None:
    """Return the run that puts a failure right, as the application's report names it.

    A remedy that writes is planned first, as its form does by default.
    """
    failure = (report or {}).get("failure") or {}
    remedy = failure.get("remedy")
    if not remedy or remedy["application"] != _REMEDY:
        return None
    fields: dict[str, Any] = {"operation": remedy["command"]} if remedy["command"] else {}
    for option, value in remedy["options"].items():
        name = _FIELDS.get(option, option.replace("-", "_"))
        fields[name] = [value] if name in _LISTS and not isinstance(value, list) else value
    if remedy["command"] in RECONCILE:
        # What only a person knows, such as a reason, is an empty field.
        fields |= {name: None for name in RECONCILE[remedy["command"]].needs if name not in fields}
    return Step(_REMEDY, fields)


def applied(dag_id: str, given: Mapping[str, Any], report: Mapping[str, Any]) -> Step | None:
    """Return the run that does what a dry run has planned; None if it would change nothing.

    Args:
        dag_id: the DAG of the dry run.
        given: the fields that differ from the form's defaults.
        report: the report of the dry run.
    """
    can_be_applied = report.get("details", {}).get("can_be_applied")
    if report["state"] != "planned" or not (report["pieces"]["planned"] or can_be_applied):
        return None
    flag = {"apply": True} if dag_id == "manage_projections" else {"dry_run": False}
    return Step(dag_id, {**given, **flag})


class NextStepLink(BaseOperatorLink):
    """The button `Next step`: what puts a failure right, or does what was only planned."""

    name = "Next step"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path; nothing without a next step, and then there is no button."""
        return _link(getattr(operator, "next_step", None))


class RunAgainLink(BaseOperatorLink):
    """The button `Run again` of a task that failed: the same run with the same window."""

    name = "Run again"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path; nothing if the task did not fail."""
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
