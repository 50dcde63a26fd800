"""The tables that are played into: each must be like the table that it is a copy of."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table, owners
from tidemark.event_groups.playback.selection import PlayedEvent


class Copies:
    """The tables of both keyspaces, each read once."""

    def __init__(self, run: RunContext) -> None:
        self._control = run.control
        self._owner = owners(run.settings)
        self._tables: dict[str, Table] = {}
        self._sources: dict[str, Table] = {}

    def source(self, statement: Statement, place: str) -> Table:
        """Return the table of a statement as it was sent.

        Raises:
            SchemaMismatch: the table does not exist any more.
        """
        name = statement.name
        if name not in self._sources:
            table = Table.read(self._control, statement.keyspace, statement.table)
            if table is None:
                what = f"there is no table {name} any more"
                raise SchemaMismatch(what, where=place, do="leave the group out")
            self._sources[name] = table
        return self._sources[name]

    def table(self, event: PlayedEvent) -> Table:
        """Return the table of an event, after checking its copy in the other keyspace.

        Raises:
            InvalidInput: the copy belongs to somebody.
            SchemaMismatch: a table does not exist, or they differ.
        """
        name = event.source.name
        if name not in self._tables:
            self._tables[name] = self._checked(event)
        return self._tables[name]

    def _checked(self, event: PlayedEvent) -> Table:
        source, target = event.source, event.target
        if owner := self._owner(target):
            what = f"{target.name} belongs to {owner}, and nothing is played into it"
            raise InvalidInput(what, where="--into", do="name a copy of the tables")
        original = self.source(source, event.place)
        copy = Table.read(self._control, target.keyspace, target.table)
        if copy is None:
            do = f"create it as {source.name} is"
            raise SchemaMismatch(f"there is no table {target.name}", where=event.place, do=do)
        if original != copy:
            differing = {name for name, _ in original.columns.items() ^ copy.columns.items()}
            what = f"other columns than {source.name}: {', '.join(sorted(differing))}"
            if not differing:
                what = f"another key or other static columns than {source.name}"
            do = "create it with the same columns and key"
            raise SchemaMismatch(f"{target.name} has {what}", where=event.place, do=do)
        return original
