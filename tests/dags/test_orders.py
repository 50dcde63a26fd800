"""What orders send to Airflow's API, and what they refuse; Airflow is real in test_state_page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from airflow.serialization.definitions.param import SerializedParam
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from tidemark_airflow.pages.forms import DagForm
from tidemark_airflow.pages.state import airflow_api, mount, orders

FIELDS = {
    "dry_run": SerializedParam(False, type="boolean"),
    "force": SerializedParam(False, type="boolean"),
    "window_start": SerializedParam(None, type=["null", "string"]),
    "window_end": SerializedParam(None, type=["null", "string"]),
}
OPERATIONS = {
    "operation": SerializedParam("status", type="string"),
    "projections": SerializedParam([], type=["null", "array"]),
    "apply": SerializedParam(False, type="boolean"),
}
BUSY = {"detail": {"reason": "Database error"}}
URL = f"{mount.PREFIX}/api/v1/orders"


@dataclass
class FakeAirflow:
    """Airflow's API, as far as orders use it, with the page mounted.

    Attributes:
        paused: whether the DAG is paused.
        refusals: answers to the next requests for a run; `lost` starts it nevertheless.
        calls: the requests, in their order.
        runs: the runs that were started, with their conf.
    """

    paused: bool = False
    refusals: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str | None]] = field(default_factory=list)
    runs: dict[str, Any] = field(default_factory=dict)

    def app(self) -> FastAPI:
        app = FastAPI()
        app.mount(mount.PREFIX, mount.serve)
        app.add_api_route("/api/v2/dags/{dag_id}", self.dag, methods=["GET"])
        app.add_api_route("/api/v2/dags/{dag_id}", self.unpause, methods=["PATCH"])
        app.add_api_route("/api/v2/dags/{dag_id}/dagRuns", self.run, methods=["POST"])
        return app

    def _note(self, request: Request) -> None:
        self.calls.append((request.method, request.url.path, request.headers.get("cookie")))

    async def dag(self, request: Request) -> Any:
        self._note(request)
        return {"is_paused": self.paused}

    async def unpause(self, request: Request) -> Any:
        self._note(request)
        assert await request.json() == {"is_paused": False}
        assert request.query_params["update_mask"] == "is_paused"
        self.paused = False
        return {}

    async def run(self, request: Request) -> Any:
        self._note(request)
        body = await request.json()
        refusal = self.refusals.pop(0) if self.refusals else ""
        if refusal == "busy":
            return JSONResponse(BUSY, 500)
        if body["dag_run_id"] in self.runs:
            raise HTTPException(409, "exists")
        if refusal == "wrong":
            raise HTTPException(400, "conf is wrong")
        self.runs[body["dag_run_id"]] = body["conf"]
        return JSONResponse(BUSY, 500) if refusal == "lost" else {}

    def post(self, path: str = "", **order: Any) -> httpx.Response:
        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app())
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", cookies={"_token": "t"}
            ) as client:
                return await client.post(f"{URL}{path}", json=order)

        return asyncio.run(answer())


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> dict[str, DagForm]:
    """Return the forms that there are, for a user who may start each DAG."""
    there = {
        "tag_write": DagForm("tag_write", FIELDS, has_schedule=True),
        "reconcile": DagForm("reconcile", FIELDS, has_schedule=False),
        "manage_projections": DagForm("manage_projections", OPERATIONS, has_schedule=False),
    }
    monkeypatch.setattr(orders, "form_of", there.__getitem__)
    monkeypatch.setattr(orders, "require_may_start", lambda *_: None)
    monkeypatch.setattr(airflow_api, "_PAUSE_S", 0)
    return there


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark_airflow.pages.state.app import app

    monkeypatch.setitem(app.dependency_overrides, get_user, lambda: None)


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize(
    ("dag_id", "paused", "unpause", "status", "unpaused"),
    [
        ("reconcile", False, False, 201, False),
        ("reconcile", True, False, 201, True),
        ("tag_write", False, False, 201, False),
        ("tag_write", True, False, 409, None),
        ("tag_write", True, True, 201, True),
    ],
)
def test_an_order_starts_a_run_that_no_pause_keeps_back(
    dag_id: str, paused: bool, unpause: bool, status: int, unpaused: bool | None
) -> None:
    airflow = FakeAirflow(paused)
    answer = airflow.post(dag_id=dag_id, conf={"force": True}, unpause=unpause)
    assert answer.status_code == status
    if status == 409:
        assert "starts its schedule, too" in answer.json()["what"]
        assert (airflow.runs, airflow.paused) == ({}, True)
        return
    [run_id] = airflow.runs
    assert airflow.runs[run_id] == {"force": True}
    assert not airflow.paused
    found = answer.json()
    assert (found["run_id"], found["unpaused"]) == (run_id, unpaused)
    assert httpx.URL(found["url"]).path == f"/dags/{dag_id}/runs/{run_id}"
    # Airflow asks who the user is by the user's own cookie.
    assert {cookie for *_, cookie in airflow.calls} == {"_token=t"}
    methods = [method for method, *_ in airflow.calls]
    assert methods == ["GET", *(["PATCH"] if unpaused else []), "POST"]


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("refusal", ["busy", "lost"])
def test_one_run_is_started_when_the_database_is_busy(refusal: str) -> None:
    airflow = FakeAirflow(refusals=[refusal])
    answer = airflow.post(dag_id="reconcile")
    assert answer.status_code == 201
    assert [*airflow.runs] == [answer.json()["run_id"]]


@pytest.mark.usefixtures("forms")
def test_refusals_of_airflow_are_problems_with_its_status() -> None:
    wrong = FakeAirflow(refusals=["wrong"]).post(dag_id="reconcile")
    assert (wrong.status_code, wrong.json()["what"]) == (400, "conf is wrong")
    busy = FakeAirflow(refusals=["busy"] * 20).post(dag_id="reconcile")
    what = "Airflow's database is busy; nothing was started"
    assert (busy.status_code, busy.json()["what"]) == (500, what)


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize(
    ("dag_id", "conf", "dry_run", "sent", "is_dry"),
    [
        ("reconcile", {}, None, {}, False),
        ("reconcile", {"dry_run": True}, None, {"dry_run": True}, True),
        ("reconcile", {"dry_run": True}, False, {"dry_run": False}, False),
        ("reconcile", {}, True, {"dry_run": True}, True),
        (
            "manage_projections",
            {"operation": "clear"},
            False,
            {"operation": "clear", "apply": True},
            False,
        ),
        ("manage_projections", {"operation": "clear"}, None, {"operation": "clear"}, True),
        ("manage_projections", {"operation": "pause"}, False, {"operation": "pause"}, False),
        ("manage_projections", {"operation": "pause"}, True, None, None),
        ("manage_projections", {"nothing": 1}, None, None, None),
        ("manage_projections", {"apply": "yes"}, None, None, None),
    ],
)
def test_the_dry_run_is_the_field_of_the_form(
    dag_id: str, conf: dict[str, Any], dry_run: bool | None, sent: Any, is_dry: bool | None
) -> None:
    airflow = FakeAirflow()
    answer = airflow.post(dag_id=dag_id, conf=conf, dry_run=dry_run)
    assert [*airflow.runs.values()] == ([] if sent is None else [sent])
    assert answer.is_client_error == (sent is None)
    assert answer.json().get("dry_run") is is_dry
    preview = FakeAirflow().post("/preview", dag_id=dag_id, conf=conf, dry_run=dry_run)
    assert preview.json().get("conf") == sent
    assert preview.json().get("dry_run") is is_dry


@pytest.mark.usefixtures("forms")
def test_a_preview_starts_nothing_and_says_what_becomes_of_the_pause() -> None:
    for dag_id, unpause, unpauses, note in (
        ("reconcile", False, True, "reconcile is unpaused"),
        ("tag_write", False, False, "tag_write is paused: order with unpause"),
        ("tag_write", True, True, "tag_write is unpaused, and its schedule starts"),
    ):
        airflow = FakeAirflow(paused=True)
        found = airflow.post("/preview", dag_id=dag_id, unpause=unpause).json()
        assert (found["paused"], found["unpauses"]) == (True, unpauses)
        assert found["note"].endswith(f"; {note}")
        assert (airflow.runs, airflow.paused) == ({}, True)


@pytest.mark.usefixtures("forms")
def test_a_window_that_is_none_is_refused_before_anything_is_read() -> None:
    conf = {"window_start": "2024-03-02T00:00:00Z", "window_end": "2024-03-01T00:00:00Z"}
    answer = FakeAirflow().post("/preview", dag_id="tag_write", conf=conf)
    assert (answer.status_code, answer.json()["where"]) == (422, "conf")


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_of_a_foreign_page_can_send_is_no_order(kind: str) -> None:
    airflow = FakeAirflow()

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app=airflow.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            headers = {"Content-Type": kind} if kind else {}
            return await client.post(URL, content=b'{"dag_id": "reconcile"}', headers=headers)

    assert asyncio.run(answer()).status_code == 415
    assert airflow.calls == []


def test_without_the_permission_of_the_dag_nothing_is_sent(
    forms: dict[str, DagForm], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(dag_id: str, *_: Any) -> None:
        asked.append(dag_id)
        raise HTTPException(403, "Forbidden")

    monkeypatch.setattr(orders, "require_may_start", refuse)
    for path in ("", "/preview"):
        airflow = FakeAirflow()
        answer = airflow.post(path, dag_id="reconcile")
        assert (answer.status_code, airflow.calls) == (403, [])
        assert answer.json()["do"] == "ask an administrator of Airflow for the permission"
    assert asked == ["reconcile", "reconcile"]
