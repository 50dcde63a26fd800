"""The libraries that a stream has loaded, each with the first group that uses it."""

from __future__ import annotations

import json

from tidemark import clock
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.event_groups.external.jars import Loaded, LoadedJar
from tidemark.event_groups.external.libraries import LoadedLibrary

END = (1 << 63) - 1
"""A sequence after all groups of a stream."""


class LoadedLibraries:
    """The libraries of a stream."""

    def __init__(self, run: RunContext, stream: str) -> None:
        self._run, self._control, self._stream = run, run.control, stream
        self._table = table(run.settings.keyspace, "group_library")

    def at(self, sequence: int) -> list[Loaded]:
        """Return the libraries of a group, each in the version loaded last, up to the group."""
        rows = self._control.execute(
            "SELECT name, sequence, version, wheels, jars, functions"
            f" FROM {self._table} WHERE stream = ?",
            (self._stream,),
        )
        libraries = {
            row["name"]: _library(row)
            for row in sorted(rows, key=lambda row: row["sequence"])
            if row["sequence"] <= sequence
        }
        return list(libraries.values())

    def load(self, sequence: int, library: Loaded) -> None:
        """Let the groups from a sequence on use a library."""
        wheels, jars, functions = _stored_columns(library)
        self._control.execute(
            f"INSERT INTO {self._table}"
            " (stream, name, sequence, version, wheels, jars, functions, run_id, loaded_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self._stream, library.name, sequence, library.version),
                *(wheels, jars, functions, self._run.run_id, clock.now()),
            ),
        )

    def newest_write_time(self) -> int:
        """Return when the newest library was written, in microseconds; 0 without one."""
        return self._control.newest_write_time(self._table, "version", {"stream": self._stream})

    def forget(self, sequence: int, name: str) -> None:
        """Delete a library that a group has loaded."""
        self._control.execute(
            f"DELETE FROM {self._table} WHERE stream = ? AND name = ? AND sequence = ?",
            (self._stream, name, sequence),
        )


def _stored_columns(library: Loaded) -> tuple[str | None, str | None, str | None]:
    if isinstance(library, LoadedLibrary):
        return json.dumps(dict(library.wheels)), None, None
    return None, json.dumps(dict(library.jars)), json.dumps(dict(library.functions))


def _library(row: Row) -> Loaded:
    if row["jars"] is None:
        return LoadedLibrary(row["name"], row["version"], json.loads(row["wheels"]))
    hashes, functions = json.loads(row["jars"]), json.loads(row["functions"])
    return LoadedJar(row["name"], row["version"], hashes, functions)
