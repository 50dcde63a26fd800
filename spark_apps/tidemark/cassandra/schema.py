"""Creation of tables from schema files, and checks of tables that other programs created."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.installation import SHIPPED
from tidemark.settings import Settings

SCHEMA_DIR = SHIPPED / "sql" / "schema"
_LEDGER = "ledger"
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TABLE = re.compile(r'CREATE TABLE IF NOT EXISTS "[^"]+"\.(\w+) \((.*)\)', re.DOTALL)
_COLUMN = re.compile(r"^\s+([a-z_]+) ([a-z<>, ]+?)( static)?( PRIMARY KEY)?,?$", re.MULTILINE)
_KEY = re.compile(r"^\s+PRIMARY KEY (.*)", re.MULTILINE)


@dataclass(frozen=True)
class TableShape:
    """The required shape of a table: CQL types by column, and the primary key in order.

    `older_clustering` are the clustering columns of an older, equally accepted form of the table.
    """

    columns: Mapping[str, str]
    partition_key: tuple[str, ...]
    clustering: tuple[str, ...] = ()
    older_clustering: tuple[str, ...] | None = None


@dataclass(frozen=True)
class StatedTable:
    """A table as a schema file states it: CQL types by column, the key and the static columns."""

    columns: Mapping[str, str]
    key: frozenset[str]
    static: frozenset[str] = frozenset()


def identifier(name: str) -> str:
    """Return a keyspace, table or column name, quoted for CQL.

    Raises:
        InvalidInput: the name is not an identifier.
    """
    if not _IDENTIFIER.fullmatch(name):
        raise InvalidInput(
            f"not a name Cassandra accepts: {name!r}",
            do="use letters, digits and _, at most 48, a letter first",
        )
    return f'"{name}"'


def table(keyspace: str, name: str) -> str:
    """Return `"keyspace"."table"` for CQL."""
    return f"{identifier(keyspace)}.{identifier(name)}"


def schema_statements(file: Path, keyspace: str) -> list[str]:
    """Return the statements of a schema file, with the validated keyspace for `${keyspace}`."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("--")]
    text = "\n".join(lines).replace("${keyspace}", identifier(keyspace))
    return [part.strip() for part in text.split(";") if part.strip()]


def create_keyspace(control: Control, keyspace: str, replication: Mapping[str, str]) -> None:
    """Create the keyspace unless it exists.

    Raises:
        InvalidInput: keyspace or replication are not only identifiers and numbers.
    """
    if control.has_keyspace(keyspace):
        return
    if not all(
        re.fullmatch(r"[A-Za-z0-9_.-]+", part) for pair in replication.items() for part in pair
    ):
        raise InvalidInput(
            f"replication cannot be used: {json.dumps(dict(replication))}",
            where="TIDEMARK_REPLICATION",
            do='write JSON such as {"class": "NetworkTopologyStrategy", "dc1": "3"}',
        )
    options = ", ".join(f"'{key}': '{value}'" for key, value in replication.items())
    control.execute_ddl(
        f"CREATE KEYSPACE IF NOT EXISTS {identifier(keyspace)} WITH replication = {{{options}}}"
    )


def create_own_tables(control: Control, settings: Settings) -> None:
    """Create Tidemark's own keyspace and tables unless they exist, and add missing columns."""
    create_keyspace(control, settings.keyspace, settings.replication)
    create_tables(control, SCHEMA_DIR / "tidemark.cql", settings.keyspace)
    add_missing_columns(control, SCHEMA_DIR / "tidemark.cql", settings.keyspace)
    if len(control.data_centers()) > 1:
        _require_one_data_center(control, settings)


def _require_one_data_center(control: Control, settings: Settings) -> None:
    """Reject consistency levels of another data centre than those of earlier runs.

    QUORUM over all data centres and LOCAL_QUORUM in one may have no replica in common, and
    LOCAL_SERIAL excludes nothing that happens in another data centre.

    Raises:
        InvalidInput: the levels do not match.
    """
    data_center = settings.cassandra_local_dc if settings.cassandra_local_levels else ""
    name = table(settings.keyspace, "data_center")
    rows = control.read_everywhere(f"SELECT name FROM {name} WHERE subject = '{_LEDGER}'")
    if not rows:
        cql = f"INSERT INTO {name} (subject, name, set_at) VALUES (?, ?, ?) IF NOT EXISTS"
        [(_, existing)] = control.applied_everywhere(cql, [(_LEDGER, data_center, clock.now())])
        # Another run may have been first, or the statement was sent twice.
        rows = [existing] if existing else [{"name": data_center}]
    if rows[0]["name"] != data_center:
        raise InvalidInput(
            f"the ledger is written at levels of {_scope(rows[0]['name'])}, and the settings are of"
            f" {_scope(data_center)}: a run could miss what the last one wrote",
            where="TIDEMARK_CASSANDRA_LOCAL_DC, TIDEMARK_CASSANDRA_CONSISTENCY,"
            " TIDEMARK_CASSANDRA_SERIAL_CONSISTENCY",
            do=f"set those of the earlier runs; to change them, see docs/cluster.md ({name})",
        )


def _scope(data_center: str) -> str:
    return f"data centre {data_center}" if data_center else "all data centres"


def create_tables(control: Control, file: Path, keyspace: str) -> None:
    """Create the tables of a schema file unless they exist.

    A statement changes the schema of the whole cluster even if the table exists, so only those of
    missing tables are sent.
    """
    existing = {
        row["table_name"]
        for row in control.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", (keyspace,)
        )
    }
    for statement in schema_statements(file, keyspace):
        match = _TABLE.match(statement)
        if match is None or match[1] not in existing:
            control.execute_ddl(statement)


