"""The journals that flights may be loaded into: a new one, or their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest

from examples.flights import run, store
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, schema_statements
from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.journals.pekko import tables
from tidemark.ledger.piece import PieceRow, State
from tidemark.settings import Settings


class FakeControl:
    """A control session that answers like a Cassandra with given tables and persistence ids."""

    def __init__(self, names: Sequence[str], persistence_ids: Sequence[str] = ()) -> None:
        self.columns = {name: dict(tables.SHAPES[name].columns) for name in names}
        self.persistence_ids = persistence_ids

    def has_keyspace(self, keyspace: str) -> bool:
        return bool(self.columns)

    def table_columns(self, keyspace: str, table: str) -> dict[str, str] | None:
        return self.columns.get(table)

    def primary_key(self, keyspace: str, table: str) -> tuple[list[str], list[str]]:
        shape = tables.SHAPES[table]
        return list(shape.partition_key), list(shape.clustering)

    def execute(self, cql: str, values: Sequence[object] = ()) -> list[dict[str, object]]:
        assert cql.startswith("SELECT DISTINCT persistence_id")
        return [{"persistence_id": pid, "partition_nr": 0} for pid in self.persistence_ids]


def check(control: FakeControl) -> None:
    store.require_own_journal(cast(Control, control), Settings(journal_keyspace="flights"))


@pytest.mark.parametrize(
    "control",
    [
        FakeControl([]),
        FakeControl([tables.METADATA]),
        FakeControl(list(tables.SHAPES)),
        FakeControl(list(tables.SHAPES), ["aircraft|N14228", "aircraft|none-US"]),
    ],
    ids=["no keyspace", "some tables", "empty", "flights"],
)
def test_absent_or_own_journals_are_accepted(control: FakeControl) -> None:
    check(control)


def test_a_journal_with_other_events_is_refused_by_name() -> None:
    control = FakeControl(list(tables.SHAPES), ["aircraft|N14228", "cart|7"])
    with pytest.raises(InvalidInput, match=r"such as those of 'cart\|7' \(flights\.messages\)"):
        check(control)


def test_a_table_of_another_shape_is_refused() -> None:
    control = FakeControl(list(tables.SHAPES))
    control.columns[tables.MESSAGES]["timebucket"] = "bigint"
    with pytest.raises(SchemaMismatch, match=r"messages\.timebucket is bigint, expected text"):
        check(control)


def test_a_journal_of_another_definition_is_refused() -> None:
    version = run.definition_version(Settings())
    started = PieceRow(0, State.FAILED, 1, definition_version=version)
    planned = PieceRow(1, State.PLANNED, 0)
    run.require_same_definition([started, planned], version)
    with pytest.raises(InvalidInput, match=r"loaded as 'flights-1, Hour buckets,.* not as 'other'"):
        run.require_same_definition([planned, started], "other")


def test_the_schema_file_has_every_table_and_column_that_is_required() -> None:
    made = {}
    for statement in schema_statements(SCHEMA_DIR / "pekko.cql", "flights"):
        head = re.match(r'CREATE TABLE IF NOT EXISTS "flights"\.(\w+) \(', statement)
        assert head is not None
        columns = re.findall(r"^    ([a-z_]+) ([a-z<>, ]+?)(?: PRIMARY KEY)?,?$", statement, re.M)
        made[head.group(1)] = dict(columns)
    assert set(made) == {*tables.SHAPES, tables.ALL_PERSISTENCE_IDS}
    for name, shape in tables.SHAPES.items():
        assert made[name].items() >= shape.columns.items()
