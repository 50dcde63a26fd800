"""The projections of the histories, and their expected rows, by loops over the written events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.integration.support import Journal
from tests.live.truth import Event, by_id

Rows = set[tuple[Any, ...]]


@dataclass(frozen=True)
class ReadModel:
    """A projection and its expected rows.

    Attributes:
        name: the name of the projection and of its table.
        definition: the text of the definition file, with {keyspace}.
        file: the name of the definition file.
        table: columns and key of the table; None without a table.
        expected: the function from the consumed events to the rows that must be stored.
        columns: the columns of the expected rows.
        tags: the tags that the projection reads; empty if it reads messages.
    """

    name: str
    definition: str
    table: str | None
    columns: tuple[str, ...]
    expected: Callable[[Iterable[Event], int], Rows]
    tags: frozenset[str] = frozenset()
    file: str = ""

    @property
    def is_by_bucket(self) -> bool:
        """Whether the projection makes each time bucket as a whole."""
        return "time_bucket" in self.columns

    def define(self, journal: Journal, directory: Path) -> None:
        """Write the definition file and make the table."""
        self.write(journal, directory, version=1)
        if self.table is not None:
            journal.control.execute_ddl(f"CREATE TABLE {journal.keyspace}.{self.name} {self.table}")

    def write(self, journal: Journal, directory: Path, version: int) -> None:
        """Write the definition file with a version, on which the result does not depend."""
        text = self.definition.replace("{keyspace}", journal.keyspace)
        text = text.replace("version: 1", f"version: {version}")
        text = text.replace("version=1", f"version={version}")
        (directory / (self.file or f"{self.name}.sql")).write_text(text)

    def rows(self, journal: Journal, exports: Path) -> Rows:
        """Return the rows that the projection holds now."""
        if self.table is not None:
            stored = journal.rows(self.name)
            return {tuple(row[name] for name in self.columns) for row in stored}
        files = exports.glob(f"{self.name}/time_bucket=*/*.parquet")
        return {
            (int(file.parent.name.partition("=")[2]), *(row[name] for name in self.columns[1:]))
            for file in files
            for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()
        }


def _header(name: str, source: str, mode: str) -> str:
    return (
        f"/*---\nname: {name}\nversion: 1\nsource: {source}\nmode: {mode}\n"
        f"target: {'{keyspace}.' if mode != 'export' else ''}{name}\n"
        "on-error: skip\nevent: kind STRING, amount INT\n---*/\n"
    )


def _sums(events: Iterable[Event], bucket_ms: int) -> Rows:
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for event in events:
        key = (event.time_bucket(bucket_ms), event.kind)
        n, total = sums.get(key, (0, 0))
        sums[key] = (n + 1, total + event.amount)
    return {(*key, *value) for key, value in sums.items()}


def _newest(events: Iterable[Event], bucket_ms: int) -> Rows:
    return {
        (pid, own[-1].sequence_nr, own[-1].kind, own[-1].amount)
        for pid, own in by_id(events).items()
    }


def _each(events: Iterable[Event], bucket_ms: int) -> Rows:
    return {(event.persistence_id, event.sequence_nr, event.kind, event.amount) for event in events}


def _each_by_bucket(events: Iterable[Event], bucket_ms: int) -> Rows:
    return {
        (event.time_bucket(bucket_ms), event.persistence_id, event.sequence_nr) for event in events
    }


def _folded(events: Iterable[Event], bucket_ms: int) -> Rows:
    return {
        (pid, own[-1].sequence_nr, json.dumps([event.sequence_nr for event in own]))
        for pid, own in by_id(events).items()
    }


_SUMS = (
    "SELECT time_bucket, kind, count(*) AS n, sum(amount) AS total FROM events"
    " GROUP BY time_bucket, kind\n"
)
_SUMS_TABLE = "(time_bucket bigint, kind text, n bigint, total bigint, PRIMARY KEY ((time_bucket), kind))"  # fmt: skip  # noqa: E501
_ROW = "SELECT persistence_id, sequence_nr, kind, amount FROM events\n"
_FOLD = """\
import json

from tidemark.projection import projection


@projection(
    name="books", version=1, source="messages", mode="fold", target="{keyspace}.books",
    event="kind STRING, amount INT", state="folded STRING", on_error="skip",
)
def books(state, events):
    folded = json.loads(state["folded"]) if state else []
    return {"folded": json.dumps(folded + [int(one) for one in events["sequence_nr"]])}
"""
RED_BLUE = frozenset({"red", "blue"})

READ_MODELS = {
    one.name: one
    for one in (
        ReadModel(
            "tag_sums",
            _header("tag_sums", "{tags: [red, blue]}", "bucket") + _SUMS,
            _SUMS_TABLE,
            ("time_bucket", "kind", "n", "total"),
            _sums,
            RED_BLUE,
        ),
        ReadModel(
            "sums",
            _header("sums", "messages", "bucket") + _SUMS,
            _SUMS_TABLE,
            ("time_bucket", "kind", "n", "total"),
            _sums,
        ),
        ReadModel(
            "newest",
            _header("newest", "messages", "upsert") + _ROW,
            "(persistence_id text PRIMARY KEY, sequence_nr bigint, kind text, amount int)",
            ("persistence_id", "sequence_nr", "kind", "amount"),
            _newest,
        ),
        ReadModel(
            "tag_log",
            _header("tag_log", "{tags: [red]}", "append") + _ROW,
            "(persistence_id text, sequence_nr bigint, kind text, amount int,"
            " PRIMARY KEY (persistence_id, sequence_nr))",
            ("persistence_id", "sequence_nr", "kind", "amount"),
            _each,
            frozenset({"red"}),
        ),
        ReadModel(
            "log",
            _header("log", "messages", "append") + _ROW,
            "(persistence_id text, sequence_nr bigint, kind text, amount int,"
            " PRIMARY KEY (persistence_id, sequence_nr))",
            ("persistence_id", "sequence_nr", "kind", "amount"),
            _each,
        ),
        ReadModel(
            "lake",
            _header("lake", "{tags: [blue]}", "export")
            + "SELECT time_bucket, persistence_id, sequence_nr FROM events\n",
            None,
            ("time_bucket", "persistence_id", "sequence_nr"),
            _each_by_bucket,
            frozenset({"blue"}),
        ),
        ReadModel(
            "books",
            _FOLD,
            "(persistence_id text PRIMARY KEY, sequence_nr bigint, folded text)",
            ("persistence_id", "sequence_nr", "folded"),
            _folded,
            file="books.py",
        ),
    )
}
