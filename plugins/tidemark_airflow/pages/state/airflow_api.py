"""Airflow's own REST API, called inside the server in the name of the user of a request.

So that the permissions, the checks of a form and the audit log are those of Airflow.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import Request

from tidemark_airflow.pages.state.problems import ProblemError

_OF_USER = ("authorization", "cookie", "host", "referer", "user-agent")
"""The headers of the request that say who the user is, and from where."""
_MOST_TRIES = 20
_PAUSE_S = 0.5


class AirflowOfUser:
    """The API as the user of a request has it."""

    def __init__(self, request: Request) -> None:
        """Bind to a request that `mount.serve` has passed on."""
        headers = request.headers
        self._headers = {name: headers[name] for name in _OF_USER if name in headers}
        self._app = request.scope["airflow"]

    async def is_paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused."""
        dag = await self._call("GET", _dag(dag_id))
        return bool(dag["is_paused"])

    async def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        await self._call("PATCH", f"{_dag(dag_id)}?update_mask=is_paused", {"is_paused": False})

    async def start(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start one run, and return its id."""
        # With an id the request may be sent again: a run never starts twice.
        run_id = f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        await self._call("POST", f"{_dag(dag_id)}/dagRuns", body)
        return run_id

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        transport = httpx.ASGITransport(app=self._app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://airflow", headers=self._headers
        ) as client:
            for tries in range(1, _MOST_TRIES + 1):
                answer = await client.request(method, f"/api/v2/{path}", json=body)
                # The answer to an earlier try was lost; it has started the run.
                if method == "POST" and answer.status_code == 409 and tries > 1:
                    return None
                if not _is_busy(answer):
                    break
                await asyncio.sleep(_PAUSE_S)
        if answer.is_error:
            raise ProblemError(answer.status_code, _detail(answer), where=f"/api/v2/{path}")
        return answer.json()


def _dag(dag_id: str) -> str:
    return f"dags/{quote(dag_id, safe='')}"


def _is_busy(answer: httpx.Response) -> bool:
    """Return whether SQLite refused because another process has just written."""
    return answer.status_code == 500 and '"Database error"' in answer.text


def _detail(answer: httpx.Response) -> str:
    if _is_busy(answer):
        return "Airflow's database is busy; nothing was started"
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer.text
    return " ".join(str(detail).split())[:500]
