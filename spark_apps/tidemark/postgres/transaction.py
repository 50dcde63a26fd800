"""A transaction that stays open over several steps, and whose end is known in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from tidemark.errors import PostgresRefused, TidemarkError
from tidemark.postgres.connections import PostgresConnection
from tidemark.postgres.session import Session, failure, foreseen, session


class Transaction:
    """One transaction in a session of its own."""

    def __init__(self, connection: PostgresConnection, opened: Session) -> None:
        """Bind to a session that `begun` has opened."""
        self._connection, self._session = connection, opened

    def execute(
        self, query: sql.Composed, values: Sequence[Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a statement.

        Raises:
            RowRefused: a row breaks a constraint, or does not fit a type.
            PostgresRefused: another error of the statement.
            PostgresUnavailable: the connection is lost.
        """
        with foreseen(self._connection):
            return self._session.execute(query, values)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo the block, and only the block, if it raises an error."""
        with foreseen(self._connection), self._session.transaction():
            yield

    def commit(self, is_committed: Callable[[Session], bool]) -> None:
        """Commit; if the connection is lost meanwhile, `is_committed` finds out in a new session.

        Raises:
            PostgresUnavailable: the transaction was rolled back, or nobody knows.
            PostgresRefused: the transaction was rolled back.
        """
        try:
            ended = self._session.execute("COMMIT")
        except psycopg.OperationalError as error:
            with session(self._connection) as opened:
                if is_committed(opened):
                    return
            raise failure(error, self._connection) from error
        except psycopg.Error as error:
            raise failure(error, self._connection) from error
        if ended.statusmessage != "COMMIT":
            # PostgreSQL answers COMMIT with ROLLBACK, and no error, if a statement has failed.
            raise PostgresRefused(
                "the transaction was rolled back, since a statement of it has failed",
                where=str(self._connection),
            )

    def roll_back(self) -> None:
        """Undo everything."""
        with foreseen(self._connection):
            self._session.execute("ROLLBACK")


@contextmanager
def begun(connection: PostgresConnection, *, idle_s: int) -> Iterator[Transaction]:
    """Begin a transaction, and roll it back at the end of the block unless it is committed.

    The server ends a transaction that has no statement for `idle_s` seconds, so that a process that
    hangs blocks no other. Constraints are checked at once, also if they are deferred, so that no
    row fails in COMMIT.
    """
    with session(connection) as opened:
        opened.execute("BEGIN")
        opened.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
            (str(idle_s * 1000),),
        )
        opened.execute("SET CONSTRAINTS ALL IMMEDIATE")
        transaction = Transaction(connection, opened)
        try:
            yield transaction
        finally:
            # psycopg commits what is open at the end of a session. If the connection is lost, the
            # server rolls back, and an error here would hide the one of the block.
            with suppress(TidemarkError):
                transaction.roll_back()
