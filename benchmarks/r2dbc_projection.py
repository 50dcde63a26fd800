"""The real akka-projection-r2dbc over a journal in PostgreSQL, measured as a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.journals import Bench
from benchmarks.measure import Cost, measure
from benchmarks.read_models import LATEST
from embedded.machine import jars
from embedded.machine.java import java_home
from embedded.paths import STATE
from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tests.integration.postgres.r2dbc_journal import R2dbcJournal
from tests.interop import build
from tests.interop.akka import PROJECTION_TABLES
from tidemark.partitioning import keys
from tidemark.window import from_millis

KINDS = ("exactlyOnce", "groupedWithin")
"""A transaction for each event, and one for each group of 20 events: its defaults."""
_SCHEMA = "handled"
_RESULT = "latest"
_RANGES = 4
_SOURCE = Path(__file__).parent / "projecting" / "R2dbcProjecting.scala"
_MAIN = "tidemark.benchmarks.R2dbcProjecting"
_FILL = """\
INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id,
    event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
SELECT i.slice, 'Order', i.persistence_id, n,
    %(start)s + ((n - 1) * %(ids)s + i.nr) * (%(end)s - %(start)s) / (%(ids)s * %(events)s),
    20, '', convert_to(rpad('event ' || n, 100, 'x'), 'UTF8'), false, 'writer', ''
FROM bench_ids i, generate_series(1, %(events)s) n
"""


def command() -> list[str]:
    """Return the command of the program, compiled first if its source or a jar changed.

    Raises:
        EmbeddedError: a jar cannot be fetched.
    """
    libraries = jars.fetch(build.AKKA.jars)
    classes = build.classes([_SOURCE], STATE / "bench" / "r2dbc_projecting", libraries)
    class_path = os.pathsep.join(map(str, [classes, *libraries]))
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(java_home() / "bin" / "java"), "-Xmx1g", level, "-cp", class_path, _MAIN]


@dataclass(frozen=True)
class Handling:
    """A journal in PostgreSQL, and read models next to it."""

    bench: Bench
    """Its `server` is that of PostgreSQL."""
    postgres: PostgresEndpoint
    schema: str = _SCHEMA

    @property
    def journal(self) -> R2dbcJournal:
        """The journal."""
        return R2dbcJournal(Database(self.postgres, self.schema))

    def make_journal(self, ids: int, events: int, span: tuple[int, int]) -> None:
        """Write events of 100 bytes of each persistence id, spread over a span (epoch ms)."""
        with self.postgres.session() as session:
            session.execute(f"CREATE SCHEMA {self.schema}".encode())
        self.journal.create()
        start, end = map(from_millis, span)
        with self.journal.database.session() as session:
            for statement in PROJECTION_TABLES:
                session.execute(statement.encode())
            session.execute("CREATE TABLE bench_ids (nr int, persistence_id text, slice int)")
            with session.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO bench_ids VALUES (%s, %s, %s)",
                    [(nr, f"Order|{nr}", keys.slice_of(f"Order|{nr}")) for nr in range(ids)],
                )
            given = {"ids": ids, "events": events, "start": start, "end": end}
            session.execute(_FILL, given)
            session.execute("VACUUM ANALYZE event_journal")

    def make_read_model(self, table: str) -> None:
        """Make the table of a read model with the last event of each persistence id."""
        self.journal.database.execute(f"CREATE TABLE {table} ({LATEST.columns})")

    def project(self, kind: str, ids: int, events: int) -> Cost:
        """Run one of `KINDS` until it has handled all events, in four ranges of slices.

        Raises:
            RuntimeError: the program failed, or the rows are not those of the last events.
        """
        table = f"{_RESULT}_{kind.lower()}"
        self.make_read_model(table)
        arguments = (self.schema, table, kind, str(_RANGES), str(ids * events))
        variables = {**self.bench.environment(), **self.postgres.environment()}
        cost = measure([*command(), *arguments], variables, self.bench.server)
        self.require_complete(table, ids, events)
        return cost

    def require_complete(self, table: str, ids: int, events: int) -> None:
        """Require the last event of each persistence id.

        Raises:
            RuntimeError: the table has other rows.
        """
        query = f"SELECT count(*), sum(sequence_nr)::bigint FROM {table}"
        [found] = self.journal.database.rows(query)
        if found != (ids, ids * events):
            raise RuntimeError(f"{table} has {found} instead of {(ids, ids * events)}")
