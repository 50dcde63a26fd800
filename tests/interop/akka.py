"""The Python side of the Akka client, and journals in PostgreSQL that its entities write.

Entities write at the present time. `AkkaScene.move_to` gives the newest rows times of an hour in
the past, as if the clock of the database had been behind: runs find time buckets that have passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.integration.postgres.databases import Database
from tests.integration.postgres.r2dbc_journal import START, R2dbcJournal
from tests.integration.support import wait_until
from tests.interop.client import Client, Group

RESULT = "seen"
"""The table in which a projection of the client writes a row for each event that it handles."""

PROJECTION_TABLES = (
    "CREATE TABLE akka_projection_offset_store (projection_name varchar(255) NOT NULL,"
    " projection_key varchar(255) NOT NULL, current_offset varchar(255) NOT NULL,"
    " manifest varchar(32) NOT NULL, mergeable boolean NOT NULL, last_updated bigint NOT NULL,"
    " PRIMARY KEY (projection_name, projection_key))",
    "CREATE TABLE akka_projection_management (projection_name varchar(255) NOT NULL,"
    " projection_key varchar(255) NOT NULL, paused boolean NOT NULL,"
    " last_updated bigint NOT NULL, PRIMARY KEY (projection_name, projection_key))",
    f"CREATE TABLE {RESULT} (projection_key text, persistence_id text, seq_nr bigint,"
    " payload text, at timestamptz DEFAULT clock_timestamp())",
)


class SliceEvent(NamedTuple):
    """An event envelope of a query by slices."""

    persistence_id: str
    sequence_nr: int
    moment: datetime
    payload: str
    tags: list[str]


@dataclass(frozen=True)
class AkkaNode:
    """A node, whose entities start and recover with the first command to them."""

    client: Client
    number: int
    schema: str

    def call(self, command: str, **arguments: Any) -> Any:
        """Send a command to this node; `timeout_s` among the arguments is 60 by default."""
        return self.client.call(command, node=self.number, **arguments)

    def close(self) -> None:
        """End the actor system; entities write nothing afterwards."""
        self.call("close")

    def persist(self, writes: Mapping[str, Iterable[Group]], **options: Any) -> list[int]:
        """Persist groups of events of several ids at a time; return the last sequence nrs.

        Args:
            writes: By persistence id the groups, each of which is one transaction.
            options: as_bytes (payloads are byte arrays instead of strings), snapshot_every (a
                snapshot replaces the events before it; only when the entity starts), parallelism
                (10 ids at a time).
        """
        numbers: list[int] = self.call("persist", writes=_listed(writes), **options)
        return numbers

    def start_to_persist(self, writes: Mapping[str, Iterable[Group]]) -> None:
        """Persist as `persist` does, but return at once."""
        self.call("persist", writes=_listed(writes), no_wait=True)

    def stop(self) -> None:
        """Stop all entities, and wait until they have ended."""
        self.call("stop")

    def delete_events_to(self, pid: str, to: int) -> None:
        """Stop the entity, and delete its events up to a sequence nr by EventSourcedCleanup."""
        self.call("cleanup", operation="delete_events_to", id=pid, to=to)

    def delete_all_events(self, pid: str, *, reset: bool) -> None:
        """Stop the entity, and delete its events; with `reset`, numbers begin with 1 again."""
        self.call("cleanup", operation="delete_all_events", id=pid, reset=reset)

    def current(self, entity_type: str, first: int = 0, last: int = 1023) -> list[SliceEvent]:
        """Read `currentEventsBySlices` from the first event to its end."""
        rows = self.call("current", entity_type=entity_type, first_slice=first, last_slice=last)
        return [
            SliceEvent(pid, number, datetime.fromisoformat(moment), payload, tags)
            for pid, number, moment, payload, tags in rows
        ]

    def project(
        self, name: str, entity_type: str, ranges: int, limit: int | None = None
    ) -> AkkaProjection:
        """Start an exactly-once projection; each range handles at most `limit` events."""
        number = self.call(
            "project",
            name=name,
            entity_type=entity_type,
            ranges=ranges,
            limit=limit,
            table=f"{self.schema}.{RESULT}",
        )
        return AkkaProjection(self, number)


def _listed(writes: Mapping[str, Iterable[Group]]) -> list[dict[str, Any]]:
    return [{"id": pid, "groups": list(map(list, of))} for pid, of in writes.items()]


@dataclass(frozen=True)
class AkkaProjection:
    """A running projection of akka-projection-r2dbc."""

    node: AkkaNode
    number: int

    def stop(self) -> None:
        """Stop it in all its slice ranges, and wait until it has ended."""
        self.node.call("stop_projection", projection=self.number)


@dataclass(frozen=True)
class AkkaScene:
    """A journal in PostgreSQL, and a node of an Akka application on it."""

    plugin: R2dbcJournal
    node: AkkaNode

    @classmethod
    def create(
        cls, database: Database, client: Client, settings: Mapping[str, str | int]
    ) -> AkkaScene:
        """Make the tables of the plugin and of the projection, and start a node.

        Args:
            database: A schema of the test's own.
            client: The process of the nodes.
            settings: Further settings of the application, by their paths.
        """
        plugin = R2dbcJournal(database)
        plugin.create()
        for statement in PROJECTION_TABLES:
            database.execute(statement)
        own = {
            "akka.persistence.r2dbc.schema": database.schema,
            "akka.persistence.r2dbc.query.refresh-interval": "200 ms",
            "akka.projection.r2dbc.offset-store.schema": database.schema,
        }
        number = client.call("open", config={**own, **settings})
        return cls(plugin, AkkaNode(client, number, database.schema))

    @property
    def database(self) -> Database:
        return self.plugin.database

    def move_to(self, hour: int) -> None:
        """Move the events that were written since the last call to an hour after START.

        Their order and their distances stay.
        """
        self.database.execute(
            "UPDATE event_journal SET db_timestamp = %s + (db_timestamp - (SELECT min(db_timestamp)"
            " FROM event_journal WHERE db_timestamp > %s)) WHERE db_timestamp > %s",
            START + timedelta(hours=hour),
            *[START + timedelta(days=1)] * 2,
        )

    def seen(self) -> list[tuple[str, int]]:
        """Return persistence id and sequence nr of the rows of the projection, sorted."""
        return sorted(self.database.rows(f"SELECT persistence_id, seq_nr FROM {RESULT}"))

    def wait_for_seen(self, count: int) -> None:
        """Wait until the projection has written so many rows, or more."""
        wait_until(f"{count} rows of the projection", lambda: len(self.seen()) >= count)


def in_order(events: Sequence[SliceEvent]) -> dict[str, list[int]]:
    """Return the sequence nrs of each persistence id, in the order of delivery."""
    numbers: dict[str, list[int]] = {}
    for event in events:
        numbers.setdefault(event.persistence_id, []).append(event.sequence_nr)
    return numbers
