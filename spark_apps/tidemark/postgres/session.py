"""Sessions of psycopg: the control plane of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as codes

from tidemark.errors import (
    InvalidInput,
    PostgresRefused,
    PostgresUnavailable,
    RowRefused,
    SchemaMismatch,
    TidemarkError,
    postgres_remedy,
)
from tidemark.postgres.connections import PostgresConnection

Session = psycopg.Connection
"""An open session."""

_CONNECT_S = 10
_SETTINGS = "-c timezone=UTC -c datestyle=ISO"
_OF_ROWS = re.compile("2[23]...|54000|P0001")
"""The codes of errors in values of a row: of types, of constraints, of keys that are too long for
an index, and those that a trigger raises."""
_SCHEMA = (codes.UndefinedTable, codes.UndefinedColumn, codes.InvalidSchemaName)


@contextmanager
def session(
    connection: PostgresConnection,
    *,
    autocommit: bool = True,
    statement_s: float = 0,
    options: str = "",
) -> Iterator[psycopg.Connection]:
    """Open a session in UTC; errors of its statements are foreseen ones.

    Without `autocommit`, one transaction is committed at the end, or rolled back on an error.
    A statement may take `statement_s` seconds; 0 is no limit. `options` are parameters of the
    server's session, such as `-c enable_seqscan=off`.

    Raises:
        InvalidInput: the login is rejected.
        PostgresUnavailable: the server is unreachable, or the connection is lost.
        SchemaMismatch: a table or a column is absent.
        RowRefused: a row breaks a constraint, or does not fit a type.
        PostgresRefused: any other error of a statement.
    """
    limit = f" -c statement_timeout={int(statement_s * 1000)}" if statement_s else ""
    try:
        opened = psycopg.connect(
            **connection.parameters,
            autocommit=autocommit,
            connect_timeout=_CONNECT_S,
            application_name="tidemark",
            options=f"{_SETTINGS}{limit} {options}",
        )
    except psycopg.Error as error:
        raise failure(error, connection) from error
    with foreseen(connection), opened:
        yield opened


@contextmanager
def foreseen(connection: PostgresConnection) -> Iterator[None]:
    """Turn errors of psycopg into foreseen ones."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, connection) from error


def failure(error: psycopg.Error, connection: PostgresConnection) -> TidemarkError:
    """Return an error of psycopg as a foreseen one, whose text has no values of rows."""
    what = " ".join((error.diag.message_primary or str(error)).split())
    if isinstance(error, codes.InsufficientPrivilege):
        return InvalidInput(
            what, where=str(connection), do=f"GRANT the right to the user {connection.user}"
        )
    if isinstance(error, _SCHEMA):
        return SchemaMismatch(what, where=str(connection), do="create it, or correct the name")
    is_rejected = isinstance(error, codes.InvalidAuthorizationSpecification | codes.InvalidPassword)
    if is_rejected or (error.sqlstate is None and "authentication failed" in what):
        return InvalidInput(
            what, where=str(connection), do="correct the user or the password of the connection"
        )
    if error.sqlstate is not None and _OF_ROWS.fullmatch(error.sqlstate):
        return RowRefused(what, where=str(connection))
    if isinstance(error, psycopg.OperationalError):
        return PostgresUnavailable(
            f"PostgreSQL does not answer: {what}",
            where=str(connection),
            do=postgres_remedy(what) or "run again",
        )
    return PostgresRefused(what, where=str(connection))
