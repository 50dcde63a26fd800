"""The users of docker-compose.yml's Cassandra, so that its default superuser can be closed.

    python -m embedded.container.cassandra_users

`admin` is a superuser. `tidemark` may create keyspaces, and has all permissions on those that it
creates; on others it has what `admin` grants.
"""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import suppress

from cassandra.encoder import Encoder
from cassandra.query import bind_params
from pydantic import SecretStr

from embedded.cassandra.roles import DEFAULT, USERNAME
from embedded.container.environment import ADMIN
from embedded.container.secrets import Secrets
from embedded.errors import EmbeddedError
from tidemark.cassandra.control import Control
from tidemark.errors import CassandraUnavailable, InvalidInput, TidemarkError
from tidemark.settings import Settings

_PATIENCE_S = 120.0
"""Cassandra makes its default user some seconds after it has opened its port."""


def main() -> None:
    """Make the users with the passwords of the container's secrets; end with status 1 if not."""
    try:
        make(
            Settings.load(), _required("cassandra_admin_password"), _required("cassandra_password")
        )
    except (EmbeddedError, TidemarkError) as error:
        print(f"cassandra-init: error: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"cassandra-init: {ADMIN} and {USERNAME} may log in, {DEFAULT} may not")


def make(settings: Settings, admin: str, password: str) -> None:
    """Make both users, or give `tidemark` its password anew, and close the default one.

    Args:
        settings: where Cassandra is; their user is not used.
        admin: the password that `admin` has or shall have.
        password: the password that `tidemark` shall have.

    Raises:
        EmbeddedError: neither `admin` nor the default user can log in.
        TidemarkError: Cassandra does not answer, or its certificate is refused.
    """
    _make_admin(settings, admin)
    with _session(settings, ADMIN, admin) as control:
        _execute(
            control,
            f"ALTER ROLE IF EXISTS {DEFAULT} WITH PASSWORD = %s AND LOGIN = false"
            " AND SUPERUSER = false",
            secrets.token_urlsafe(),
        )
        control.execute_ddl(f"CREATE ROLE IF NOT EXISTS {USERNAME}")
        _execute(control, f"ALTER ROLE {USERNAME} WITH PASSWORD = %s AND LOGIN = true", password)
        control.execute_ddl(f"GRANT CREATE ON ALL KEYSPACES TO {USERNAME}")


def _required(name: str) -> str:
    password = Secrets().text(name)
    if password is None:
        raise EmbeddedError("a secret is missing", name, "give it to this service")
    return password


def _make_admin(settings: Settings, password: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with suppress(InvalidInput):
                _session(settings, ADMIN, password).close()
                return
            with _session(settings, DEFAULT, DEFAULT) as control:
                _execute(
                    control,
                    f"CREATE ROLE {ADMIN} WITH PASSWORD = %s AND LOGIN = true AND SUPERUSER = true",
                    password,
                )
            return
        except InvalidInput as error:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"neither {ADMIN} nor {DEFAULT} can log in",
                    settings.cassandra_hosts,
                    "write the password that admin has into secrets/cassandra_admin_password",
                ) from error
        except CassandraUnavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


def _session(settings: Settings, username: str, password: str) -> Control:
    login = {"cassandra_username": username, "cassandra_password": SecretStr(password)}
    return Control(settings.model_copy(update=login))


def _execute(control: Control, cql: str, password: str) -> None:
    # Such a statement takes no bound value; the driver quotes the password.
    control.execute_ddl(bind_params(cql, (password,), Encoder()))


if __name__ == "__main__":
    main()
