"""Where the read model of a projection is in PostgreSQL, and Tidemark's own tables next to it.

The own tables are in the schema of the read model:

- `tidemark_projection`: a number for each projection, and the highest version that has written.
- `tidemark_projection_offset`: how far each series was consumed, as `projection_offset` in
  Cassandra.
- `tidemark_projection_state`: in mode fold the version and the sequence nr of each state; in mode
  upsert the deleted rows.
- `tidemark_projection_fence`: which run may write a range of slices.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.postgres import catalog
from tidemark.postgres.connections import PostgresConnection, connection
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import Session, session
from tidemark.postgres.statements import statement
from tidemark.project.definition.model import Definition
from tidemark.settings import Settings

PROJECTIONS = "tidemark_projection"
OFFSETS = "tidemark_projection_offset"
STATES = "tidemark_projection_state"
FENCES = "tidemark_projection_fence"
STAGING = "tidemark_staging"
"""The beginning of the names of staging tables."""
_LOCK = 7_431_905_512
"""The advisory lock under which own tables are made: IF NOT EXISTS may fail in two sessions."""
_CREATE = {
    PROJECTIONS: """
        CREATE TABLE IF NOT EXISTS {table} (
            projection_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            projection text NOT NULL UNIQUE,
            definition_version integer NOT NULL)
        """,
    OFFSETS: """
        CREATE TABLE IF NOT EXISTS {table} (
            projection_id integer NOT NULL,
            slice integer NOT NULL,
            persistence_id text COLLATE "C" NOT NULL,
            tag text COLLATE "C" NOT NULL,
            sequence_nr bigint NOT NULL,
            tag_pid_sequence_nr bigint,
            timestamp uuid,
            consumed_at timestamptz NOT NULL,
            snapshot_sequence_nr bigint,
            PRIMARY KEY (projection_id, slice, persistence_id, tag))
        """,
    STATES: """
        CREATE TABLE IF NOT EXISTS {table} (
            projection_id integer NOT NULL,
            persistence_id text COLLATE "C" NOT NULL,
            sequence_nr bigint NOT NULL,
            definition_version integer NOT NULL,
            generation bigint NOT NULL,
            is_deleted boolean NOT NULL,
            PRIMARY KEY (projection_id, persistence_id))
        """,
    FENCES: """
        CREATE TABLE IF NOT EXISTS {table} (
            projection_id integer NOT NULL,
            first_slice integer NOT NULL,
            last_slice integer NOT NULL,
            token bigint GENERATED ALWAYS AS IDENTITY,
            owner text NOT NULL,
            taken_at timestamptz NOT NULL DEFAULT now(),
            batch integer NOT NULL DEFAULT 0,
            PRIMARY KEY (projection_id, first_slice, last_slice))
        """,
}


@dataclass(frozen=True)
class PostgresPlace:
    """The read model of a projection of one journal."""

    connection: PostgresConnection
    schema: str
    table: str
    projection: str

    @classmethod
    def of(cls, settings: Settings, definition: Definition) -> PostgresPlace:
        """Bind a projection to its connection, without any I/O.

        Raises:
            InvalidInput: there is no such connection.
        """
        return cls(
            connection(settings, definition.connection),
            definition.keyspace,
            definition.table,
            definition.subject(settings.journal_keyspace),
        )

    @property
    def target(self) -> TableName:
        """The table of the read model."""
        return TableName(self.schema, self.table)

    def own(self, name: str) -> TableName:
        """Return one of Tidemark's own tables."""
        return TableName(self.schema, name)

    def number(self, opened: Session) -> int | None:
        """Return the number of the projection; None if it has not written yet."""
        if not catalog.exists(opened, self.own(PROJECTIONS)):
            return None
        row = opened.execute(
            statement(
                "SELECT projection_id FROM {table} WHERE projection = %s",
                table=self.own(PROJECTIONS),
            ),
            (self.projection,),
        ).fetchone()
        return None if row is None else int(row[0])


def make_own_tables(place: PostgresPlace) -> None:
    """Make the own tables that the schema of the read model lacks.

    Raises:
        InvalidInput: the user may not create tables there.
        SchemaMismatch: there is no such schema.
    """
    with session(place.connection, autocommit=False) as opened:
        require_schema(opened, place)
        if all(catalog.exists(opened, place.own(name)) for name in _CREATE):
            return
        opened.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        for name, text in _CREATE.items():
            opened.execute(statement(text, table=place.own(name)))


def require_schema(opened: Session, place: PostgresPlace) -> None:
    """Require that the schema exists and that the user may create tables in it.

    Raises:
        InvalidInput: the user may not.
        SchemaMismatch: there is no such schema.
    """
    if not catalog.has_schema(opened, place.schema):
        raise SchemaMismatch(
            f"there is no schema {place.schema}",
            where=str(place.connection),
            do=f"create it, or correct the target of {place.projection}",
        )
    if not catalog.may_create(opened, place.schema):
        user = place.connection.user
        raise InvalidInput(
            f"the user {user} may not create tables in the schema {place.schema}",
            where=str(place.connection),
            do=f"execute GRANT USAGE, CREATE ON SCHEMA {place.schema} TO {user}, for the offsets"
            " next to the read model and for staging tables",
        )
