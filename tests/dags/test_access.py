"""What Airflow lets be done without a login, by a user who may only read, and by foreign pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.core_api.routes.public import public_router
from airflow.api_fastapi.core_api.routes.ui import ui_router
from fastapi.routing import APIRoute
from playwright.sync_api import BrowserContext

from embedded.airflow import configuration, rest
from embedded.machine import processes
from tests.dags.conftest import DAG_IDS, VIEWER, Doors
from tests.security.seen import listening, process_tree
from tests.security.test_other_users import reachable
from tidemark_airflow import data_docs
from tidemark_airflow.next_step import Step

FORGED = "e30.e30.e30"
ASSET = "tidemark://validated"
"""An asset that the DAG `validate` produces: an empty POST starts a run of it."""
NO_ACT = {
    # What the user's own pages show, and another token of the same user.
    "POST /api/v2/dags/{dag_id}/favorite": 204,
    "POST /api/v2/dags/{dag_id}/unfavorite": 204,
    "POST /ui/auth/token": 200,
    # There is no such backfill; what a user may do with one is decided by its DAG.
    "PUT /api/v2/backfills/{backfill_id}/cancel": 404,
    "PUT /api/v2/backfills/{backfill_id}/pause": 404,
    "PUT /api/v2/backfills/{backfill_id}/unpause": 404,
}
"""Routes of Airflow that change nothing which is another's, with their answer to a viewer."""


def bodies(run_id: str) -> dict[str, dict[str, Any]]:
    """Return the bodies of routes that read them before they ask what the user may do."""

    def deleting(*entities: Any) -> dict[str, Any]:
        return {"actions": [{"action": "delete", "entities": [*entities]}]}

    run = {"dag_id": "purge", "dag_run_id": run_id}
    return {
        "PATCH /api/v2/connections": deleting("spark_default"),
        "PATCH /api/v2/pools": deleting("tidemark"),
        "PATCH /api/v2/variables": deleting("one"),
        "PATCH /api/v2/dags/{dag_id}/dagRuns": deleting(run),
        "POST /api/v2/dags/{dag_id}/clearDagRuns": {"dag_runs": [run]},
        "POST /api/v2/connections/enqueue-test": {"connection_id": "a", "conn_type": "http"},
    }


def acting_routes() -> set[str]:
    """Return method and path of each route of Airflow that does not only read."""
    return {
        f"{method} {route.path}"
        for route in (*public_router.routes, *ui_router.routes)
        if isinstance(route, APIRoute) and not route.path.endswith("/list")
        for method in route.methods - {"GET", "HEAD", "OPTIONS"}
    }


@pytest.fixture(scope="module")
def named(doors: Doors) -> dict[str, str]:
    """Return what the parameters of a path stand for: things that exist, as far as it matters."""
    purge = rest.call(doors.client, "GET", "dags/purge/details")
    [run, *_] = rest.runs(doors.client, "purge")
    return {
        "dag_id": "purge",
        "dag_run_id": run["dag_run_id"],
        "task_id": "plan",
        "map_index": "-1",
        "asset_id": str(asset_id(doors)),
        "file_token": purge["file_token"],
    }


def asset_id(doors: Doors) -> int:
    assets = rest.call(doors.client, "GET", "assets?limit=100")["assets"]
    return next(int(asset["id"]) for asset in assets if asset["uri"].rstrip("/") == ASSET)


def statuses(doors: Doors, named: dict[str, str], **request: Any) -> dict[str, int]:
    """Return the status of each acting route; `request` says by whom."""
    found = {}
    own = bodies(named["dag_run_id"])
    with httpx.Client(base_url=doors.address, timeout=60, **request) as client:
        for route in sorted(acting_routes()):
            method, _, path = route.partition(" ")
            path = re.sub(r"\{(\w+)[^}]*\}", lambda match: named.get(match[1], "1"), path)
            found[route] = client.request(method, path, json=own.get(route, {})).status_code
    return found


def runs_of(doors: Doors) -> dict[str, list[str]]:
    """Return the ids of all runs, by DAG."""
    return {dag: [run["dag_run_id"] for run in rest.runs(doors.client, dag)] for dag in DAG_IDS}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def token_of(client: httpx.Client) -> str:
    return client.headers["Authorization"].removeprefix("Bearer ")


