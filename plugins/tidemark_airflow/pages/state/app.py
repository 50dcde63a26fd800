"""The operator's page and its API, which need Airflow's own login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tidemark_airflow.pages.state import journal, orders, problems, reading
from tidemark_airflow.pages.state.permissions import may_read

_HEADERS = {
    # Airflow shows the page in a frame. Whatever gets into it may load and send nothing elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'none'; frame-ancestors 'self';"
    " base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # Otherwise a browser mixes files of two versions after an update.
    "Cache-Control": "no-cache",
}

# The description needs a login as well, so that it has a route of its own.
app = FastAPI(
    title="Tidemark",
    version="1",
    description="The state of the system, and orders of runs. Pages are read with `limit`, and"
    " with `after`: the `next` of the page before.",
    openapi_url=None,
    servers=[{"url": "../.."}],
    responses=problems.RESPONSES,
)
problems.install(app)
_files = StaticFiles(directory=Path(__file__).with_name("static"))
_page = APIRouter(dependencies=[Depends(may_read)], include_in_schema=False)


@_page.get("/")
async def page(request: Request) -> Response:
    """Return the page."""
    return await _file("index.html", request)


@_page.get("/static/{name:path}")
async def file(name: str, request: Request) -> Response:
    """Return a script, a style sheet or an image of the page."""
    return await _file(name, request)


@_page.get("/api/v1/openapi.json")
async def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
    document = app.openapi()
    # In answers it is `topic/partition`.
    document["components"]["schemas"]["TopicPartition"] = {"type": "string"}
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "journal":
                    parameter["schema"]["enum"] = journal.names()
    return document


async def _file(name: str, request: Request) -> Response:
    try:
        response = await _files.get_response(name, request.scope)
    except HTTPException as error:
        raise problems.ProblemError(error.status_code, f"there is no file {name!r}") from None
    response.headers.update(_HEADERS)
    return response


app.include_router(_page)
app.include_router(reading.router)
app.include_router(orders.router)
