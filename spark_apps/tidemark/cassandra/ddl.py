"""Creation of a table like another, which Cassandra itself offers only from 5.1 on."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import SchemaMismatch


def create_table_like(control: Control, keyspace: str, template: str, name: str) -> None:
    """Create a table with the columns, the key and every option of another in its keyspace.

    Indexes and materialized views of the template are not copied. An existing table stays as it
    is. The statement is the server's own (DESCRIBE, since Cassandra 4.0), so it also copies options
    that Tidemark does not know.

    Raises:
        SchemaMismatch: the template does not exist.
        InvalidInput: a name is not an identifier.
    """
    copy = table(keyspace, name)
    if control.table_columns(keyspace, template) is None:
        raise SchemaMismatch(
            f"the table {keyspace}.{template} does not exist", do="create the table first"
        )
    [stated] = [
        row["create_statement"]
        for row in control.execute(f"DESCRIBE TABLE {table(keyspace, template)}")
        if row["type"] == "table"
    ]
    _, bracket, definition = stated.partition("(")
    control.execute_ddl(f"CREATE TABLE IF NOT EXISTS {copy} {bracket}{definition}")