def stated_tables(file: Path, keyspace: str) -> dict[str, StatedTable]:
    """Return the tables of one of Tidemark's schema files, which have one column per line."""
    tables = {}
    for statement in schema_statements(file, keyspace):
        if match := _TABLE.match(statement):
            columns = _COLUMN.findall(match[2])
            inline = [name for name, *_, is_key in columns if is_key]
            key = _KEY.search(match[2])
            names = re.findall(r"\w+", key[1]) if key else inline
            tables[match[1]] = StatedTable(
                {name: kind for name, kind, *_ in columns},
                frozenset(names),
                frozenset(name for name, _, is_static, _ in columns if is_static),
            )
    return tables


def add_missing_columns(control: Control, file: Path, keyspace: str) -> None:
    """Add missing columns to the existing tables of a schema file; leave other columns as they are.

    An added column is null in existing rows, so null must be the right value for them.

    Raises:
        SchemaMismatch: a key column is missing, or a column has another type.
    """
    actual: dict[str, dict[str, str]] = {}
    for row in control.execute(
        "SELECT table_name, column_name, type FROM system_schema.columns WHERE keyspace_name = ?",
        (keyspace,),
    ):
        actual.setdefault(row["table_name"], {})[row["column_name"]] = row["type"]
    tables = stated_tables(file, keyspace)
    problems = [
        f"{name} has no key column {column}"
        if column not in actual[name]
        else f"{name}.{column} is {actual[name][column]}, expected {kind}"
        for name, stated_table in tables.items()
        if name in actual
        for column, kind in stated_table.columns.items()
        if actual[name].get(column, "" if column in stated_table.key else kind) != kind
    ]
    if problems:
        raise SchemaMismatch(
            "; ".join(problems),
            where=keyspace,
            do="these tables are not Tidemark's, or of a version that is too old; set another"
            " TIDEMARK_KEYSPACE, or move them away",
        )
    for name, stated_table in tables.items():
        for column in stated_table.columns.keys() - actual.get(name, stated_table.columns).keys():
            # IF NOT EXISTS, because two runs may find the column missing at once.
            control.execute_ddl(
                f"ALTER TABLE {table(keyspace, name)}"
                f" ADD IF NOT EXISTS {identifier(column)} {stated_table.columns[column]}"
                + (" static" if column in stated_table.static else "")
            )


def default_time_to_live(control: Control, keyspace: str, name: str) -> int | None:
    """Read a table's default TTL in seconds, 0 for none; None if there is no such table."""
    rows = control.execute(
        "SELECT default_time_to_live FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (keyspace, name),
    )
    return rows[0]["default_time_to_live"] if rows else None


def require_tables(
    control: Control,
    keyspace: str,
    shapes: Mapping[str, TableShape],
    *,
    made_by: str,
    setting: str,
) -> None:
    """Reject a keyspace whose tables are missing or have another shape; allow extra columns.

    `setting` is the environment variable of the keyspace, for messages.

    Raises:
        SchemaMismatch: with every difference.
    """
    if not control.has_keyspace(keyspace):
        raise SchemaMismatch(
            f"keyspace {keyspace} does not exist",
            where=setting,
            do=f"set it to the right keyspace, or let {made_by} create this one first",
        )
    problems = [
        problem
        for name, shape in shapes.items()
        for problem in _differences(control, keyspace, name, shape)
    ]
    if problems:
        raise SchemaMismatch(
            "; ".join(problems), where=keyspace, do=f"compare with the tables that {made_by} makes"
        )


def _differences(control: Control, keyspace: str, name: str, shape: TableShape) -> Iterable[str]:
    actual = control.table_columns(keyspace, name)
    if actual is None:
        yield f"table {name} does not exist"
        return
    for column, kind in shape.columns.items():
        if column not in actual:
            yield f"{name} has no column {column}"
        elif actual[column] != kind:
            yield f"{name}.{column} is {actual[column]}, expected {kind}"
    partition_key, clustering = control.primary_key(keyspace, name)
    if tuple(partition_key) != shape.partition_key or tuple(clustering) not in (
        shape.clustering,
        shape.older_clustering,
    ):
        yield (
            f"the primary key of {name} is {_key(partition_key, clustering)},"
            f" expected {_key(shape.partition_key, shape.clustering)}"
        )


def _key(partition_key: Iterable[str], clustering: Iterable[str]) -> str:
    return f"(({', '.join(partition_key)}){''.join(', ' + name for name in clustering)})"


def create_table_like(control: Control, keyspace: str, template: str, name: str) -> None:
    """Create a table with the columns, the key and every option of another in its keyspace.

    Indexes and materialized views of the template are not copied. An existing table stays as it is.
    The statement comes from the server (DESCRIBE, since Cassandra 4.0), so it has options that
    Tidemark does not know, too.

    Raises:
        SchemaMismatch: the template does not exist.
    """
    copy = table(keyspace, name)
    if control.table_columns(keyspace, template) is None:
        raise SchemaMismatch(
            f"the table {keyspace}.{template} does not exist", do="create the table first"
        )
    [create_statement] = [
        row["create_statement"]
        for row in control.execute(f"DESCRIBE TABLE {table(keyspace, template)}")
        if row["type"] == "table"
    ]
    _, bracket, definition = create_statement.partition("(")
    control.execute_ddl(f"CREATE TABLE IF NOT EXISTS {copy} {bracket}{definition}")
