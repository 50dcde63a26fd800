"""A journal that tests of the status fill by the product's own functions, without Spark."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cassandra.query import dict_factory

from embedded.cassandra.server import Endpoint
from tests.integration.pool import Pool
from tests.integration.support import Journal
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger.claim import LedgerRecorder
from tidemark.ledger.piece import Piece, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.window import to_millis

HOUR_MS = 3_600_000


@dataclass
class Requests:
    """What a session has asked for: pages of rows, rows in them, and the tables.

    Attributes:
        pages: how many.
        rows: how many.
        tables: the names of the tables.
    """

    pages: int = 0
    rows: int = 0
    tables: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """Begin anew."""
        self.pages = self.rows = 0
        self.tables.clear()


@contextmanager
def counted_requests(journal: Journal) -> Iterator[tuple[RunContext, Requests]]:
    """Yield the context of a reader on a session of its own, and what it has asked for."""
    requests = Requests()

    def factory(names: Sequence[str], rows: Sequence[Any]) -> list[Mapping[str, Any]]:
        requests.pages += 1
        requests.rows += len(rows)
        found: list[Mapping[str, Any]] = dict_factory(names, rows)
        return found

    settings = journal.settings()
    with (
        patch("tidemark.cassandra.cluster.dict_factory", factory),
        Control(settings) as control,
    ):
        run = RunContext("status", settings, control, "status")
        prepare = control._prepare

        def noted(cql: str) -> Any:
            requests.tables |= set(re.findall(r'FROM "?\w+"?\."?(\w+)', cql))
            return prepare(cql)

        control._prepare = noted  # type: ignore[assignment]
        # What connecting has read is not counted.
        requests.forget()
        yield run, requests


@contextmanager
def journal_without_spark(pool: Pool, cassandra: Endpoint, projections: Path) -> Iterator[Journal]:
    """Yield an empty journal, for tests that start no Spark; nothing starts tag-write by time."""
    keyspaces = pool.take()
    yield Journal.over(
        pool.control,
        cassandra.environment(),
        keyspaces.journal,
        keyspaces.own,
        PROJECTIONS_DIR=str(projections),
        CADENCE="off",
    )
    pool.give_back(keyspaces)


def context(journal: Journal, application: str = "status", run_id: str = "r") -> RunContext:
    """Return the context of a run of an application."""
    return RunContext(application, journal.settings(), journal.control, run_id)


def with_settings(journal: Journal, **variables: str) -> Journal:
    """Return the journal with other settings."""
    changed = {f"TIDEMARK_{key}": value for key, value in variables.items()}
    return replace(journal, environment={**journal.environment, **changed})


@dataclass
class Ledger:
    """The ledger of one application on a journal, in Hours from a first one."""

    journal: Journal
    first: datetime
    application: str = "tag-write"
    subject: str = ""
    version: str = ""

    @property
    def pieces(self) -> Pieces:
        return Pieces.of(
            self.journal.control,
            self.journal.settings(),
            self.application,
            self.subject,
            self.version,
        )

    def bucket(self, hour: int) -> int:
        return to_millis(self.first) + hour * HOUR_MS

    def note(self, *hours: int) -> None:
        """Record hours as planned."""
        self.pieces.note([Piece(self.bucket(hour), Reason.NEW) for hour in hours])

    def end(
        self,
        state: State,
        *hours: int,
        error: str | None = None,
        counts: Mapping[str, int] | None = None,
        run: RunContext | None = None,
    ) -> None:
        """Start hours and record how they ended, as a run does."""
        recorder = LedgerRecorder(
            self.pieces, run or context(self.journal, self.application, "fixture")
        )
        started = recorder.start(
            self.pieces.plan([self.bucket(hour) for hour in hours], force=True)
        )
        counted = {piece.time_bucket: counts or {} for piece in started}
        recorder.finish(started, state, counted, error)

    def start(self, *hours: int, run: RunContext) -> None:
        """Start hours and leave them running."""
        LedgerRecorder(self.pieces, run).start(self._plan(hours))

    def _plan(self, hours: Sequence[int]) -> list[Piece]:
        """Plan these hours alone: a plan takes up what is open before them as well."""
        wanted = {self.bucket(hour) for hour in hours}
        planned = self.pieces.plan(wanted, force=True)
        return [piece for piece in planned if piece.time_bucket in wanted]


def insert_finding(
    journal: Journal,
    check: str,
    persistence_id: str,
    *,
    bucket: datetime | None,
    severity: str,
    since: datetime,
) -> None:
    """Insert a finding as validate writes it, with Spark: `store.write_findings`."""
    row = {
        "journal_keyspace": journal.keyspace,
        "time_bucket": -1 if bucket is None else to_millis(bucket),
        "check_name": check,
        "persistence_id": persistence_id,
        "tag": "",
        "number": 3,
        "sequence_nr": 3,
        "timestamp": uuid.uuid1(),
        "row_time_bucket": 0,
        "expected": 2,
        "detail": "1 missing",
        "layer": "messages",
        "severity": severity,
        "state": "open",
        "first_seen": since,
        "last_seen": since,
        "run_id": "r",
    }
    journal.control.execute(
        f"INSERT INTO {table(journal.own_keyspace, 'finding')} ({', '.join(row)})"
        f" VALUES ({', '.join('?' * len(row))})",
        list(row.values()),
    )
