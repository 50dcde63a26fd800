"""Events with many rows, once more: Spark makes what they wrote of the rows that are kept.

It is the same as then: expressions give the same value each time, and the parameters that all rows
share are stored. Of what differs only numbers and some keys come out of the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import islice

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import cells, row_sizes
from tidemark.context import RunContext
from tidemark.errors import WrongData
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.playback.comparison import TableDifference, columns_of
from tidemark.event_groups.playback.copies import Copies
from tidemark.event_groups.playback.selection import PlayedEvent, not_stored
from tidemark.event_groups.spark_engine import functions, rows
from tidemark.event_groups.spark_engine.event_writes import EventWrite
from tidemark.event_groups.spark_engine.events import session
from tidemark.event_groups.spark_engine.failure import failing
from tidemark.event_groups.spark_engine.store import KeptImages
from tidemark.event_groups.spark_engine.writes import Target
from tidemark.event_groups.stream.kept_parts import RESULT
from tidemark.spark import gateway
from tidemark.spark.isolated_jars import IsolatedJars
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once
from tidemark.user_sql.refusal import sentence

_NAMED = 20
_KEYS_TOGETHER = 50_000
_MINE, _OTHERS, _COUNT, _SAYS = "mine", "others", "count_of", "says"
_RAW = ("bigint", "boolean", "int", "smallint", "tinyint", "varint")
"""Types whose JSON is no text in quotes."""


class ManyRowsPlayback:
    """The events of a stream that write for each of many rows."""

    def __init__(self, run: RunContext, stream: str, copies: Copies) -> None:
        """Bind; Spark is not started yet."""
        self._run, self._stream, self._copies = run, stream, copies
        self._sessions: dict[tuple[object, ...], tuple[SparkSession, IsolatedJars]] = {}

    @cached_property
    def _spark(self) -> SparkSession:
        return session(self._run)

    def checked(self, event: PlayedEvent) -> int:
        """Check that what an event has written can be made; return for how many rows.

        Raises:
            WrongData: rows of its query are not there any more, or Spark refuses an expression.
        """
        query = self._write_of(event).query.name
        with event.named(), failing():
            count = self._kept(event, self._spark).complete_count(query, RESULT)
        if count is None:
            raise not_stored(query, event.group, self._stream)
        try:
            self._written(event, *self._with_jars(event))
        except (EventFailed, PySparkException) as error:
            why = sentence(error) if isinstance(error, PySparkException) else str(error)
            raise WrongData(
                f"the {event.place} cannot be played: {why}",
                where=f"stream {self._stream}",
                do="leave the group out, or let the tables have the columns of then",
            ) from None
        return count

    def play(self, event: PlayedEvent, ensure_locked: EnsureLocked) -> None:
        """Write the rows of an event into the copy.

        Raises:
            CassandraUnavailable: they are not taken.
            LockLost: another run may work on the stream.
        """
        name = event.target.keyspace, event.target.table
        with event.named(), failing():
            target = Target(*name, self._copies.table(event), ensure_locked)
            spark, jars = self._with_jars(event)
            written, at = self._written(event, spark, jars), F.lit(event.write_time)
            with jars.in_use():
                self._write_of(event).send(written, target, at, event.target.ttl)

    def differences(
        self, events: Sequence[PlayedEvent], seen: Iterable[Sequence[str]]
    ) -> tuple[Mapping[str, int], list[TableDifference]]:
        """Compare the rows of a table that events have written.

        Args:
            events: all that have written many rows of it.
            seen: keys of its rows that were compared already, in JSON.

        Returns:
            numbers of rows as the report names them, and the first that differ.

        Raises:
            CassandraUnavailable: they cannot be read.
        """
        [event, *_] = events
        table = self._copies.table(event)
        with event.named(), failing():
            # Each plan is no more than its rows: all of them would be planned as one.
            keys = reduce(
                DataFrame.unionByName,
                (self._keys(one, table) for one in events),
            ).dropDuplicates()
            # Both keyspaces are read by them.
            keys = kept_once(keys)
            compared = self._compared(keys, event, table)
            for one in self._as_keys(seen, table):
                compared = compared.join(one, on=list(table.key), how="left_anti")
            compared = kept_once(compared)
            try:
                counted = compared.groupBy(_COUNT).count().collect()
                first = compared.where(F.col(_COUNT).isNotNull()).limit(_NAMED).collect()
            finally:
                compared.unpersist()
                keys.unpersist()
        counts = {row[_COUNT]: row["count"] for row in counted if row[_COUNT] is not None}
        counts["rows_compared"] = sum(row["count"] for row in counted)
        kinds = {name: table.columns[name] for name in table.key}
        told = [
            TableDifference({name: _as_json(row[name], kinds[name]) for name in kinds}, row[_SAYS])
            for row in first
        ]
        return counts, told

    def _compared(self, keys: DataFrame, event: PlayedEvent, table: Table) -> DataFrame:
        """Return the rows that are in one of both keyspaces: the key, `_COUNT` and `_SAYS`.

        `_COUNT` is null of rows that are the same.
        """
        key, names = list(table.key), columns_of(table)
        sides = [
            self._side(keys, statement, table, side)
            for statement, side in ((event.source, _MINE), (event.target, _OTHERS))
        ]
        both = sides[0].join(sides[1], on=key, how="full_outer")
        differing = F.array_compact(
            F.array(
                *(
                    F.when(~_cell(_MINE, place).eqNullSafe(_cell(_OTHERS, place)), F.lit(name))
                    for place, name in enumerate(names[len(key) :])
                )
            ).cast("array<string>")
        )
        count = (
            F.when(F.col(_OTHERS).isNull(), "rows_only_in_source")
            .when(F.col(_MINE).isNull(), "rows_only_in_target")
            .when(F.size(differing) > 0, "rows_different")
        )
        says = (
            F.when(F.col(_OTHERS).isNull(), f"only in {event.source.keyspace}")
            .when(F.col(_MINE).isNull(), f"only in {event.target.keyspace}")
            .otherwise(F.concat_ws(", ", differing))
        )
        return both.select(*key, count.alias(_COUNT), says.alias(_SAYS))

    def _side(self, keys: DataFrame, statement: Statement, table: Table, side: str) -> DataFrame:
        """Return the rows of one keyspace: the key, and the texts of all other columns."""
        name = statement.keyspace, statement.table
        row_sizes.sample(self._run.control, self._spark, *name)
        kinds = {column: table.columns[column] for column in columns_of(table)}
        found = cells.of_rows(keys, *name, kinds)
        others = [f"c{place}" for place in range(len(kinds) - len(table.key))]
        texts = found.toDF(*table.key, *others)
        # Two texts of a key may name the same row.
        return texts.select(
            *table.key, F.struct(F.lit(True).alias("there"), *others).alias(side)
        ).dropDuplicates(list(table.key))

    def _as_keys(self, seen: Iterable[Sequence[str]], table: Table) -> Iterator[DataFrame]:
        schema = ", ".join(f"{name} string" for name in table.key)
        left = iter(seen)
        while part := list(islice(left, _KEYS_TOGETHER)):
            texts = [
                tuple(json.loads(one) if one.startswith('"') else one for one in key)
                for key in part
            ]
            yield local_rows(self._spark, texts, schema)

    def _keys(self, event: PlayedEvent, table: Table) -> DataFrame:
        spark, jars = self._with_jars(event)
        keys = gateway.leaf(rows.stored_keys(self._written(event, spark, jars), table))
        if spark is self._spark:
            return keys
        # The jobs that compare the rows of several groups cannot have the JARs of all.
        with jars.in_use():
            return keys.localCheckpoint()

    def _written(self, event: PlayedEvent, spark: SparkSession, jars: IsolatedJars) -> DataFrame:
        kept = self._kept(event, spark)
        return self._write_of(event).rows(kept, event.parameters[0], jars.functions)

    def _with_jars(self, event: PlayedEvent) -> tuple[SparkSession, IsolatedJars]:
        """Return a session that knows the functions that the event could call then.

        Raises:
            EventFailed: a JAR cannot be had any more.
        """
        plain = self._spark, IsolatedJars(self._spark)
        if all(need.sql is None for need in event.event.row_needs):
            return plain
        found = Loading(self._run, self._stream, event.sequence).jar_functions()
        if not found.classes:
            return plain
        name = (*found.jars, *found.classes.items())
        if name not in self._sessions:
            spark = session(self._run)
            self._sessions[name] = spark, functions.registered(spark, found)
        return self._sessions[name]

    def _write_of(self, event: PlayedEvent) -> EventWrite:
        return EventWrite(
            event.definition, event.event, lambda one: self._copies.source(one, event.place)
        )

    def _kept(self, event: PlayedEvent, spark: SparkSession) -> KeptImages:
        group = self._stream, event.group
        return KeptImages(self._run.control, self._run.settings.keyspace, spark, group)


def _cell(side: str, place: int) -> Column:
    return F.col(side)[f"c{place}"]


def _as_json(text: str, kind: str) -> str:
    return text if kind in _RAW else json.dumps(text, ensure_ascii=False)
