"""The pages of `next_step`: a DAG's form, filled in, behind Airflow's own login.

A link may come from anywhere, so a page only shows what it would do. The run is started by the
reader's own click, by Airflow's REST API, which checks what the reader may do.
"""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader

from tidemark_airflow.next_step import LONGEST_LINK, below_airflow

_may_trigger = Depends(requires_access_dag("POST", DagAccessEntity.RUN))
app = FastAPI(title="Next step", openapi_url=None, dependencies=[_may_trigger])
_templates = Environment(loader=PackageLoader("tidemark_airflow", "pages"), autoescape=True)


@app.get("/{dag_id}", response_class=HTMLResponse)
async def page(
    dag_id: str, conf: Annotated[str, Query(max_length=LONGEST_LINK)] = "{}"
) -> HTMLResponse:
    """Return the form of a DAG with the values of a link.

    Raises:
        HTTPException: 400 if the values are no JSON object; 401 without a login, 403 if the user
            may not trigger the DAG.
    """
    fields = _fields(conf)
    nonce = secrets.token_urlsafe()
    text = _templates.get_template("next_step.html").render(
        dag_id=dag_id, fields=fields, airflow=below_airflow(""), nonce=nonce
    )
    policy = f"default-src 'self'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
    headers = {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
    return HTMLResponse(text, headers=headers)


def _fields(conf: str) -> dict[str, Any]:
    try:
        fields = json.loads(conf)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise HTTPException(400, "conf is no JSON object")
    return fields
