"""A reader of Iceberg tables that shares no code with their writer: DuckDB's extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg


def rows(table: Path, sql: str = "SELECT * FROM events") -> list[tuple[Any, ...]]:
    """Return the rows of a query over the table in a directory, which has the name `events`."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for module in (duckdb_extension_avro, duckdb_extension_iceberg):
            [file] = Path(module.__path__[0]).rglob("*.duckdb_extension")
            connection.load_extension(str(file))
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW events AS SELECT * FROM iceberg_scan('{table}')")
        return connection.sql(sql).fetchall()
