"""Runs of DAGs and events of assets, by Airflow's REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.outside.targets import as_stored
from tidemark.settings import Settings
from tidemark.text import one_line


class Airflow:
    """Airflow, as the settings name it."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        """Bind; nothing is asked yet."""
        self._url = settings.airflow_url.rstrip("/")
        self._user = settings.airflow_username
        self._password = settings.airflow_password
        self._timeout = timeout

    def start_run(self, dag: str, run_id: str, conf: Mapping[str, object]) -> None:
        """Start a run of a DAG, unless there is one of that id.

        Raises:
            EventFailed: Airflow does not answer, or refuses it.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        path = f"dags/{quote(dag, safe='')}/dagRuns"
        self._asked("POST", path, body, accepted=httpx.codes.CONFLICT)

    def create_asset_event(self, uri: str, extra: Mapping[str, object]) -> None:
        """Create an event of an asset.

        Raises:
            EventFailed: there is no such asset, or Airflow does not answer or refuses it.
        """
        plain = as_stored(uri)
        known = self._asked("GET", "assets", {"uri_pattern": plain, "limit": "100"})["assets"]
        ids = [one["id"] for one in known if as_stored(one["uri"]) == plain]
        if not ids:
            raise EventFailed(f"Airflow has no asset {uri}")
        self._asked("POST", "assets/events", {"asset_id": ids[0], "extra": extra})

    def _asked(
        self, method: str, path: str, values: Mapping[str, Any], *, accepted: int | None = None
    ) -> Any:
        if not self._url:
            raise EventFailed("TIDEMARK_AIRFLOW_URL does not say where Airflow is")
        sent: dict[str, Any] = {"params" if method == "GET" else "json": values}
        try:
            with httpx.Client(base_url=self._url, timeout=self._timeout) as client:
                answer = client.request(
                    method, f"/api/v2/{path}", headers=self._headers(client), **sent
                )
                if answer.status_code == accepted:
                    return None
                answer.raise_for_status()
                return answer.json()
        except httpx.HTTPStatusError as error:
            detail = one_line(error.response.text)
            raise EventFailed(
                f"Airflow has answered {error.response.status_code} to {path}: {detail}"
            ) from None
        except (httpx.HTTPError, json.JSONDecodeError) as error:
            reason = one_line(str(error)) or type(error).__name__
            raise EventFailed(f"Airflow at {self._url} has not answered: {reason}") from None

    def _headers(self, client: httpx.Client) -> dict[str, str]:
        if not self._user:
            return {}
        password = self._password.get_secret_value()
        answer = client.post("/auth/token", json={"username": self._user, "password": password})
        answer.raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}
