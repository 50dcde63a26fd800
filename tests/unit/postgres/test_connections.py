"""Connections to PostgreSQL: a URL in a variable, and its password somewhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.application.environment import unknown_variables
from tidemark.errors import InvalidInput
from tidemark.postgres.connections import are_any, connection, secret_variables
from tidemark.settings import Settings

URL = "TIDEMARK_POSTGRES_WAREHOUSE_URL"
PASSWORD = "TIDEMARK_POSTGRES_WAREHOUSE_PASSWORD"


def test_a_connection_is_read_from_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "postgresql://ann%40x@db.example.com:6432/my%20db?sslmode=verify-full")
    monkeypatch.setenv(PASSWORD, "hunter2")
    found = connection(Settings(), "warehouse")
    assert found.parameters == {
        "host": "db.example.com", "port": "6432", "dbname": "my db", "user": "ann@x",
        "password": "hunter2", "sslmode": "verify-full",
    }  # fmt: skip
    assert found.jdbc_url == "jdbc:postgresql://db.example.com:6432/my%20db?sslmode=verify-full"
    assert "hunter2" not in f"{found} {found!r}"


def test_the_jdbc_driver_has_another_name_for_one_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "postgresql://ann@db/x?target_session_attrs=read-write")
    assert connection(Settings(), "warehouse").jdbc_url == (
        "jdbc:postgresql://db:5432/x?targetServerType=primary"
    )


def test_the_jdbc_driver_wants_an_address_of_ipv6_in_brackets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URL, "postgresql://ann@[::1]/x")
    found = connection(Settings(), "warehouse")
    assert (found.host, found.jdbc_url) == ("::1", "jdbc:postgresql://[::1]:5432/x")


def test_a_password_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(URL, "postgresql://ann@db/x")
    (tmp_path / PASSWORD).write_text("hunter2\n")
    found = connection(Settings(secrets_dir=tmp_path), "warehouse")
    assert found.password.get_secret_value() == "hunter2"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://ann@db/x", "does not begin with postgresql://"),
        ("postgresql://db/x", "lacks the user, the host or the database"),
        ("postgresql://ann@db", "lacks the user, the host or the database"),
        ("postgresql://ann@db:port/x", "is not a URL"),
        ("postgresql://ann@db/x?options=-c", "has the option options; it may have sslmode"),
        ("postgresql://ann@db/x?target_session_attrs=all", "choose one of any, read-write"),
    ],
)
def test_an_unusable_url_is_one_line(
    monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    monkeypatch.setenv(URL, url)
    with pytest.raises(InvalidInput, match=problem) as raised:
        connection(Settings(), "warehouse")
    assert URL in str(raised.value)


def test_a_password_in_the_url_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "postgresql://ann:hunter2@db/x")
    with pytest.raises(InvalidInput, match=f"move it to {PASSWORD}") as raised:
        connection(Settings(), "warehouse")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("name", ["warehouse", "Ware-House", ""])
def test_an_absent_connection_is_one_line(name: str) -> None:
    with pytest.raises(InvalidInput, match="there is no connection"):
        connection(Settings(), name)


def test_its_variables_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not are_any()
    monkeypatch.setenv(URL, "postgresql://ann@db/x")
    monkeypatch.setenv(PASSWORD, "hunter2")
    assert are_any()
    assert secret_variables() == [PASSWORD]
    assert unknown_variables([URL, PASSWORD]) == []
    assert unknown_variables(["TIDEMARK_POSTGRES_WAREHOUSE"])
