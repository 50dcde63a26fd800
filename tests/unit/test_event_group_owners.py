"""To whom the tables belong that a group writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.event_groups.definition.statement import parse
from tidemark.event_groups.definition.tables import owners
from tidemark.settings import Settings

PROJECTION = """/* projection
name: totals
source: messages
table: shop.totals
mode: bucket
*/
SELECT 1 FORM events
"""


@pytest.mark.parametrize(
    ("table", "owner"),
    [
        ("shop.totals", "the projection totals, as long as its file cannot be used"),
        ("shop.accounts", ""),
        ("tidemark.lock", "Tidemark"),
        ("system_auth.roles", "Cassandra"),
    ],
)
def test_a_projection_file_that_cannot_be_used_keeps_its_table_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, owner: str
) -> None:
    (tmp_path / "totals.sql").write_text(PROJECTION)
    monkeypatch.setenv("TIDEMARK_PROJECTIONS_DIR", str(tmp_path))
    statement = parse(f"UPDATE {table} SET n = 1 WHERE id = 2")
    assert owners(Settings.load())(statement) == owner
