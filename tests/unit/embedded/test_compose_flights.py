"""The first run of the chain in containers: its login, and what it does through Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import MagicMock

import pytest

from embedded.container import flights
from embedded.demo import summary
from embedded.errors import EmbeddedError

PASSWORD = "@/%:\"'$ ü"


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a server that logs admin in and echoes who asks it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_right = asked == {"username": "admin", "password": PASSWORD}
            self.answer(201 if is_right else 401, {"access_token": "a-token"})

        def do_GET(self) -> None:
            said = {"path": self.path, "authorization": self.headers["Authorization"]}
            self.answer(200, said)

        def answer(self, status: int, content: Any) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("SECRETS_DIR", str(tmp_path))
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_it_is_logged_in_as_admin(airflow: str, tmp_path: Path) -> None:
    (tmp_path / "airflow_admin_password").write_text(f"{PASSWORD}\n", encoding="utf-8")
    with flights._client(airflow) as client:
        answer = client.get("dags").json()
    assert answer == {"path": "/api/v2/dags", "authorization": "Bearer a-token"}


def test_a_refused_login_is_one_line_without_the_password(airflow: str, tmp_path: Path) -> None:
    (tmp_path / "airflow_admin_password").write_text("wrong-one")
    with pytest.raises(EmbeddedError, match="refuses the login of admin: 401") as refused:
        flights._client(airflow)
    assert "wrong-one" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("agrees", [True, False])
def test_it_loads_runs_the_chain_and_ends_badly_if_the_read_model_disagrees(
    monkeypatch: pytest.MonkeyPatch, agrees: bool
) -> None:
    done: list[str] = []
    steps = MagicMock()
    steps.unpause.side_effect = lambda *dags: done.append(f"unpause {' '.join(dags)}")
    steps.chain.side_effect = lambda: done.append("chain")
    monkeypatch.setattr(flights, "Steps", lambda *_: steps)
    monkeypatch.setattr(flights, "Control", nullcontext)
    monkeypatch.setattr(flights, "_client", lambda _: nullcontext())
    monkeypatch.setattr(flights, "create_read_models", lambda *_: done.append("tables"))
    monkeypatch.setattr(
        flights, "run_application", lambda program, _, *options: done.append(f"{program} {options}")
    )
    monkeypatch.setattr(summary, "show", lambda *_: agrees)
    with nullcontext() if agrees else pytest.raises(EmbeddedError, match="disagrees with the CSV"):
        flights.run(2, "http://somewhere")
    assert done == [
        "examples/load_flights.py ('--months', '2')",
        "tables",
        "unpause chain",
        "chain",
    ]
