from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.errors import EmbeddedError
from embedded.machine import ports


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server((ports.HOST, 0)) as server:
        yield int(server.getsockname()[1])


def test_choose_remembers_its_choice(tmp_path: Path) -> None:
    first = ports.choose(tmp_path / "ports.json", ("a", "b"), {})

    assert set(first) == {"a", "b"}
    assert first["a"] != first["b"]
    assert ports.choose(tmp_path / "ports.json", ("a", "b"), {}) == first
    assert ports.read(tmp_path / "ports.json") == first


def test_choose_gives_up_a_remembered_port_that_somebody_took(
    tmp_path: Path, busy_port: int
) -> None:
    remembered = tmp_path / "ports.json"
    remembered.write_text(f'{{"a": {busy_port}}}', "utf-8")

    assert ports.choose(remembered, ("a",), {})["a"] != busy_port


def test_choose_refuses_a_prescribed_port_that_is_taken_and_names_the_holder(
    tmp_path: Path, busy_port: int
) -> None:
    with pytest.raises(EmbeddedError) as refused:
        ports.choose(tmp_path / "ports.json", ("a",), {"a": busy_port})

    assert str(refused.value).startswith(
        f"port {busy_port} is already in use by pid {os.getpid()} ("
    )
    assert str(refused.value).endswith(
        f"): 127.0.0.1:{busy_port}; stop that process or choose another port"
    )
    assert not (tmp_path / "ports.json").exists()


@pytest.mark.parametrize("text", ["0", "65536", "-1", "9042x", " 9042"])
def test_pinned_refuses_what_is_no_port(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_PORT", text)

    with pytest.raises(EmbeddedError, match=r"is no port: TIDEMARK_CASSANDRA_PORT; give 1 to"):
        ports.pinned("TIDEMARK_CASSANDRA_PORT")


@pytest.mark.parametrize(("text", "port"), [("", None), ("1", 1), ("65535", 65535)])
def test_pinned_reads_a_port(text: str, port: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_PORT", text)

    assert ports.pinned("TIDEMARK_CASSANDRA_PORT") == port
