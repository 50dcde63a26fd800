"""The fence of a read model: which run may write a range of slices.

A run takes a token when it begins, under its lock in Cassandra, and each of its transactions
requires the token. A run that has lost its lock therefore cannot commit once another run has begun,
and a run that begins sees all that earlier runs have committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import LockLost
from tidemark.partitioning.keys import SliceRange
from tidemark.postgres import catalog
from tidemark.postgres.session import Session, session
from tidemark.postgres.statements import statement
from tidemark.postgres.transaction import Transaction
from tidemark.project.definition.model import Definition
from tidemark.project.postgres.place import (
    FENCES,
    PROJECTIONS,
    STAGING,
    PostgresPlace,
    make_own_tables,
)


@dataclass(frozen=True)
class Fence:
    """The right of a run to write a range of slices of a read model."""

    place: PostgresPlace
    projection_id: int
    token: int

    @property
    def staging(self) -> str:
        """The beginning of the names of this run's staging tables."""
        return f"{_staging_of(self.projection_id)}{self.token}_"

    def hold(self, transaction: Transaction, batch: int) -> None:
        """Keep other runs out until the transaction ends, and record the batch's number.

        Raises:
            LockLost: another run has begun.
        """
        held = transaction.execute(
            statement(
                "UPDATE {fences} SET batch = %s WHERE projection_id = %s AND token = %s",
                fences=self.place.own(FENCES),
            ),
            (batch, self.projection_id, self.token),
        )
        if held.rowcount != 1:
            raise self._lost()

    def has_committed(self, opened: Session, batch: int) -> bool:
        """Return whether the transaction of a batch was committed; waits until it has ended.

        Raises:
            LockLost: another run has begun.
        """
        row = opened.execute(
            statement(
                "SELECT batch FROM {fences} WHERE projection_id = %s AND token = %s FOR UPDATE",
                fences=self.place.own(FENCES),
            ),
            (self.projection_id, self.token),
        ).fetchone()
        if row is None:
            raise self._lost()
        return int(row[0]) == batch

    def _lost(self) -> LockLost:
        return LockLost(
            f"another run writes {self.place.target} now",
            where=str(self.place.connection),
            do="nothing of the batch was written; run again",
        )


def take(place: PostgresPlace, definition: Definition, slices: SliceRange, owner: str) -> Fence:
    """Take the fence of some slices, and drop the staging tables of runs that have lost theirs.

    Call it under the lock of the slices, before offsets are read. It waits for transactions of
    earlier runs.

    Raises:
        DefinitionError: a higher version of the definition has already written.
        InvalidInput, SchemaMismatch: see `make_own_tables`.
    """
    make_own_tables(place)
    with session(place.connection, autocommit=False) as opened:
        projection_id = _number(opened, place, definition)
        _delete(opened, place, projection_id, slices)
        row = opened.execute(
            statement(
                "INSERT INTO {fences} (projection_id, first_slice, last_slice, owner)"
                " VALUES (%s, %s, %s, %s) RETURNING token",
                fences=place.own(FENCES),
            ),
            (projection_id, slices.first, slices.last, owner),
        ).fetchone()
        assert row is not None  # noqa: S101 - the statement returns its row
        fence = Fence(place, projection_id, int(row[0]))
    _drop_staging(fence)
    return fence


def revoke(opened: Session, place: PostgresPlace, projection_id: int, slices: SliceRange) -> None:
    """Take the right to write from all runs on some slices, for a change by hand."""
    _delete(opened, place, projection_id, slices)


def staging_by_hand(projection_id: int) -> str:
    """Return the beginning of the names of staging tables of a change by hand, which has no token.

    The next run drops what a killed change has left.
    """
    return f"{_staging_of(projection_id)}0_"


def _number(opened: Session, place: PostgresPlace, definition: Definition) -> int:
    """Return the projection's number; the row stays locked until the end of the transaction."""
    row = opened.execute(
        statement(
            "INSERT INTO {projections} AS p (projection, definition_version) VALUES (%s, %s)"
            " ON CONFLICT (projection) DO UPDATE"
            " SET definition_version = greatest(p.definition_version, excluded.definition_version)"
            " RETURNING projection_id, definition_version",
            projections=place.own(PROJECTIONS),
        ),
        (place.projection, definition.version),
    ).fetchone()
    assert row is not None  # noqa: S101 - the statement returns its row
    number, version = row
    if version > definition.version and definition.mode.is_versioned:
        raise definition.error(
            f"{definition.target} has rows of version {version} of {definition.name}, and this is"
            f" version {definition.version}",
            f"write `version: {version + 1}`",
            definition.header_lines["version"],
        )
    return int(number)


def _delete(opened: Session, place: PostgresPlace, projection_id: int, slices: SliceRange) -> None:
    opened.execute(
        statement(
            "DELETE FROM {fences}"
            " WHERE projection_id = %s AND first_slice <= %s AND last_slice >= %s",
            fences=place.own(FENCES),
        ),
        (projection_id, slices.last, slices.first),
    )


def _staging_of(projection_id: int) -> str:
    return f"{STAGING}_{projection_id}_"


def _drop_staging(fence: Fence) -> None:
    """Drop the staging tables of runs that have no fence any more."""
    place, prefix = fence.place, _staging_of(fence.projection_id)
    with session(place.connection) as opened:
        rows = opened.execute(
            statement(
                "SELECT token FROM {fences} WHERE projection_id = %s", fences=place.own(FENCES)
            ),
            (fence.projection_id,),
        ).fetchall()
        alive = {str(token) for (token,) in rows}
        for table in catalog.tables_like(opened, place.schema, prefix):
            if table.table.removeprefix(prefix).partition("_")[0] not in alive:
                opened.execute(statement("DROP TABLE IF EXISTS {table}", table=table))
