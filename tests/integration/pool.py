"""A pool of journals that are emptied and used again.

Each change of the schema is slow, and every open connection hears of it. To make a journal and
Tidemark's keyspace beside it takes some twenty changes, to empty them takes none.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables, identifier, table

Shape = Mapping[str, list[Row]]
AT_ONCE = 8
_PARTS = (
    "keyspaces",
    "tables",
    "columns",
    "dropped_columns",
    "indexes",
    "triggers",
    "types",
    "views",
)


def shape(control: Control, *keyspaces: str) -> Shape:
    """Read all that system_schema holds about keyspaces; a table made anew has another id."""
    return {
        part: control.execute(
            f"SELECT * FROM system_schema.{part} WHERE keyspace_name IN ?", [list(keyspaces)]
        )
        for part in _PARTS
    }


def unique_names() -> tuple[str, str]:
    """Return unique names for a journal's keyspace and for Tidemark's own."""
    name = uuid.uuid4().hex[:12]
    return f"j_{name}", f"t_{name}"


def drop_keyspaces(control: Control, *keyspaces: str) -> None:
    """Drop the keyspaces that exist."""
    for keyspace in keyspaces:
        control.execute_ddl(f"DROP KEYSPACE IF EXISTS {identifier(keyspace)}")


@dataclass(frozen=True)
class Keyspaces:
    """A journal's keyspace and Tidemark's own, with their tables as they were made."""

    journal: str
    own: str
    made: Shape

    def tables(self, catalog: Shape) -> set[tuple[str, str]]:
        """Return the keyspace and name of each table."""
        return {(row["keyspace_name"], row["table_name"]) for row in catalog["tables"]}


@dataclass
class Pool:
    """The empty journals of one worker that no test uses at present."""

    control: Control
    _free: list[Keyspaces] = field(default_factory=list)

    def take(self) -> Keyspaces:
        """Return an empty journal with all of Tidemark's tables, empty as well."""
        return self._free.pop() if self._free else self._make()

    def give_back(self, used: Keyspaces) -> None:
        """Empty a journal for the next test, or drop it if its tables have been changed.

        TRUNCATE removes rows and tombstones; the tombstones of a DELETE would hide rows that are
        written later with lower timestamps. Tables that a test has added are dropped.
        """
        catalog = shape(self.control, used.journal, used.own)
        if added := used.tables(catalog) - used.tables(used.made):
            for keyspace, name in added:
                self.control.execute_ddl(f"DROP TABLE {table(keyspace, name)}")
            catalog = shape(self.control, used.journal, used.own)
        if catalog != used.made:
            drop_keyspaces(self.control, used.journal, used.own)
            return
        statements = [f"TRUNCATE {table(*names)}" for names in used.tables(catalog)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(self.control.execute_ddl, statements))
        self._free.append(used)

    def _make(self) -> Keyspaces:
        journal, own = unique_names()
        for keyspace, file in ((journal, "pekko.cql"), (own, "tidemark.cql")):
            # Without durable writes TRUNCATE drops rows in memory; otherwise it first stores them.
            self.control.execute_ddl(
                f"CREATE KEYSPACE {identifier(keyspace)} WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = false"
            )
            create_tables(self.control, SCHEMA_DIR / file, keyspace)
        return Keyspaces(journal, own, shape(self.control, journal, own))
