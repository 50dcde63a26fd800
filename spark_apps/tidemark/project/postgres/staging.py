"""Staging tables of a batch: rows that the executors have sent, before they are merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from pyspark.sql import DataFrame

from tidemark.errors import TidemarkError
from tidemark.postgres import copy
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.postgres.staged import Staged
from tidemark.postgres.statements import statement
from tidemark.project.postgres.fence import Fence
from tidemark.project.postgres.place import PostgresPlace

_DROP_S = 60


@contextmanager
def staged(fence: Fence, frame: DataFrame) -> Iterator[Staged]:
    """Send a frame to a staging table, which is dropped at the end of the block.

    If the run dies, the next one drops it.

    Raises:
        PostgresUnavailable, PostgresRefused: from the tasks, or from this session.
    """
    with staged_in(fence.place, fence.staging, frame) as sent:
        yield sent


@contextmanager
def staged_in(place: PostgresPlace, prefix: str, frame: DataFrame) -> Iterator[Staged]:
    """Do the same for a staging table whose name begins with a prefix of `fence`."""
    table = TableName(place.schema, f"{prefix}{uuid4().hex[:12]}")
    with session(place.connection) as opened:
        copy.create_staging(opened, table, frame.schema)
    try:
        yield copy.send(frame, place.connection, table)
    finally:
        # The next run drops it, too; an error here would hide the error of the batch.
        with (
            suppress(TidemarkError),
            session(place.connection, statement_s=_DROP_S) as opened,
        ):
            opened.execute(statement("DROP TABLE IF EXISTS {table}", table=table))
