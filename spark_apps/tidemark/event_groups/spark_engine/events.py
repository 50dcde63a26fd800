"""The events of a group that have many rows: what the group does by the driver for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import cells, row_sizes
from tidemark.cassandra.schema import identifier
from tidemark.context import RunContext
from tidemark.event_groups.definition import many
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Event, Need
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tables import Table, touched
from tidemark.event_groups.definition.tokens import Token
from tidemark.event_groups.driver_engine.declared_rows import require_declared
from tidemark.event_groups.driver_engine.parameters import Needs
from tidemark.event_groups.driver_engine.statements import Parameters, Prepared
from tidemark.event_groups.external.jars import JarFunctions
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.spark_engine import functions, images, rows, writes
from tidemark.event_groups.spark_engine.event_writes import EventWrite, Tables
from tidemark.event_groups.spark_engine.failure import failing
from tidemark.event_groups.spark_engine.store import KeptImages
from tidemark.event_groups.spark_engine.texts import canonical
from tidemark.event_groups.stream.kept_parts import BEFORE, RESULT
from tidemark.event_groups.stream.states import StoredEvent
from tidemark.spark import gateway
from tidemark.spark.isolated_jars import IsolatedJars
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once

_STARTING = threading.Lock()


def session(run: RunContext) -> SparkSession:
    """Return a session in which what does not fit is an error, and no null."""
    with _STARTING:
        spark = gateway.clone(run.spark)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark


class SparkEngine:
    """The events of one group that read many rows, or write for each of them."""

    def __init__(
        self,
        run: RunContext,
        group: tuple[str, str],
        definition: GroupDefinition,
        needs: Needs,
        table: Tables,
        ensure_locked: Callable[[], None],
        jar_functions: Callable[[], JarFunctions],
    ) -> None:
        """Bind to a group, which is its stream and its id; Spark is not started yet."""
        self._run, self._definition = run, definition
        self._needs, self._table = needs, table
        self._ensure_locked = ensure_locked
        self._group, self._jar_functions = group, jar_functions

    @cached_property
    def _spark(self) -> SparkSession:
        return session(self._run)

    @cached_property
    def _kept(self) -> KeptImages:
        return KeptImages(self._run.control, self._run.settings.keyspace, self._spark, self._group)

    @cached_property
    def _jars(self) -> IsolatedJars:
        """Return the jars of the functions that SQL may call, and let the session know these.

        What calls them is behind all loads of its group, so that they are the same for each event.
        """
        return functions.registered(self._spark, self._jar_functions())

    @contextmanager
    def _working(self, own: Sequence[Need] = ()) -> Iterator[None]:
        """Make failures of Spark those of the event, and let its jobs have the jars they need.

        Args:
            own: what the event needs of each row.
        """
        with failing():
            has_sql = any(need.sql is not None for need in own)
            with (self._jars if has_sql else IsolatedJars(self._spark)).in_use():
                yield

    def prepare(self, event: Event) -> Prepared:
        """Keep the rows that an event will write as they are, and the parameters that they share.

        Raises:
            EventFailed: a value cannot be made, or a row may not be written.
        """
        own = event.row_needs
        others = tuple(need for need in event.needs if need not in own)
        alone = event.model_copy(update={"each": None, "needs": others})
        parameters = self._needs.parameters(alone)
        statement, table = self._target(event)
        if event.each is None:
            require_declared(self._definition, statement, table, parameters[0])
            return Prepared(parameters)
        with self._working(own):
            written = kept_once(self._rows(event, parameters[0]))
            try:
                self._require_allowed(statement, table, written)
                if event.rollback != "restore":
                    return Prepared(parameters, 0)
                newest, count = self._keep_images(event, statement, table, written)
                return Prepared(parameters, newest, count)
            finally:
                written.unpersist()

    def send(self, event: Event, begun: StoredEvent) -> list[str]:
        """Read what a select finds, or write; the rows are kept, and none are returned.

        Raises:
            EventFailed: Cassandra does not take it, or a select does not find what it expects.
        """
        with self._working(event.row_needs):
            if event.each is None:
                self._select(event, begun.parameters[0])
            else:
                self._write(event, begun)
        return []

    def undo(self, event: Event, stored: StoredEvent, at: int, own: Collection[int]) -> None:
        """Put back the rows that an event may have written, at a write time.

        Raises:
            EventFailed: Cassandra does not take it.
        """
        if event.each is None or stored.write_time is None:
            return
        statement, table = self._target(event)
        names = touched(statement, table)
        many_celled = [name for name in table.regular if table.has_many_cells(name)]
        plain = [name for name in table.regular if name not in many_celled]
        rule = images.Rule(
            *(names, plain, many_celled, statement.may_leave_null, stored.write_time, at, own),
            clock.now_micros() // 1000,
        )
        with self._working():
            kept = images.read_back(self._kept.read(event.name, BEFORE), table.key)
            kept = kept_once(kept)
            read = (*table.key, *names, *many_celled)
            now = cells.of_rows(
                *(rows.stored_keys(kept, table), statement.keyspace, statement.table),
                {name: table.columns[name] for name in read},
                *(plain, names),
            )
            there = now.withColumn(images.IS_THERE, F.lit(True))
            decided = rule.decided(kept.join(there, on=list(table.key), how="left"))
            decided = kept_once(decided)
            try:
                is_whole = statement.kind is StatementKind.DELETE
                target = self._written_target(statement, table)
                writes.put_back(decided, target, names, at, is_whole=is_whole)
            finally:
                decided.unpersist()
                kept.unpersist()

    def _write_of(self, event: Event) -> EventWrite:
        return EventWrite(self._definition, event, self._table)

    def _rows(self, event: Event, parameters: Parameters) -> DataFrame:
        has_sql = any(need.sql is not None for need in event.row_needs)
        jar_functions = self._jars.functions if has_sql else ()
        return self._write_of(event).rows(self._kept, parameters, jar_functions)

    def _target(self, event: Event) -> tuple[Statement, Table]:
        statement = self._definition.statements[event.name]
        return statement, self._table(statement)

    def _written_target(self, statement: Statement, table: Table) -> writes.Target:
        return writes.Target(statement.keyspace, statement.table, table, self._ensure_locked)

    def _select(self, event: Event, parameters: Parameters) -> None:
        statement, table = self._target(event)
        scan = many.scan(str(event.statement))
        columns = scan.columns or tuple(table.columns)
        kinds = {name: table.columns[name] for name in dict.fromkeys((*table.key, *columns))}
        row_sizes.sample(self._run.control, self._spark, statement.keyspace, statement.table)
        conditions = [
            (f"{identifier(name)} {sign} ?", self._bound(name, table, token, parameters))
            for name, sign, token in scan.conditions
        ]
        found = cells.scan(self._spark, statement.keyspace, statement.table, kinds, conditions)
        count = self._kept.keep(
            event.name, RESULT, rows.kept(found, table.key, columns), self._ensure_locked
        )
        met = {None: True, "one": count == 1, "some": count > 0, "none": not count}
        if not met[event.expect]:
            raise EventFailed(f"it has found {count:,} rows, and expects {event.expect}")

    def _bound(self, name: str, table: Table, token: Token, parameters: Parameters) -> str:
        is_parameter = token.kind == "parameter"
        value = parameters[token.text[1:]] if is_parameter else many.literal(token)
        if not isinstance(value, str):
            raise EventFailed(f"the condition on {name} has no single value")
        text = canonical(F.lit(value), table.columns[name])
        [(bound,)] = self._spark.range(1).select(text).collect()
        return str(bound)

    def _require_allowed(self, statement: Statement, table: Table, written: DataFrame) -> None:
        if rows.without_key(written, table.key).take(1):
            raise EventFailed(f"it writes a row of {statement.name} whose key has a null")
        for row in rows.twice(written, table.key).take(1):
            raise EventFailed(f"it writes the row {', '.join(row)} twice")
        declared = self._definition.rows
        if declared is None:
            return
        left = written
        of_table = [dict(key) for name, key in declared if name == statement.name]
        for names in {tuple(sorted(key)) for key in of_table}:
            keys = [tuple(key[name] for name in names) for key in of_table if {*key} == {*names}]
            texts = local_rows(self._spark, keys, ", ".join(f"{name} string" for name in names))
            comparable = [canonical(F.col(name), table.columns[name]).alias(name) for name in names]
            left = rows.undeclared(left, texts.select(*comparable), names)
        if left.take(1):
            raise EventFailed(
                f"it writes a row of {statement.name} that the group has not declared"
            )

    def _keep_images(
        self, event: Event, statement: Statement, table: Table, written: DataFrame
    ) -> tuple[int, int]:
        """Keep the rows that an event will write; return their newest write time and number."""
        names = touched(statement, table)
        kinds = {name: table.columns[name] for name in (*table.key, *names)}
        now_ms = clock.now_micros() // 1000
        stored = cells.of_rows(
            *(rows.stored_keys(written, table), statement.keyspace, statement.table, kinds),
            *(names, names),
        )
        found = kept_once(stored)
        try:
            for row in found.join(written, on=list(table.key), how="left_anti").take(1):
                key = ", ".join(str(row[name]) for name in table.key)
                raise EventFailed(f"it writes the row {key} of another text, which is not restored")
            makes_rows = statement.kind is not StatementKind.DELETE
            kept = images.images(written, found, table.key, names, now_ms, makes_rows=makes_rows)
            count = self._kept.keep(event.name, BEFORE, kept, self._ensure_locked)
            times = [F.max(cells.written_at(name)) for name in names]
            newest = found.agg(F.greatest(F.lit(0), *times)) if times else None
            return (int(newest.collect()[0][0]) if newest else 0), count
        finally:
            found.unpersist()

    def _write(self, event: Event, begun: StoredEvent) -> None:
        statement, table = self._target(event)
        written = self._rows(event, begun.parameters[0])
        target = self._written_target(statement, table)
        self._write_of(event).send(written, target, F.lit(begun.write_time), statement.ttl)
