"""The pages of Data Docs, which need Airflow's own login."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as NoFile

from tidemark_airflow.data_docs import directory

DAG_ID = "validate"
_HEADERS = {
    # The pages have no scripts; an injected script could do whatever the reader may do in Airflow.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self';"
    " form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
}

# Users who may read the logs of `validate` may read its pages, which say the same. There is no
# description of this API, because it would need no login.
_may_read = Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS, DAG_ID))
app = FastAPI(title="Data Docs", openapi_url=None, dependencies=[_may_read])
# `validate` makes the directory at its first run.
_files = StaticFiles(directory=directory(), check_dir=False, html=True)


@app.get("/{path:path}")
async def page(path: str, request: Request) -> Response:
    """Return one file of Data Docs.

    Raises:
        HTTPException: 404 if there is no such file in the directory; 401 without a login, 403
            without the permission.
    """
    try:
        response = await _files.get_response(path, request.scope)
    except NoFile as error:
        text = f"Data Docs have no page {path!r}; {DAG_ID} builds them when it checks something"
        raise HTTPException(error.status_code, text) from None
    response.headers.update(_HEADERS)
    return response
