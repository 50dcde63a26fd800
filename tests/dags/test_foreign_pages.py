"""Which requests the API server rejects because a page of another origin has sent them."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI

import tidemark_plugin
from tidemark_airflow.pages.foreign_pages import foreign_page_check

OWN = "http://127.0.0.1:8080"
PROXY = "https://jobs.example"
OTHER_TOOL = "https://tool.example"


def status_of(method: str, headers: dict[str, str], path: str = "/api/v2/assets") -> int:
    """Return the status of a request to a server that answers everything else with 200."""
    check = foreign_page_check()
    app = FastAPI()
    app.add_api_route("/{path:path}", lambda: "in", methods=["GET", "POST", "PATCH", "DELETE"])
    app.add_middleware(check["middleware"], **check["kwargs"])

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(answer()).status_code


@pytest.fixture(autouse=True)
def _behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{PROXY}/airflow")
    monkeypatch.setenv("AIRFLOW__API__ACCESS_CONTROL_ALLOW_ORIGINS", OTHER_TOOL)


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "something new"},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
    ],
)
def test_a_foreign_page_changes_nothing(method: str, headers: dict[str, str]) -> None:
    assert status_of(method, headers) == httpx.codes.FORBIDDEN


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer a-token"},
        {"sec-fetch-site": "same-origin", "origin": OWN},
        {"sec-fetch-site": "none"},
        {"origin": OWN},
        {"origin": PROXY, "sec-fetch-site": "same-origin"},
        {"origin": PROXY},
        {"origin": OTHER_TOOL, "sec-fetch-site": "cross-site"},
    ],
)
def test_own_pages_and_programs_are_let_through(headers: dict[str, str]) -> None:
    assert status_of("POST", headers) == httpx.codes.OK


def test_foreign_pages_may_link_here_and_identity_providers_may_post_a_login() -> None:
    foreign = {"sec-fetch-site": "cross-site", "origin": "https://login.example"}
    assert status_of("GET", foreign) == httpx.codes.OK
    assert status_of("POST", foreign, "/auth/saml/acs") == httpx.codes.OK
    assert status_of("POST", foreign, "/api/v2/auth/") == httpx.codes.FORBIDDEN


def test_the_plugin_registers_the_check() -> None:
    registered = [
        entry["name"] for entry in tidemark_plugin.TidemarkPlugin.fastapi_root_middlewares
    ]
    assert "foreign pages" in registered
