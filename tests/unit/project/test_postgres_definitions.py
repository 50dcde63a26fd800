"""Definitions whose target is in PostgreSQL, and what such a target does not support."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import DefinitionError
from tidemark.project.definition import catalog, file
from tidemark.project.definition.model import Mode
from tidemark.project.definition.target import CAPABILITIES, TargetKind

SQL = """\
/*---
name: one
version: 2
source: messages
mode: {mode}
target: {target}
event: amount INT{more}
---*/

SELECT time_bucket, persistence_id, sequence_nr, amount FROM events
"""
TARGET = "postgres://shop/read.orders"


def define(directory: Path, target: str, mode: str = "bucket", more: str = "") -> Path:
    path = directory / "one.sql"
    path.write_text(SQL.format(mode=mode, target=target, more=more))
    return path


def test_a_target_has_a_connection_a_schema_and_a_table(tmp_path: Path) -> None:
    definition = file.read(define(tmp_path, TARGET))
    assert (definition.connection, definition.keyspace, definition.table) == (
        "shop",
        "read",
        "orders",
    )
    assert definition.target == definition.template_target == TARGET


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("postgres://shop/orders", "is not `postgres://connection/schema.table`"),
        ("postgres://Shop/read.orders", "is not `postgres://connection/schema.table`"),
        ("postgres://user:secret@host/read.orders", "the target has an address in it"),
        (f"postgres://shop/read.{'x' * 64}", "not a name that PostgreSQL accepts"),
    ],
)
def test_other_targets_are_rejected(tmp_path: Path, target: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as rejected:
        file.read(define(tmp_path, target))
    assert "secret" not in str(rejected.value)
    assert "\n" not in str(rejected.value)


@pytest.mark.parametrize("mode", [Mode.EXPORT])
def test_other_modes_are_rejected(tmp_path: Path, mode: Mode) -> None:
    assert mode not in CAPABILITIES[TargetKind.POSTGRES].modes
    with pytest.raises(DefinitionError, match=f"mode {mode} does not write to PostgreSQL"):
        file.read(define(tmp_path, TARGET, mode))


def test_blue_green_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="release blue-green does not fit a target in Postg"):
        file.read(define(tmp_path, TARGET, more="\nrelease: blue-green"))


def test_rollups_do_not_read_postgres(tmp_path: Path) -> None:
    define(tmp_path, TARGET)
    (tmp_path / "two.sql").write_text(
        "/*---\nname: two\nversion: 1\nsource: {read-model: one}\nmode: rollup\n"
        "target: read.two\n---*/\n\nSELECT sum(amount) AS n FROM one\n"
    )
    (unusable,) = catalog.read_all(tmp_path).unusable
    assert "mode rollup does not read PostgreSQL" in str(unusable.error)
