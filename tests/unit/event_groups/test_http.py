"""Requests and records of event groups: one deadline, and an answer of bounded size."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from tidemark.event_groups.external import http, topics
from tidemark.event_groups.external.airflow import AirflowApi
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings


class Listening(BaseHTTPRequestHandler):
    """A server's answers to requests, of which it says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def answer(self, body: Any) -> None:
        """Answer 200 with a value in JSON."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@contextmanager
def served(answers: type[Listening]) -> Iterator[str]:
    """Yield the host and port of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


class Drips(Listening):
    """An answer that comes byte by byte, its header too if the path says so."""

    def do_POST(self) -> None:
        """Answer."""
        try:
            if self.path == "/header":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            else:
                self.send_response(200)
                self.end_headers()
            for _ in range(40):
                self.wfile.write(b"1")
                time.sleep(0.2)
        except OSError:
            return


@pytest.mark.parametrize("path", ["header", "body"])
def test_a_timeout_holds_for_all_of_an_answer(path: str) -> None:
    with served(Drips) as host:
        began = time.monotonic()
        with pytest.raises(EventFailed, match=r"has not answered within 0\.5 s"):
            http.post(f"http://{host}/{path}", "{}", {host}, 0.5, {})
        assert time.monotonic() - began < 3


class Endless(Listening):
    """An answer without an end, at once or as little that becomes much."""

    sent = 0

    def do_POST(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                type(self).sent += self.wfile.write(b" " * 65536)
        except OSError:
            return


def test_an_answer_over_the_limit_is_not_read_to_its_end() -> None:
    with served(Endless) as host:
        with pytest.raises(EventFailed, match="more than 1,048,576 bytes"):
            http.post(f"http://{host}/", "{}", {host}, 30, {})
        # The limit, and what the system keeps on both sides.
        assert Endless.sent < 64 * 1024 * 1024


class Echoes(Listening):
    """An answer that repeats what was sent."""

    def do_POST(self) -> None:
        """Answer."""
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        kind = self.headers["Content-Type"]
        status = {"/moved": 302, "/broken": 500}.get(self.path, 200)
        self.send_response(status)
        self.send_header("Location", "/")
        self.end_headers()
        self.wfile.write(f"{kind} {self.headers['X-Own']} {sent}".encode())


def test_a_good_answer_is_returned_and_no_redirect_is_followed() -> None:
    with served(Echoes) as host:
        answer = http.post(f"http://{host}/", '{"ä": 1}', {host}, 10, {"X-Own": "7"}).text
        assert answer == 'application/json 7 {"ä": 1}'
        for path, status in (("moved", 302), ("broken", 500)):
            with pytest.raises(EventFailed, match=f"has answered {status}"):
                http.post(f"http://{host}/{path}", "{}", {host}, 10, {})
    with pytest.raises(EventFailed, match="has not answered: "):
        http.post(f"http://{host}/", "{}", {host}, 10, {})


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://a.example/\x7f", "non-printable"),
        ("https://a.example/" + "a" * 70_000, "too long"),
        ("https://a.example:99999/", "is not an address"),
        ("https://b.example/", "the host b.example is not allowed"),
        ("https://a.example@b.example/", "is not an address"),
        ("ftp://a.example/", "is not an address"),
    ],
)
def test_an_address_that_cannot_be_asked_is_rejected(url: str, why: str) -> None:
    refusal = http.refusal(url, {"a.example"})
    assert why in refusal
    assert len(refusal) < 500
    assert refusal.isprintable()
    with pytest.raises(EventFailed):
        http.post(url, "{}", {"a.example"}, 1, {})


def test_an_address_on_a_host_of_the_settings_is_allowed() -> None:
    for url in ("https://a.example", "https://A.example/x?y=ä", "http://[::1]:80/", "http://ä.de"):
        assert http.refusal(url, {"a.example", "::1:80", "ä.de"}) == ""


def airflow(url: str, timeout: float = 10) -> AirflowApi:
    """Return an Airflow that asks for a token first."""
    known = {"airflow_url": url, "airflow_username": "me", "airflow_password": SecretStr("secret")}
    return AirflowApi(Settings().model_copy(update=known), timeout)


class Shapes(Listening):
    """Good answers, except for one."""

    bodies: dict[str, Any] = {}  # noqa: RUF012  set by each test

    def do_GET(self) -> None:
        """Answer."""
        self.answer(self.bodies["assets"])

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(self.bodies["token"] if self.path == "/auth/token" else {})


@pytest.mark.parametrize(
    ("name", "body", "lacking"),
    [
        ("token", {}, "access_token"),
        ("token", ["access_token"], "access_token"),
        ("assets", {}, "assets"),
        ("assets", {"assets": None}, "assets"),
        ("assets", {"assets": [{"id": 1}]}, "uri"),
        ("assets", {"assets": [{"uri": "x://a"}]}, "id"),
    ],
)
def test_an_answer_of_airflow_without_what_it_must_have_is_a_failure(
    name: str, body: Any, lacking: str
) -> None:
    good = {"token": {"access_token": "t"}, "assets": {"assets": [{"id": 1, "uri": "x://a/"}]}}
    with served(Shapes) as host:
        Shapes.bodies = good
        airflow(f"http://{host}").create_asset_event("x://a", {})
        Shapes.bodies = good | {name: body}
        with pytest.raises(EventFailed, match=f"Airflow has answered .* without `{lacking}`"):
            airflow(f"http://{host}").create_asset_event("x://a", {})


class Slow(Shapes):
    """Answers that take less than the timeout each, and more together."""

    def do_POST(self) -> None:
        """Answer."""
        time.sleep(0.6)
        super().do_POST()


def test_a_timeout_holds_for_all_requests_to_airflow() -> None:
    with served(Slow) as host:
        Shapes.bodies = {"token": {"access_token": "t"}}
        with pytest.raises(EventFailed, match=r"has not answered within 1 s"):
            airflow(f"http://{host}", 1).start_run("dag", "run", {})


def test_airflow_at_an_address_that_is_none_is_a_failure() -> None:
    with pytest.raises(EventFailed, match="has not answered: "):
        airflow("http://\x7f").start_run("dag", "run", {})


def test_a_timeout_holds_for_the_topic_and_its_record_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    class Producer:
        def __init__(self, settings: dict[str, Any]) -> None:
            """Have the topic, after a while."""

        def list_topics(self, topic: str, timeout: float) -> Any:
            time.sleep(0.4)
            return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})

        def produce(self, *values: Any, **more: Any) -> None:
            """Take a record."""

        def flush(self, timeout: float) -> None:
            waited.append(timeout)

    monkeypatch.setattr(topics, "Producer", Producer)
    settings = Settings().model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(EventFailed, match="no answer within 1 s"):
        topics.append(settings, "topic", "key", "value", 1)
    [left] = waited
    assert left <= 0.6
