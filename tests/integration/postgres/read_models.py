"""Projections whose read models are in a schema of the embedded PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.integration.postgres.databases import Database
from tests.integration.project.projections import Projections

UPSERT = """\
/*---
name: latest
version: {version}
source: messages
mode: upsert
target: {target}
event: kind STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, kind, amount, kind = 'gone' AS deleted FROM events
"""
UPSERT_COLUMNS = "persistence_id text PRIMARY KEY, sequence_nr bigint, kind text, amount int"
APPEND = """\
/*---
name: log
version: {version}
source: messages
mode: append
target: {target}
event: kind STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, timestamp AS at, kind, amount FROM events
"""
APPEND_COLUMNS = (
    "persistence_id text, sequence_nr bigint, at {timestamp}, kind text, amount int,"
    " PRIMARY KEY ({key})"
)
BUCKET = """\
/*---
name: totals
version: {version}
source: messages
mode: bucket
target: {target}
event: kind STRING, amount INT
---*/

SELECT time_bucket, kind, count(*) AS n, sum(amount) AS total FROM events
GROUP BY time_bucket, kind
"""
BUCKET_COLUMNS = "time_bucket bigint, kind text, n bigint, total bigint, PRIMARY KEY ({key})"
FOLD = '''\
from tidemark.projection import projection


@projection(
    name="balances",
    version={version},
    source="messages",
    mode="fold",
    target="{target}",
    event="kind STRING, amount INT",
    state="balance BIGINT, kinds ARRAY<STRING>",
)
def balance(state, events):
    """Add up the amounts; `gone` removes the state."""
    for event in events.itertuples():
        if event.kind == "gone":
            state = None
            continue
        state = state or {{"balance": 0, "kinds": []}}
        state = {{
            "balance": state["balance"] + int(event.amount),
            "kinds": [*state["kinds"], event.kind],
        }}
    return state
'''
FOLD_COLUMNS = "persistence_id text PRIMARY KEY, sequence_nr bigint, balance bigint, kinds {texts}"


@dataclass(frozen=True)
class ReadModel:
    """A definition, its table, and the columns to compare."""

    table: str
    file: str
    definition: str
    columns: str
    key: str = ""

    def of_postgres(self, database: Database, version: int = 1) -> str:
        target = f"postgres://embedded/{database.schema}.{self.table}"
        return self.definition.format(version=version, target=target)

    def of_cassandra(self, keyspace: str, version: int = 1) -> str:
        return self.definition.format(version=version, target=f"{keyspace}.{self.table}")


READ_MODELS = {
    "upsert": ReadModel("latest", "latest.sql", UPSERT, UPSERT_COLUMNS),
    "append": ReadModel("log", "log.sql", APPEND, APPEND_COLUMNS, "(persistence_id), sequence_nr"),
    "bucket": ReadModel("totals", "totals.sql", BUCKET, BUCKET_COLUMNS, "(time_bucket), kind"),
    "fold": ReadModel("balances", "balances.py", FOLD, FOLD_COLUMNS),
}


def make_tables(model: ReadModel, database: Database, projections: Projections) -> None:
    """Make the table of a read model in both databases."""
    keyspace = projections.journal.keyspace
    columns = model.columns.format(key=model.key, timestamp="timestamp", texts="list<text>")
    projections.journal.control.execute_ddl(f"CREATE TABLE {keyspace}.{model.table} ({columns})")
    columns = model.columns.format(
        key=model.key.replace("(", "").replace(")", ""), timestamp="timestamptz", texts="text[]"
    )
    database.execute(f"CREATE TABLE {model.table} ({columns})")


def rows_in(database: Database, table: str) -> list[tuple[Any, ...]]:
    """Return all rows of a table, in an order that does not depend on their places."""
    return sorted(database.rows(f"SELECT * FROM {table}"), key=repr)
