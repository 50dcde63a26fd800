"""To whom the tables belong that a group writes or selects from."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tidemark.cassandra.control import Control
from tidemark.errors import DefinitionError
from tidemark.event_groups.definition import file
from tidemark.event_groups.definition.statement import parse
from tidemark.event_groups.definition.tables import Owner, check, owners
from tidemark.settings import Settings

PROJECTION = """/* projection
name: totals
source: messages
table: shop.totals
mode: bucket
*/
SELECT 1 FORM events
"""


OF_A_BROKEN_FILE = "the projection totals, as long as its file cannot be used"


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    """Return what tells to whom tables belong, with a projection file that cannot be used."""
    (tmp_path / "totals.sql").write_text(PROJECTION)
    monkeypatch.setenv("TIDEMARK_PROJECTIONS_DIR", str(tmp_path))
    return owners(Settings.load())


@pytest.mark.parametrize(
    ("table", "writes", "selects"),
    [
        ("shop.totals", OF_A_BROKEN_FILE, ""),
        ("shop.accounts", "", ""),
        ("tidemark.lock", "Tidemark", "Tidemark"),
        ("tidemark.before_image", "Tidemark", "Tidemark"),
        ("system_auth.roles", "Cassandra", "Cassandra"),
        ("system.local", "Cassandra", "Cassandra"),
        ("SYSTEM_views.clients", "Cassandra", "Cassandra"),
        *(
            (f"pekko.{name}", "Pekko", "")
            for name in (
                *("messages", "metadata", "all_persistence_ids", "tag_views"),
                *("tag_write_progress", "tag_scanning"),
            )
        ),
        ("pekko_snapshot.snapshots", "Pekko", ""),
        ("pekko_projection.offset_store", "Pekko", ""),
        ("pekko_projection.projection_management", "Pekko", ""),
        *(
            (f"journal.{name}", "kafka-journal", "")
            for name in ("journal", "metajournal", "pointer2", "setting", "locks")
        ),
        ("pekko.accounts", "", ""),
        ("shop.metadata", "", ""),
    ],
)
def test_nobody_writes_tables_of_others_and_nobody_reads_those_of_cassandra_and_tidemark(
    owner: Owner, table: str, writes: str, selects: str
) -> None:
    for text in (
        f"UPDATE {table} SET n = 1 WHERE id = 2",
        f"INSERT INTO {table} (id) VALUES (2)",
        f"DELETE FROM {table} WHERE id = 2",
    ):
        assert owner(parse(text)) == writes
    assert owner(parse(f"SELECT n FROM {table} WHERE id = 2")) == selects


def test_tables_of_a_journal_are_those_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        *(("PROJECTIONS_DIR", str(tmp_path)), ("JOURNAL_KEYSPACE", "j"), ("JOURNAL_TABLE", "e")),
        *(("SNAPSHOT_KEYSPACE", "s"), ("SNAPSHOT_TABLE", "t"), ("METADATA_TABLE", "m")),
        *(("ALL_PERSISTENCE_IDS_TABLE", "a"), ("EVENTS_BY_TAG_TABLE", "v")),
    ):
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
    owner = owners(Settings.load())
    for table in ("j.e", "j.m", "j.a", "j.v", "s.t"):
        assert owner(parse(f"DELETE FROM {table} WHERE id = 2")) == "Pekko"
    assert owner(parse("DELETE FROM j.messages WHERE id = 2")) == ""


@pytest.mark.parametrize("table", ["system_auth.roles", "tidemark.named_result"])
def test_a_group_that_selects_what_nobody_reads_is_rejected_at_its_place(
    tmp_path: Path, owner: Owner, table: str
) -> None:
    group = tmp_path / "group.yaml"
    group.write_text(f"group: g\nevents: [{{name: a, statement: SELECT n FROM {table}}}]")
    definition, fault = file.load(group)
    with pytest.raises(DefinitionError, match=f"{table} belongs to .*group.yaml:2:"):
        check(cast("Control", None), owner, definition, fault)
