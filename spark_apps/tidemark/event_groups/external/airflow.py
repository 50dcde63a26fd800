"""Starts runs of DAGs and creates asset events with Airflow's REST API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from tidemark.event_groups.external import http
from tidemark.event_groups.external.http import TimedOut
from tidemark.event_groups.external.targets import as_stored
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings
from tidemark.text import one_line


class AirflowApi:
    """The REST API of the Airflow in the settings."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        self._url = settings.airflow_url.rstrip("/")
        self._user = settings.airflow_username
        self._password = settings.airflow_password
        self._timeout = timeout

    def start_run(self, dag: str, run_id: str, conf: Mapping[str, object]) -> None:
        """Start a run of a DAG, unless it has a run with this id.

        Raises:
            EventFailed: Airflow does not answer in time, or rejects it.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        path = f"dags/{quote(dag, safe='')}/dagRuns"
        self._request("POST", path, self._deadline(), json=body, accepted=httpx.codes.CONFLICT)

    def create_asset_event(self, uri: str, extra: Mapping[str, object]) -> None:
        """Create an event of an asset.

        Raises:
            EventFailed: there is no such asset, or Airflow does not answer in time, or rejects it.
        """
        stored_uri, deadline = as_stored(uri), self._deadline()
        query = {"uri_pattern": stored_uri, "limit": "100"}
        assets = _field("assets", self._request("GET", "assets", deadline, params=query), "assets")
        ids = [
            _field("id", asset, "assets")
            for asset in (assets if isinstance(assets, list) else [None])
            if as_stored(str(_field("uri", asset, "assets"))) == stored_uri
        ]
        if not ids:
            raise EventFailed(f"Airflow has no asset {uri}")
        body = {"asset_id": ids[0], "extra": extra}
        self._request("POST", "assets/events", deadline, json=body)

    def _deadline(self) -> float:
        """Return the deadline for all requests of one call."""
        return time.monotonic() + self._timeout

    def _request(
        self, method: str, path: str, deadline: float, *, accepted: int | None = None, **sent: Any
    ) -> Any:
        if not self._url:
            raise EventFailed("TIDEMARK_AIRFLOW_URL does not say where Airflow is")
        sent["headers"] = self._headers(deadline)
        answer = self._answered(method, f"/api/v2/{path}", deadline, sent)
        return None if answer.status_code == accepted else _json(answer, path)

    def _headers(self, deadline: float) -> dict[str, str]:
        if not self._user:
            return {}
        password = self._password.get_secret_value()
        credentials = {"json": {"username": self._user, "password": password}}
        path = "/auth/token"
        token = _json(self._answered("POST", path, deadline, credentials), path)
        return {"Authorization": f"Bearer {_field('access_token', token, path)}"}

    def _answered(
        self, method: str, path: str, deadline: float, sent: Mapping[str, Any]
    ) -> httpx.Response:
        remaining_s = deadline - time.monotonic()
        try:
            return http.answered(method, f"{self._url}{path}", max(remaining_s, 0.0), **sent)
        except TimedOut:
            raise EventFailed(
                f"Airflow at {self._url} has not answered within {self._timeout:g} s"
            ) from None


def _json(answer: httpx.Response, path: str) -> Any:
    """Return the decoded body of a successful answer.

    Raises:
        EventFailed: the answer is not successful, or not JSON.
    """
    if not answer.is_success:
        detail = one_line(answer.text)
        raise EventFailed(f"Airflow has answered {answer.status_code} to {path}: {detail}")
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise EventFailed(f"Airflow has not answered {path} in JSON: {error}") from None


def _field(name: str, answer: Any, path: str) -> Any:
    """Return a value of an answer.

    Raises:
        EventFailed: the answer does not have it.
    """
    if not isinstance(answer, dict) or answer.get(name) is None:
        raise EventFailed(f"Airflow has answered {path} without `{name}`")
    return answer[name]
