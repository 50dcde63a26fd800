"""Tidemark's own tables, made by an earlier version or by somebody else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.project.projections import (
    SOME_EVENTS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    totals,
)
from tests.integration.support import Journal
from tidemark.cassandra.schema import SCHEMA_DIR, create_own_tables, stated_tables, table
from tidemark.errors import SchemaMismatch


def test_every_table_is_stated_as_cassandra_has_it(journal: Journal) -> None:
    create_own_tables(journal.control, journal.settings())
    stated = stated_tables(SCHEMA_DIR / "tidemark.cql", journal.own_keyspace)
    text = (SCHEMA_DIR / "tidemark.cql").read_text()
    assert list(stated) == re.findall(r"CREATE TABLE IF NOT EXISTS \S+\.(\w+)", text)
    for name, definition in stated.items():
        assert definition.columns == journal.control.table_columns(journal.own_keyspace, name)
        partition_key, clustering = journal.control.primary_key(journal.own_keyspace, name)
        assert definition.key == {*partition_key, *clustering}


def test_a_column_that_an_earlier_version_did_not_know_is_added(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    journal = make_journal(own_tables=False)
    projections = Projections(journal, tmp_path)
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 1).status == 0
    before = projections.offsets()
    for name, column in (("projection_offset", "snapshot_sequence_nr"), ("piece", "counts")):
        journal.control.execute_ddl(
            f"ALTER TABLE {table(journal.own_keyspace, name)} DROP {column}"
        )
    again = projections.run(0, 2)
    assert again.status == 0, again.stderr
    assert journal.rows("totals") == totals(SOME_EVENTS)
    assert before.keys() <= projections.offsets().keys()
    assert [row["snapshot_sequence_nr"] for row in journal.own_rows("projection_offset")] == [
        None
    ] * len(projections.offsets())


def test_a_table_of_somebody_else_is_refused_in_one_line(
    make_journal: Callable[..., Journal],
) -> None:
    journal = make_journal(own_tables=False)
    create_own_tables(journal.control, journal.settings())
    for name, columns in (
        ("lock", "resource text PRIMARY KEY, owner int, run_id text, taken_at timestamp"),
        ("projection_skipped", "projection text PRIMARY KEY, tag text"),
    ):
        own = table(journal.own_keyspace, name)
        journal.control.execute_ddl(f"DROP TABLE {own}")
        journal.control.execute_ddl(f"CREATE TABLE {own} ({columns})")
    with pytest.raises(SchemaMismatch) as refused:
        create_own_tables(journal.control, journal.settings())
    assert str(refused.value) == (
        "lock.owner is int, expected text; projection_skipped has no key column persistence_id;"
        " projection_skipped has no key column first_number"
        f" ({journal.own_keyspace}); these tables are not Tidemark's, or of a version that is too"
        " old; set another TIDEMARK_KEYSPACE, or move them away"
    )
    columns_now = journal.control.table_columns(journal.own_keyspace, "projection_skipped")
    assert set(columns_now or ()) == {"projection", "tag"}
