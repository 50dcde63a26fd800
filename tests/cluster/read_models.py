"""Four projections over one journal, and an environment in which workers have a Python only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.cluster.accounts import events
from tests.integration.project import fold_books
from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
)
from tests.integration.support import Journal
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import create_own_tables

DECODED = """\
/*---
name: decoded
version: 1
source: messages
mode: upsert
target: {keyspace}.decoded
event: kind STRING, amount INT
decoders:
  - {serializer-id: 20, kind: python, function: "readers:read"}
---*/

SELECT persistence_id, sequence_nr, kind, amount FROM events
"""
READERS = """\
import json


def read(payloads):
    return payloads.map(json.loads)
"""
READ_MODELS = ("totals", "latest", "books", "decoded")


def define(journal: Journal, directory: Path) -> Projections:
    """Write the events of a journal, and define by SQL, by a decoder in Python and as a fold."""
    directory.mkdir()
    projections = Projections(journal, directory)
    projections.insert_messages(*events())
    projections.list_persistence_ids()
    create_own_tables(journal.control, journal.settings())
    projections.define(TOTALS, TOTALS_TABLE, "totals.sql")
    projections.define(LATEST, LATEST_TABLE, "latest.sql")
    projections.define(DECODED, LATEST_TABLE.replace(".latest", ".decoded"), "decoded.sql")
    (directory / "readers.py").write_text(READERS)
    fold_books.define(projections, table=fold_books.TABLE)
    return projections


def read_models(projections: Projections) -> Mapping[str, list[Row]]:
    return {name: projections.journal.rows(name) for name in READ_MODELS}


def with_workers(projections: Projections, python: Path) -> Journal:
    """Return the journal with an environment that names the workers' Python."""
    journal = projections.journal
    own = {"PYSPARK_PYTHON": str(python), "TIDEMARK_PROJECTIONS_DIR": str(projections.directory)}
    # Nothing of the applications is on the workers' class path, either.
    left = {name: value for name, value in journal.environment.items() if "CLASSPATH" not in name}
    return Journal(journal.control, {**left, **own}, journal.keyspace, journal.own_keyspace)
