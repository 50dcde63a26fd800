"""The statements that merge staged rows into a read model, by mode.

All statements of a batch are executed in one transaction, with those of its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemark.postgres.identifiers import TableName
from tidemark.postgres.staged import ATTEMPT
from tidemark.postgres.statements import Composed, Statement, joined, statement, type_named
from tidemark.project.definition.model import Mode
from tidemark.project.postgres.types import CAST

ROW = "tidemark_row"
IS_DELETED = "tidemark_is_deleted"
GENERATION = "tidemark_generation"
_STATE = ("sequence_nr", "definition_version", "generation", "is_deleted")

Step = tuple[Composed, Sequence[object]]
"""A statement and its values."""


@dataclass(frozen=True)
class Merge:
    """A merge of staged rows into a read model.

    Attributes:
        target: the table of the read model.
        types: the types of the table's columns that the rows have, in the order of the rows.
        key: the primary key of the table.
        source: the staging table, or a table with the same columns.
        attempts: the tasks whose rows count.
        states: the own table STATES.
        projection_id: the number of the projection.
        version: the version of the definition.
        time_buckets: in mode bucket the time buckets to replace, epoch ms.
        has_deletions: whether the rows have the column IS_DELETED.
    """

    target: TableName
    types: Mapping[str, str]
    key: Sequence[str]
    source: TableName
    attempts: Sequence[int]
    states: TableName
    projection_id: int
    version: int
    time_buckets: Sequence[int]
    has_deletions: bool
    within: tuple[int, int] | None = None
    """Only rows of `source` with these numbers in the column ROW, both ends inclusive."""

    def steps(self, mode: Mode) -> list[Step]:
        """Return the statements of a mode, in their order."""
        return [*_STEPS[mode](self)]

    def preparation(self, mode: Mode) -> list[Step]:
        """Return the statements before `insertion`."""
        return self.steps(mode)[: _BEFORE_INSERTION[mode]]

    def insertion(self, mode: Mode) -> Step:
        """Return the statement that inserts or updates rows."""
        return self.steps(mode)[_BEFORE_INSERTION[mode]]

    def insert(
        self, where: Statement, values: Sequence[object] = (), *, conflict: Statement
    ) -> Step:
        """Return the statement that inserts the staged rows with a condition."""
        selected = [
            statement("s.{name}::{type}", name=name, type=type_named(kind))
            if kind in CAST
            else statement("s.{name}", name=name)
            for name, kind in self.types.items()
        ]
        text = statement(
            "INSERT INTO {target} AS t ({columns}) SELECT {selected} FROM {source} s"
            " WHERE s.{attempt} = ANY(%s) AND {where} {within} {conflict}",
            target=self.target,
            columns=[*self.types],
            selected=joined(", ", selected),
            source=self.source,
            attempt=ATTEMPT,
            where=where,
            within=statement("AND s.{row} BETWEEN %s AND %s", row=ROW)
            if self.within
            else statement(""),
            conflict=conflict,
        )
        return text, [[*self.attempts], *values, *(self.within or ())]

    def replacing(self, *, newest: bool = False) -> Statement:
        """Return ON CONFLICT with the new row in place of the old one; with `newest` if newer."""
        others = [name for name in self.types if name not in self.key]
        if not others:
            return statement("ON CONFLICT ({key}) DO NOTHING", key=[*self.key])
        values = [statement("{name} = excluded.{name}", name=name) for name in others]
        newer = " WHERE t.sequence_nr IS NULL OR t.sequence_nr <= excluded.sequence_nr"
        return statement(
            "ON CONFLICT ({key}) DO UPDATE SET {values}{newer}",
            key=[*self.key],
            values=joined(", ", values),
            newer=statement(newer if newest else ""),
        )


def _replace_buckets(merge: Merge) -> Iterator[Step]:
    yield (
        statement("DELETE FROM {target} WHERE time_bucket = ANY(%s)", target=merge.target),
        [[*merge.time_buckets]],
    )
    yield merge.insert(statement("true"), conflict=statement(""))


def _upsert_events(merge: Merge) -> Iterator[Step]:
    yield merge.insert(statement("true"), conflict=merge.replacing())


def _upsert_newest(merge: Merge) -> Iterator[Step]:
    """Keep the row with the highest sequence nr, also against a deletion."""
    has_row = statement("NOT s.{deleted}", deleted=IS_DELETED) if merge.has_deletions else _TRUE
    is_newest = statement(
        "{has_row} AND NOT EXISTS (SELECT 1 FROM {states} d WHERE d.projection_id = %s"
        " AND d.persistence_id = s.persistence_id AND d.sequence_nr > s.sequence_nr)",
        has_row=has_row,
        states=merge.states,
    )
    yield merge.insert(is_newest, [merge.projection_id], conflict=merge.replacing(newest=True))
    if not merge.has_deletions:
        return
    yield (
        statement(
            "DELETE FROM {target} t USING {source} s WHERE s.{attempt} = ANY(%s) AND s.{deleted}"
            " AND t.persistence_id = s.persistence_id AND t.sequence_nr <= s.sequence_nr",
            target=merge.target,
            source=merge.source,
            attempt=ATTEMPT,
            deleted=IS_DELETED,
        ),
        [[*merge.attempts]],
    )
    yield _note_states(
        merge,
        statement("s.{deleted}", deleted=IS_DELETED),
        statement("0"),
        statement("WHERE t.sequence_nr <= excluded.sequence_nr"),
    )


def _store_states(merge: Merge) -> Iterator[Step]:
    """Store states, which were computed from those in the table under the same fence."""
    deleted = statement("s.{deleted}", deleted=IS_DELETED)
    yield merge.insert(statement("NOT {deleted}", deleted=deleted), conflict=merge.replacing())
    yield (
        statement(
            "DELETE FROM {target} t USING {source} s WHERE s.{attempt} = ANY(%s) AND {deleted}"
            " AND t.persistence_id = s.persistence_id",
            target=merge.target,
            source=merge.source,
            attempt=ATTEMPT,
            deleted=deleted,
        ),
        [[*merge.attempts]],
    )
    generation = statement("s.{generation}", generation=GENERATION)
    yield _note_states(merge, _TRUE, generation, statement(""))


def _note_states(merge: Merge, where: Statement, generation: Statement, newer: Statement) -> Step:
    values = [statement("{name} = excluded.{name}", name=name) for name in _STATE]
    text = statement(
        "INSERT INTO {states} AS t (projection_id, persistence_id, {columns})"
        " SELECT %s, s.persistence_id, s.sequence_nr, %s, {generation}, s.{deleted}"
        " FROM {source} s WHERE s.{attempt} = ANY(%s) AND {where}"
        " ON CONFLICT (projection_id, persistence_id) DO UPDATE SET {values} {newer}",
        states=merge.states,
        columns=_STATE,
        generation=generation,
        deleted=IS_DELETED,
        source=merge.source,
        attempt=ATTEMPT,
        where=where,
        values=joined(", ", values),
        newer=newer,
    )
    return text, [merge.projection_id, merge.version, [*merge.attempts]]


_TRUE = statement("true")
_BEFORE_INSERTION = {Mode.BUCKET: 1, Mode.APPEND: 0, Mode.UPSERT: 0, Mode.FOLD: 0}
"""Numbers of statements before the one that inserts rows."""
_STEPS: Mapping[Mode, Callable[[Merge], Iterator[Step]]] = {
    Mode.BUCKET: _replace_buckets,
    Mode.APPEND: _upsert_events,
    Mode.UPSERT: _upsert_newest,
    Mode.FOLD: _store_states,
}
