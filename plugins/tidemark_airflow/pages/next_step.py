"""The pages of `next_step`: a DAG's form, filled in, which needs Airflow's own login.

A link may come from anywhere, so a page shows only fields of the DAG's form, with the form's own
texts, and only for DAGs with the buttons that open these pages. Unless the link was opened on a
page of this Airflow, the page starts with a dry run. The reader's own click starts the run by
Airflow's REST API, which checks the reader's permissions.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.definitions.param import SerializedParam
from fastapi import Depends, FastAPI, Header, HTTPException, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader

from tidemark_airflow.next_step import LONGEST_LINK, RunAgainLink, below_airflow
from tidemark_airflow.operations import operations_of

if TYPE_CHECKING:
    from airflow.serialization.definitions.dag import SerializedDAG

_may_trigger = Depends(requires_access_dag("POST", DagAccessEntity.RUN))
app = FastAPI(title="Next step", openapi_url=None, dependencies=[_may_trigger])
_templates = Environment(loader=PackageLoader("tidemark_airflow", "pages"), autoescape=True)
_OPERATION = "operation"
_DRY = {"dry_run": True, "apply": False}
"""The fields that choose a dry run, with their values for it."""
_KINDS = {"boolean": "boolean", "array": "list", "integer": "number", "number": "number"}


@dataclass(frozen=True)
class Field:
    """A field of the page.

    Attributes:
        name: its name in the form.
        title: its title in the form.
        description: its text for the user in the form.
        kind: `boolean`, `list`, `number` or `text`.
        value: its value, of its kind, or None.
    """

    name: str
    title: str
    description: str
    kind: str
    value: Any


@app.get("/{dag_id}", response_class=HTMLResponse)
def page(
    dag_id: str,
    conf: Annotated[str, Query(max_length=LONGEST_LINK)] = "{}",
    sec_fetch_site: Annotated[str | None, Header()] = None,
) -> HTMLResponse:
    """Return the form of a DAG with the values of a link.

    Raises:
        HTTPException: 400 if the values do not fit the DAG's form; 401 without a login, 403 if the
            user may not trigger the DAG; 404 if the DAG has none of Tidemark's operators.
    """
    form = _form(dag_id)
    is_own_link = sec_fetch_site == "same-origin"
    values = _values(conf, form)
    flag = _flag(dag_id, form, values)
    if flag is not None and not is_own_link:
        values[flag] = _DRY[flag]
    nonce = secrets.token_urlsafe()
    text = _templates.get_template("next_step.html").render(
        dag_id=dag_id,
        fields=[_field(name, form[name], values) for name in form if name in values],
        operation=_OPERATION,
        flag=flag,
        dry=_DRY.get(flag or ""),
        is_own_link=is_own_link,
        airflow=below_airflow(""),
        nonce=nonce,
    )
    sources = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'"
    headers = {
        "Content-Security-Policy": f"default-src 'none'; {sources}; form-action 'none';"
        " frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
    return HTMLResponse(text, headers=headers)


def _form(dag_id: str) -> dict[str, SerializedParam]:
    dag = SerializedDagModel.get_dag(dag_id)
    if dag is None or not _has_buttons(dag):
        raise HTTPException(404, f"{dag_id} is no DAG of Tidemark")
    return {name: dag.params.get_param(name) for name in dag.params}


def _has_buttons(dag: SerializedDAG) -> bool:
    """Return whether a task has the button that opens a page of the DAG."""
    key = RunAgainLink().xcom_key
    return any(link.xcom_key == key for task in dag.tasks for link in task.operator_extra_links)


def _values(conf: str, form: Mapping[str, SerializedParam]) -> dict[str, Any]:
    """Return the values of a link, and the values of the fields that every page shows."""
    try:
        given = json.loads(conf)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(400, "conf is no JSON object")
    for name, value in given.items():
        if name not in form:
            raise HTTPException(400, "conf has a field that the DAG's form does not have")
        if value is not None and SerializedParam(value, **form[name].schema).resolve() is None:
            raise HTTPException(400, f'conf has a value that "{name}" does not take')
    defaults = {name: form[name].value for name in (_OPERATION, *_DRY) if name in form}
    return {**defaults, **given}


def _flag(dag_id: str, form: Mapping[str, SerializedParam], values: dict[str, Any]) -> str | None:
    """Return the field that chooses a dry run; remove it and return None if there is no choice."""
    flag = next((name for name in _DRY if name in form), None)
    operation = operations_of(dag_id).get(values.get(_OPERATION, ""))
    if flag is None or operation is None or flag in operation.takes:
        return flag
    del values[flag]
    return None


def _field(name: str, param: SerializedParam, values: Mapping[str, Any]) -> Field:
    types = param.schema["type"]
    kinds = [_KINDS.get(kind, "text") for kind in ([types] if isinstance(types, str) else types)]
    kind = next((kind for kind in kinds if kind != "text"), "text")
    title = param.schema.get("title", name)
    return Field(name, title, param.description or "", kind, values[name])
