"""The connections to PostgreSQL: a variable with a URL for each, and one with its password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pydantic import SecretStr

from tidemark.errors import InvalidInput
from tidemark.settings import Settings

_PREFIX, _URL, _PASSWORD = "TIDEMARK_POSTGRES_", "_URL", "_PASSWORD"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
"""The options of a URL. Most have the same name in libpq and in the JDBC driver."""
_JDBC_NAMES = {"target_session_attrs": "targetServerType"}
_SESSIONS = {"any": "any", "read-write": "primary", "primary": "primary", "read-only": "secondary"}
"""The values of `target_session_attrs`, and those of the JDBC driver."""
_PORT = 5432


@dataclass(frozen=True)
class PostgresConnection:
    """A database of PostgreSQL, and the user who works in it."""

    name: str
    host: str
    port: int
    database: str
    user: str
    password: SecretStr
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the address without user and password, for messages."""
        return f"{self.name}, {self.host}:{self.port}/{self.database}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of libpq, with the password: never for a log."""
        return {
            "host": self.host,
            "port": str(self.port),
            "dbname": self.database,
            "user": self.user,
            "password": self.password.get_secret_value(),
            **dict(self.options),
        }

    @property
    def jdbc_url(self) -> str:
        """Return the URL of the JDBC driver, without user and password."""
        options = {
            _JDBC_NAMES.get(name, name): _SESSIONS[value] if name in _JDBC_NAMES else value
            for name, value in self.options
        }
        query = f"?{urlencode(options)}" if options else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"jdbc:postgresql://{host}:{self.port}/{quote(self.database, safe='')}{query}"


def variable(name: str) -> str:
    """Return the variable with the URL of a connection."""
    return f"{_PREFIX}{name.upper()}{_URL}"


def secret(name: str) -> str:
    """Return the variable, or the file of `secrets_dir`, with the password of a connection."""
    return f"{_PREFIX}{name.upper()}{_PASSWORD}"


def is_name(text: str) -> bool:
    """Return whether a connection may have this name."""
    return _NAME.fullmatch(text) is not None


def connection(settings: Settings, name: str) -> PostgresConnection:
    """Read a connection from the environment, and its password from there or `secrets_dir`.

    Raises:
        InvalidInput: there is no such connection, or its URL cannot be used.
    """
    url = os.environ.get(variable(name), "") if is_name(name) else ""
    if not url:
        raise InvalidInput(
            f"there is no connection {name!r} to PostgreSQL",
            where=variable(name) if is_name(name) else "lower-case letters, digits and _",
            do=f"set {variable(name) if is_name(name) else 'its variable'} to a URL such as"
            " postgresql://user@host:5432/database; in Airflow, name a connection in"
            " TIDEMARK_POSTGRES_CONNECTIONS",
        )
    return _parsed(name, url, _password(settings, name))


def _parsed(name: str, url: str, password: SecretStr) -> PostgresConnection:
    try:
        parts = urlsplit(url)
        port, has_password = parts.port or _PORT, parts.password is not None
    except ValueError:
        raise _unusable(name, "is not a URL") from None
    if has_password:
        # The message does not repeat the URL, because errors are logged.
        raise InvalidInput(
            "the URL has a password in it",
            where=variable(name),
            do=f"move it to {secret(name)}, or to a file of that name in TIDEMARK_SECRETS_DIR",
        )
    if parts.scheme not in {"postgresql", "postgres"}:
        raise _unusable(name, "does not begin with postgresql://")
    if not (parts.hostname and parts.username and parts.path.strip("/")):
        raise _unusable(name, "lacks the user, the host or the database")
    options = tuple(parse_qsl(parts.query, keep_blank_values=True))
    for option, value in options:
        if option not in _OPTIONS:
            raise _unusable(name, f"has the option {option}; it may have {', '.join(_OPTIONS)}")
        if option in _JDBC_NAMES and value not in _SESSIONS:
            raise _unusable(name, f"has {option}={value}; choose one of {', '.join(_SESSIONS)}")
    return PostgresConnection(
        name,
        parts.hostname,
        port,
        unquote(parts.path.strip("/")),
        unquote(parts.username),
        password,
        options,
    )


def _unusable(name: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"the URL of the PostgreSQL connection {name} {problem}",
        where=variable(name),
        do="write it as postgresql://user@host:5432/database",
    )


def _password(settings: Settings, name: str) -> SecretStr:
    if secret(name) in os.environ:
        return SecretStr(os.environ[secret(name)])
    file = None if settings.secrets_dir is None else Path(settings.secrets_dir) / secret(name)
    if file is None or not file.is_file():
        return SecretStr("")
    return SecretStr(file.read_text(encoding="utf-8").strip())


def secret_variables() -> list[str]:
    """Return the variables of this process that have passwords of connections."""
    return [name for name in os.environ if name.startswith(_PREFIX) and name.endswith(_PASSWORD)]


def are_any() -> bool:
    """Return whether the environment has a connection."""
    return any(is_variable(name) and name.endswith(_URL) for name in os.environ)


def is_variable(name: str) -> bool:
    """Return whether a variable belongs to a connection."""
    for suffix in (_URL, _PASSWORD):
        if name.startswith(_PREFIX) and name.endswith(suffix):
            return is_name(name.removeprefix(_PREFIX).removesuffix(suffix).lower())
    return False
