"""What an event writes for each row of its query: computed from stored rows, and sent.

It is the same each time, so a playback computes it again, and sends it to another keyspace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.event_groups.definition import many
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.statements import Parameters
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.spark_engine import rows, writes
from tidemark.event_groups.spark_engine.shapes import HAS_NULLS
from tidemark.event_groups.spark_engine.store import KeptImages
from tidemark.event_groups.stream.kept_parts import RESULT

Tables = Callable[[Statement], Table]


@dataclass(frozen=True)
class EventWrite:
    """The write of an event with `each` on many rows.

    Attributes:
        definition: of its group.
        event: the event.
        table: reads the table of a statement.
    """

    definition: GroupDefinition
    event: Event
    table: Tables

    @property
    def statement(self) -> Statement:
        """Return the statement of the event."""
        return self.definition.statements[self.event.name]

    @property
    def query(self) -> Event:
        """Return the select for whose rows the event writes."""
        return self.definition.events[str(self.event.each)]

    def rows(
        self, kept: KeptImages, shared: Parameters, jar_functions: Collection[str]
    ) -> DataFrame:
        """Return the rows to write, as `rows.written` does.

        Args:
            kept: the stored rows of the group.
            shared: the parameters that all rows share.
            jar_functions: names of the functions of JARs that its SQL may call.

        Raises:
            EventFailed: a parameter is not a single value, or a selected column was dropped.
        """
        table = self.table(self.statement)
        source_table, key = self.table(self.definition.statements[self.query.name]), list(table.key)
        columns = many.scan(str(self.query.statement)).columns or tuple(source_table.columns)
        if missing := [name for name in columns if name not in source_table.columns]:
            source = self.definition.statements[self.query.name].name
            raise EventFailed(f"there is no column {missing[0]} of {source} any more")
        for name, value in shared.items():
            if not isinstance(value, str | None):
                raise EventFailed(f"the parameter {name} is no single value")
        written = rows.written(
            rows.seen(
                kept.read(self.query.name, RESULT),
                {name: source_table.columns[name] for name in columns},
            ),
            many.write(str(self.event.statement), self.statement),
            {name: table.columns[name] for name in key},
            self.event.row_needs,
            shared,
            jar_functions,
        )
        # Duplicate deletes count as one; other writes of one row may differ, and are rejected.
        return (
            written.dropDuplicates(key) if self.statement.kind is StatementKind.DELETE else written
        )

    def send(self, written: DataFrame, target: writes.Target, at: Column, ttl: int | None) -> None:
        """Write the rows to a table at a write time, with a TTL if there is one."""
        if self.statement.kind is StatementKind.DELETE:
            target.remove(written, target.table.regular, at)
            writes.await_expiry()
            return
        values = {
            name: F.col(name)
            for name in written.columns
            if name not in target.table.key and name != HAS_NULLS
        }
        target.store(written, values, at, lives=F.lit(ttl) if ttl else None)
