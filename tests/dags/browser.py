"""The browser of the tests, and a server of the running Airflow that asks for a login."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

from embedded.airflow import rest
from embedded.machine import browser, ports, processes
from tests.dags.conftest import PATIENCE_S

USER = "reader"
_NAME = "api-server-with-login"
# The sandbox does not work for root, and only pages of this machine are opened. Without the other
# options the browser asks the network for updates and waits for a graphics card.
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@dataclass(frozen=True)
class Guarded:
    """A server of an Airflow that lets nobody in without a login."""

    url: str
    password: str = field(repr=False)
    """The password of the user `USER`."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a running browser, and close it in the end."""
    program = browser.program()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program,
            args=_ARGUMENTS,
            env={**browser.environment(program)},
        )
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def guarded(environment: dict[str, str], directory: Path) -> Iterator[Guarded]:
    """Yield a second API server, with a login, on the database of a running Airflow without one.

    Args:
        environment: the environment variables of the running Airflow.
        directory: the directory of the server's password and log.
    """
    port = ports.choose(directory / "ports.json", ("api",), {})["api"]
    server = Guarded(f"http://{ports.HOST}:{port}", secrets.token_urlsafe())
    passwords = directory / "passwords.json"
    passwords.write_text(json.dumps({USER: server.password}))
    own = {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": server.url,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:user",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    home = Path(environment["AIRFLOW_HOME"])
    processes.start(
        _NAME,
        [sys.executable, "-m", "airflow", "api-server"],
        home / "run",
        log=directory / f"{_NAME}.log",
        environment={**environment, **own},
        cwd=home,
    )
    try:
        rest.wait_until("the server with a login", PATIENCE_S, lambda: _answers(server.url))
        yield server
    finally:
        processes.stop([_NAME], home / "run")


def _answers(url: str) -> bool | None:
    try:
        return httpx.get(f"{url}/api/v2/version").is_success or None
    except httpx.TransportError:
        return None
