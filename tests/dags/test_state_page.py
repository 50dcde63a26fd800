"""The operator's page in a real Airflow: who reads, who orders, and its place in the navigation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from embedded.airflow import rest
from tests.dags.conftest import PATIENCE_S, READER, VIEWER, Doors
from tidemark_airflow.pages.state.mount import PREFIX

READS = (
    *("overview", "time-buckets", "projections", "findings", "purges", "replication", "groups"),
    *("runs", "grid"),
)
PAGES = ("", "static/index.html", "api/v1/openapi.json")
ORDER: dict[str, Any] = {"dag_id": "cleanup", "conf": {"persistence_ids": ["a|1"]}}


def url(doors: Doors, path: str) -> str:
    return f"{doors.address}{PREFIX}/{path}"


def orders(doors: Doors) -> str:
    return url(doors, "api/v1/orders")


def test_without_a_login_there_is_nothing_but_the_way_to_it(doors: Doors) -> None:
    for path in (*PAGES, *(f"api/v1/{name}" for name in READS)):
        answer = httpx.get(url(doors, path))
        assert answer.status_code == httpx.codes.UNAUTHORIZED
        assert answer.json().keys() == {"what", "where", "do"}
    for path in ("", "/preview"):
        answer = httpx.post(f"{orders(doors)}{path}", json=ORDER)
        assert answer.status_code == httpx.codes.UNAUTHORIZED
    login = httpx.get(url(doors, ""), headers={"Accept": "text/html"})
    assert login.is_redirect
    assert login.headers["Location"].startswith("/api/v2/auth/login?next=http")


def test_a_viewer_reads_and_orders_nothing(doors: Doors) -> None:
    runs = rest.runs(doors.client, ORDER["dag_id"])
    with doors.airflow.client(VIEWER) as viewer:
        for path in PAGES:
            answer = viewer.get(url(doors, path))
            assert answer.status_code == httpx.codes.OK
        for name in READS:
            answer = viewer.get(url(doors, f"api/v1/{name}"))
            assert answer.status_code == httpx.codes.OK, answer.text
        for path in ("", "/preview"):
            answer = viewer.post(f"{orders(doors)}{path}", json=ORDER)
            assert answer.status_code == httpx.codes.FORBIDDEN
    assert rest.runs(doors.client, ORDER["dag_id"]) == runs


@pytest.mark.parametrize("paused", [True, False])
def test_an_order_starts_a_run_even_if_its_dag_is_paused(doors: Doors, paused: bool) -> None:
    dag_id = ORDER["dag_id"]
    rest.unpause(doors.client, dag_id, paused=paused)
    try:
        with doors.airflow.client(READER) as reader:
            preview = reader.post(f"{orders(doors)}/preview", json={**ORDER, "dry_run": False})
            assert preview.status_code == httpx.codes.OK, preview.text
            assert (preview.json()["unpauses"], preview.json()["dry_run"]) == (paused, False)
            answer = reader.post(orders(doors), json={**ORDER, "dry_run": True})
        assert answer.status_code == httpx.codes.CREATED, answer.text
        started = answer.json()
        assert started["unpaused"] is paused
        run = rest.wait_for_run(doors.client, dag_id, started["run_id"], PATIENCE_S)
        assert run["conf"] == {**ORDER["conf"], "dry_run": True}
        assert run["triggering_user_name"] == READER
    finally:
        rest.unpause(doors.client, dag_id)


def test_a_paused_dag_with_a_schedule_stays_paused(doors: Doors) -> None:
    rest.unpause(doors.client, "tag_write", paused=True)
    try:
        answer = doors.client.post(orders(doors), json={"dag_id": "tag_write"})
        assert answer.status_code == httpx.codes.CONFLICT
        assert rest.call(doors.client, "GET", "dags/tag_write")["is_paused"]
    finally:
        rest.unpause(doors.client, "tag_write")


def test_orders_are_for_dags_of_tidemark_and_for_values_that_their_forms_take(doors: Doors) -> None:
    for order, status in (
        ({"dag_id": "nothing"}, 404),
        ({**ORDER, "conf": {"nothing": 1}}, 400),
        ({**ORDER, "conf": {"persistence_ids": 1}}, 400),
        ({**ORDER, "other": 1}, 422),
    ):
        answer = doors.client.post(orders(doors), json=order)
        assert answer.status_code == status, answer.text
        assert answer.json().keys() == {"what", "where", "do"}


def test_a_foreign_page_orders_nothing(doors: Doors) -> None:
    runs = rest.runs(doors.client, ORDER["dag_id"])
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}):
        answer = doors.client.post(orders(doors), json=ORDER, headers=headers)
        assert answer.status_code == httpx.codes.FORBIDDEN
    plain = {"Content-Type": "text/plain"}
    answer = doors.client.post(orders(doors), content=b'{"dag_id": "cleanup"}', headers=plain)
    assert answer.status_code == httpx.codes.UNSUPPORTED_MEDIA_TYPE
    assert rest.runs(doors.client, ORDER["dag_id"]) == runs


def test_the_page_is_in_the_navigation(address: str, page: Page) -> None:
    page.goto(address)
    page.get_by_role("link", name="Tidemark").click()
    frame = page.frame_locator('iframe[title="Tidemark"]')
    expect(frame.get_by_role("heading", level=1)).to_be_visible()
