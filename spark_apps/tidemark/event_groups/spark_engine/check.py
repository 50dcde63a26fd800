"""Checks events with many rows at submission, with the cluster's tables and Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.context import RunContext
from tidemark.event_groups.definition import many
from tidemark.event_groups.definition.file import Fault, GroupDefinition, Place
from tidemark.event_groups.definition.model import Event, Need
from tidemark.event_groups.definition.statement import StatementKind
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.external.jars import JarFunctions
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.spark_engine.events import session
from tidemark.event_groups.spark_engine.functions import is_built_in, register
from tidemark.event_groups.spark_engine.rows import seen
from tidemark.event_groups.spark_engine.shapes import KEPT
from tidemark.event_groups.spark_engine.texts import NO_KEYS, SPARK_TYPES
from tidemark.spark.determinism import unrepeatable
from tidemark.spark.isolated_jars import IsolatedJars
from tidemark.spark.shapes import ddl
from tidemark.user_sql import allowed
from tidemark.user_sql.allowed import NotAllowed
from tidemark.user_sql.refusal import sentence

_NAME = re.compile(r"(?!tidemark_)[a-z][a-z0-9_]*")


def check(
    run: RunContext,
    definition: GroupDefinition,
    fault: Fault,
    jar_functions: Callable[[], JarFunctions],
) -> None:
    """Check a group's events with many rows, whose tables must exist, and its JARs.

    `jar_functions` returns the functions that the stream and the group itself have loaded.

    Raises:
        DefinitionError: a column cannot be read, written or restored, or Spark rejects an
            expression, or a function of a JAR.
    """

    @cache
    def spark() -> tuple[SparkSession, IsolatedJars]:
        return _session(run, definition, fault, jar_functions)

    if definition.functions:
        spark()
    for index, event in enumerate(definition.group.events):
        if definition.has_many(event):
            _ManyRowsCheck(run, definition, fault, event, ("events", index), spark).check()


def _session(
    run: RunContext,
    definition: GroupDefinition,
    fault: Fault,
    jar_functions: Callable[[], JarFunctions],
) -> tuple[SparkSession, IsolatedJars]:
    """Return a session with the functions of JARs, and these JARs."""
    spark = session(run)
    for name, at in definition.functions.items():
        if is_built_in(spark, name):
            raise fault(f"Spark has a function {name} itself", "give it another name", *at)
    try:
        functions = jar_functions()
    except EventFailed as error:
        raise fault(str(error), "put it back, or load another version", "events") from None
    jars = IsolatedJars(spark, functions.jars)
    for name, java_class in functions.classes.items():
        try:
            register(spark, jars, name, java_class)
        except EventFailed as error:
            do = "name a class that implements one of UDF0 to UDF22"
            raise fault(str(error), do, *definition.functions.get(name, ("events",))) from None
    return spark, jars


class _ManyRowsCheck:
    """Checks one event."""

    def __init__(
        self,
        run: RunContext,
        definition: GroupDefinition,
        fault: Fault,
        event: Event,
        at: Place,
        spark: Callable[[], tuple[SparkSession, IsolatedJars]],
    ) -> None:
        self._run, self._definition, self._spark = run, definition, spark
        self._fault, self._event, self._at = fault, event, at

    def check(self) -> None:
        table = self._table(self._event)
        self._require_plain(table, table.key)
        scan = many.scan(str(self._event.statement)) if self._event.many else None
        if scan is not None:
            self._require_plain(table, scan.columns or table.columns)
            for name, _, _ in scan.conditions:
                if table.columns.get(name) == "blob" or name not in table.columns:
                    self._refuse(f"{name} cannot be a condition of many rows")
            return
        self._check_write(table)
        kinds = self._source_kinds()
        for number, need in enumerate(self._event.needs):
            if need.event == self._event.each:
                self._check_need(need, kinds, (*self._at, "needs", number))

    def _check_write(self, table: Table) -> None:
        parsed = self._definition.statements[self._event.name]
        write = many.write(str(self._event.statement), parsed)
        for name in table.key:
            if name not in write.values:
                self._refuse(f"{parsed.name} has the key column {name}, which it does not name")
            if table.columns[name] in NO_KEYS:
                self._refuse(f"the key column {name} is a {table.columns[name]}")
        self._require_plain(table, write.values)
        if parsed.kind is StatementKind.DELETE:
            self._require_plain(table, table.regular)

    def _check_need(self, need: Need, kinds: Mapping[str, str], at: Place) -> None:
        if need.sql is None:
            if (need.take or need.as_) not in kinds:
                what = f"{need.event} selects no column {need.take or need.as_}"
                raise self._fault(what, f"its columns are {', '.join(kinds)}", *at)
            return
        spark, jars = self._spark()
        rows = seen(spark.createDataFrame([], ddl(KEPT)), kinds)
        try:
            with allowed.flat():
                value = allowed.expression(spark, need.sql, jars.functions)
                # As a condition, where Spark rejects aggregates and windows, which read other rows.
                filtered = rows.where(value.isNotNull())
                [field] = rows.select(value).schema.fields
        except NotAllowed as error:
            raise self._fault(error.what, error.do, *at, "sql") from None
        except PySparkException as error:
            what = f"Spark refuses `{need.sql}`: {sentence(error)}"
            raise self._fault(what, f"its columns are {', '.join(kinds)}", *at, "sql") from None
        if names := unrepeatable(filtered):
            what = f"{', '.join(names)}: the value is another one each time"
            raise self._fault(what, "leave it out", *at, "sql")
        kind = field.dataType.simpleString()
        if "<" in kind or kind in ("void", "interval"):
            raise self._fault(f"`{need.sql}` is a {kind}", "make it one value", *at, "sql")

    def _source_kinds(self) -> dict[str, str]:
        source = self._definition.events[str(self._event.each)]
        table = self._table(source)
        names = many.scan(str(source.statement)).columns or table.columns
        return {name: table.columns[name] for name in names if name in table.columns}

    def _table(self, event: Event) -> Table:
        parsed = self._definition.statements[event.name]
        table = Table.read(self._run.control, parsed.keyspace, parsed.table)
        if table is None:
            self._refuse(f"there is no table {parsed.name}")
        return table

    def _require_plain(self, table: Table, names: Iterable[str]) -> None:
        for name in names:
            kind = table.columns.get(name)
            if kind not in SPARK_TYPES or name in table.static:
                static = "static " if name in table.static else ""
                self._refuse(f"the column {name} is a {static}{kind}, which Spark does not write")
            if not _NAME.fullmatch(name):
                self._refuse(f"the column {name} has other signs than small letters in its name")

    def _refuse(self, what: str) -> NoReturn:
        raise self._fault(what, "name other columns, or write few rows", *self._at, "statement")
