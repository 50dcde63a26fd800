"""The engine for events with many rows; the driver engine does the same for all others."""

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
    """Return a session in which a value that does not fit is an error, and not null."""
    with _STARTING:
        spark = gateway.clone(run.spark)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark


class SparkEngine:
    """Executes and undoes events of one group that read many rows, or write for each of them."""

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
        """Bind to a group: its stream and its id; Spark is not started yet."""
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
        """Register the functions that SQL may call with the session; return their JARs.

        Events that call them come after all loads of the group, so the JARs never change.
        """
        return functions.registered(self._spark, self._jar_functions())

    @contextmanager
    def _working(self, row_needs: Sequence[Need] = ()) -> Iterator[None]:
        """Turn failures of Spark into a failure of the event, and give jobs the JARs they need."""
        with failing():
            has_sql = any(need.sql is not None for need in row_needs)
            with (self._jars if has_sql else IsolatedJars(self._spark)).in_use():
                yield

    def prepare(self, event: Event) -> Prepared:
        """Fix the parameters that rows share, and keep before-images of the rows to write."""
        row_needs = event.row_needs
        shared_needs = tuple(need for need in event.needs if need not in row_needs)
        without_rows = event.model_copy(update={"each": None, "needs": shared_needs})
        parameters = self._needs.parameters(without_rows)
        statement, table = self._target(event)
        if event.each is None:
            require_declared(self._definition, statement, table, parameters[0])
            return Prepared(parameters)
        with self._working(row_needs):
            written = kept_once(self._rows(event, parameters[0]))
            try:
                self._require_allowed(statement, table, written)
                if event.rollback != "restore":
                    return Prepared(parameters, 0)
                newest, count = self._keep_images(event, statement, table, written)
                return Prepared(parameters, newest, count)
            finally:
                written.unpersist()

    def send(self, event: Event, stored: StoredEvent) -> list[str]:
        """Read the rows of a select, or write; the rows are stored, and none are returned."""
        with self._working(event.row_needs):
            if event.each is None:
                self._select(event, stored.parameters[0])
            else:
                self._write(event, stored)
        return []

    def undo(self, event: Event, stored: StoredEvent, at: int, own: Collection[int]) -> None:
        """Restore the rows that an event may have written, at a write time."""
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
            image_rows = images.read_back(self._kept.read(event.name, BEFORE), table.key)
            image_rows = kept_once(image_rows)
            columns = (*table.key, *names, *many_celled)
            current_rows = cells.of_rows(
                *(rows.stored_keys(image_rows, table), statement.keyspace, statement.table),
                {name: table.columns[name] for name in columns},
                *(plain, names),
            )
            marked = current_rows.withColumn(images.IS_THERE, F.lit(True))
            decided = rule.decided(image_rows.join(marked, on=list(table.key), how="left"))
            decided = kept_once(decided)
            try:
                is_whole = statement.kind is StatementKind.DELETE
                target = self._written_target(statement, table)
                writes.restore(decided, target, names, at, is_whole=is_whole)
            finally:
                decided.unpersist()
                image_rows.unpersist()

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
        scanned = cells.scan(self._spark, statement.keyspace, statement.table, kinds, conditions)
        count = self._kept.keep(
            event.name, RESULT, rows.kept(scanned, table.key, columns), self._ensure_locked
        )
        expectations = {None: True, "one": count == 1, "some": count > 0, "none": not count}
        if not expectations[event.expect]:
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
        uncovered = written
        all_keys = [dict(key) for name, key in declared if name == statement.name]
        for names in {tuple(sorted(key)) for key in all_keys}:
            keys = [tuple(key[name] for name in names) for key in all_keys if {*key} == {*names}]
            texts = local_rows(self._spark, keys, ", ".join(f"{name} string" for name in names))
            comparable = [canonical(F.col(name), table.columns[name]).alias(name) for name in names]
            uncovered = rows.undeclared(uncovered, texts.select(*comparable), names)
        if uncovered.take(1):
            raise EventFailed(
                f"it writes a row of {statement.name} that the group has not declared"
            )

    def _keep_images(
        self, event: Event, statement: Statement, table: Table, written: DataFrame
    ) -> tuple[int, int]:
        """Keep before-images of the rows to write; return their newest write time and number."""
        names = touched(statement, table)
        kinds = {name: table.columns[name] for name in (*table.key, *names)}
        now_ms = clock.now_micros() // 1000
        stored = cells.of_rows(
            *(rows.stored_keys(written, table), statement.keyspace, statement.table, kinds),
            *(names, names),
        )
        existing = kept_once(stored)
        try:
            for row in existing.join(written, on=list(table.key), how="left_anti").take(1):
                key = ", ".join(str(row[name]) for name in table.key)
                raise EventFailed(f"it writes the row {key} of another text, which is not restored")
            makes_rows = statement.kind is not StatementKind.DELETE
            kept = images.images(written, existing, table.key, names, now_ms, makes_rows=makes_rows)
            count = self._kept.keep(event.name, BEFORE, kept, self._ensure_locked)
            times = [F.max(cells.written_at(name)) for name in names]
            newest = existing.agg(F.greatest(F.lit(0), *times)) if times else None
            return (int(newest.collect()[0][0]) if newest else 0), count
        finally:
            existing.unpersist()

    def _write(self, event: Event, stored: StoredEvent) -> None:
        statement, table = self._target(event)
        written = self._rows(event, stored.parameters[0])
        target = self._written_target(statement, table)
        self._write_of(event).send(written, target, F.lit(stored.write_time), statement.ttl)
