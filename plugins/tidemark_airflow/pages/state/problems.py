"""Failures as answers: what is wrong, where, and what to do, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from tidemark.errors import (
    CassandraUnavailable,
    InvalidInput,
    KafkaUnavailable,
    StatementRefused,
    TidemarkError,
    WrongData,
)
from tidemark_airflow.next_step import below_airflow

_DO = {
    401: "log in to Airflow, or send a token of its API",
    403: "ask an administrator of Airflow for the permission",
    404: "see api/v1/openapi.json for the routes",
    415: "send the header Content-Type: application/json",
}


class Problem(BaseModel):
    """An answer other than the requested one.

    Attributes:
        what: what is wrong.
        where: the parameter, table or path of the fault; may be empty.
        do: the next step; may be empty.
    """

    what: str
    where: str
    do: str


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
    for status, text in (
        (401, "Not logged in"),
        (403, "No permission"),
        (409, "The tables, or a paused DAG, do not allow it"),
        (422, "A parameter cannot be used"),
        (503, "Cassandra or Kafka does not answer"),
    )
}
"""The answers of every route other than the requested one, for the description."""


class ProblemError(HTTPException):
    """A request that cannot be fulfilled, with its status."""

    def __init__(self, status: int, what: str, *, where: str = "", do: str = "") -> None:
        super().__init__(status, what)
        self.where = where
        self.do = do


def answer(status: int, what: str, where: str = "", do: str = "") -> JSONResponse:
    """Return a problem as an answer."""
    return JSONResponse(
        Problem(what=what, where=where, do=do).model_dump(),
        status_code=status,
        media_type="application/problem+json",
        headers={"Retry-After": "10"} if status == 503 else None,
    )


def status_of(error: TidemarkError) -> int:
    """Return the status of a foreseen failure."""
    if isinstance(error, InvalidInput):
        # Only the parameters of the request are the reader's own; the rest are settings.
        is_parameter = error.where.startswith("--") and "TIDEMARK_" not in error.where
        return 422 if is_parameter else 500
    if isinstance(error, WrongData):
        return 409
    is_outage = isinstance(error, CassandraUnavailable | KafkaUnavailable)
    return 503 if is_outage and not isinstance(error, StatementRefused) else 500


def install(app: FastAPI) -> None:
    """Let the application answer every failure as a problem."""

    @app.exception_handler(TidemarkError)
    async def foreseen(_request: Request, error: TidemarkError) -> JSONResponse:
        where = error.where.removeprefix("--")
        return answer(status_of(error), error.what, where, error.do)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        first: Mapping[str, object] = error.errors()[0]
        place = first["loc"]
        where = ".".join(map(str, place)) if isinstance(place, tuple) else str(place)
        return answer(422, str(first["msg"]), where, "see api/v1/openapi.json")

    @app.exception_handler(HTTPException)
    async def rejected(request: Request, error: HTTPException) -> Response:
        if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
            login = below_airflow("/api/v2/auth/login")
            return RedirectResponse(f"{login}?next={quote(str(request.url), safe='')}")
        where = getattr(error, "where", "") or request.url.path
        do = getattr(error, "do", "") or _DO.get(error.status_code, "")
        return answer(error.status_code, str(error.detail), where, do)
