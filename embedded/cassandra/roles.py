"""The roles of the embedded Cassandra: `tidemark` may log in, the default superuser may not."""

from __future__ import annotations

import logging
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from cassandra import AuthenticationFailed
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.cluster import Session as DriverSession
from cassandra.policies import WhiteListRoundRobinPolicy

USERNAME = "tidemark"

DEFAULT = "cassandra"
_PROTOCOL_VERSION = 5
_TIMEOUT_S = 10
_CQL_SAFE = re.compile(r"[A-Za-z0-9_-]+")


class LoginRefused(Exception):
    """The server answered, and did not accept the user name or password."""


def log_in(host: str, port: int, password: str) -> bool:
    """Log in as `tidemark`, making that role and closing the default one where still needed.

    Args:
        host: Where the server listens.
        port: Its client port.
        password: The password that `tidemark` has or shall have; letters, digits, `-` and `_`.

    Returns:
        False when the server is not ready for it: it makes its default role in the background
        after it has opened its port, so that the caller has to ask again.
    """
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
        _log_in_as_tidemark(host, port, password)
    except (OSError, LoginRefused, NoHostAvailable):
        return False
    return True


@contextmanager
def session(host: str, port: int, username: str, password: str) -> Iterator[DriverSession]:
    """Open a driver session on exactly one node.

    Raises:
        LoginRefused: The server does not accept the user name or password.
        NoHostAvailable: Nobody answers.
    """
    profile = ExecutionProfile(
        load_balancing_policy=WhiteListRoundRobinPolicy([host]), request_timeout=_TIMEOUT_S
    )
    cluster = Cluster(
        [host],
        port=port,
        auth_provider=PlainTextAuthProvider(username, password),
        protocol_version=_PROTOCOL_VERSION,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=_TIMEOUT_S,
    )
    try:
        with _quiet_driver():
            connected = cluster.connect()
        yield connected
    except (AuthenticationFailed, NoHostAvailable) as error:
        if _is_refusal(error):
            raise LoginRefused(f"{username} on {host}:{port}") from error
        raise
    finally:
        cluster.shutdown()


def _log_in_as_tidemark(host: str, port: int, password: str) -> None:
    try:
        with session(host, port, USERNAME, password) as tidemark:
            _close_default_role(tidemark)
    except LoginRefused:
        # The first start, or one that was killed before it had made the role.
        with session(host, port, DEFAULT, DEFAULT) as superuser:
            _create_role(superuser, password)
        with session(host, port, USERNAME, password) as tidemark:
            _close_default_role(tidemark)


def _create_role(superuser: DriverSession, password: str) -> None:
    superuser.execute(
        f"CREATE ROLE IF NOT EXISTS {USERNAME} WITH PASSWORD = {_literal(password)}"
        " AND LOGIN = true AND SUPERUSER = true"
    )


def _close_default_role(tidemark: DriverSession) -> None:
    tidemark.execute(
        f"ALTER ROLE IF EXISTS {DEFAULT} WITH PASSWORD = {_literal(secrets.token_urlsafe(24))}"
        " AND LOGIN = false AND SUPERUSER = false"
    )


def _literal(password: str) -> str:
    """Quote a password: role statements take no bound values."""
    if not _CQL_SAFE.fullmatch(password):
        raise ValueError("a password may have letters, digits, '-' and '_' only")
    return f"'{password}'"


def _is_refusal(error: Exception) -> bool:
    causes = error.errors.values() if isinstance(error, NoHostAvailable) else [error]
    return any(isinstance(cause, AuthenticationFailed) for cause in causes)


@contextmanager
def _quiet_driver() -> Iterator[None]:
    """Keep the driver from logging each refused attempt while the server is still starting."""
    logger = logging.getLogger("cassandra")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