def test_a_user_of_this_machine_without_the_password_does_nothing(
    doors: Doors, named: dict[str, str]
) -> None:
    """Nor does one with a token that Airflow has not signed."""
    before = runs_of(doors)
    assert set(statuses(doors, named).values()) == {httpx.codes.UNAUTHORIZED}
    forged = {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
    assert set(statuses(doors, named, headers=bearer(FORGED)).values()) <= forged
    assert set(statuses(doors, named, cookies={COOKIE_NAME_JWT_TOKEN: FORGED}).values()) <= forged
    for name in (configuration.ADMIN, "Anonymous", ""):
        login = {"username": name, "password": ""}
        assert httpx.post(f"{doors.address}/auth/token", json=login).is_client_error
    assert httpx.get(f"{doors.address}/auth/token").status_code == httpx.codes.FORBIDDEN
    assert runs_of(doors) == before


def test_a_viewer_acts_through_no_route(doors: Doors, named: dict[str, str]) -> None:
    before = runs_of(doors)
    with doors.airflow.client(VIEWER) as viewer:
        found = statuses(doors, named, headers=bearer(token_of(viewer)))
        allowed = {route: status for route, status in found.items() if status != 403}
        assert allowed == NO_ACT
        for dag_id in DAG_IDS:
            page = httpx.URL(doors.address).join(Step(dag_id, {}).url())
            assert viewer.get(page).status_code == httpx.codes.FORBIDDEN
            answer = viewer.post(f"dags/{dag_id}/dagRuns", json={"logical_date": None})
            assert answer.status_code == httpx.codes.FORBIDDEN
        # The results of checks are for all who may read logs.
        docs = viewer.get(f"{doors.address}{data_docs.PREFIX}/none.html")
        assert docs.status_code == httpx.codes.NOT_FOUND
    assert runs_of(doors) == before


@pytest.fixture
def foreign_page(doors: Doors, tmp_path: Path) -> Iterator[str]:
    """Yield a page on another port of this machine that sends an empty POST to Airflow."""
    target = f"{doors.address}/api/v2/assets/{asset_id(doors)}/materialize"
    script = f"fetch('{target}', {{method: 'POST', mode: 'no-cors', credentials: 'include'}})"
    (tmp_path / "page.html").write_text(f"<script>{script}</script>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page.html"
        server.shutdown()


def test_a_foreign_page_starts_no_run_in_the_admins_browser(
    doors: Doors, reader: BrowserContext, foreign_page: str
) -> None:
    """The page is on another port of this machine, to which browsers send Airflow's cookie."""
    before = runs_of(doors)
    assert reader.browser is not None
    context = reader.browser.new_context()
    cookie = {"name": COOKIE_NAME_JWT_TOKEN, "value": token_of(doors.client)}
    context.add_cookies([{**cookie, "url": doors.address, "sameSite": "Lax"}])  # type: ignore[typeddict-item]
    page = context.new_page()
    with page.expect_response("**/materialize") as sent:
        page.goto(foreign_page)
    assert sent.value.status == httpx.codes.FORBIDDEN
    context.close()
    assert runs_of(doors) == before


def test_own_pages_and_programs_are_not_taken_for_foreign_ones(doors: Doors) -> None:
    """There is no such asset, which only those are told who are let through."""
    for headers in ({}, {"Sec-Fetch-Site": "same-origin", "Origin": doors.address}):
        answer = doors.client.post("assets/1000000/materialize", headers=headers)
        assert answer.status_code == httpx.codes.NOT_FOUND
    answer = doors.client.post(
        "assets/1000000/materialize", headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert answer.json()["detail"] == "a page of another origin may not change anything in Airflow"


def test_files_of_airflow_are_its_users_own_and_the_logs_of_its_servers_have_no_password(
    doors: Doors,
) -> None:
    home = doors.home
    assert list(reachable(home)) == []
    assert configuration.passwords_file(home).stat().st_mode & 0o777 == 0o600
    logs = list((home / "logs").glob("*.log"))
    assert logs
    for user in (configuration.ADMIN, VIEWER):
        holders = [log.name for log in logs if doors.password(user) in log.read_text()]
        assert holders == []


def test_ports_of_airflow_are_those_of_this_machine(doors: Doors) -> None:
    run = doors.home / "run"
    for name in ("api-server", "scheduler", "dag-processor", "triggerer"):
        process = processes.running(name, run)
        assert process is not None
        addresses = {
            address.removeprefix("::ffff:") for address in listening(process_tree(process))
        }
        assert {address for address in addresses if not address.startswith("127.")} == set()
