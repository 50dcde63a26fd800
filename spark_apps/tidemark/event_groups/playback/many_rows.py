"""The playback of events with many rows: Spark computes their writes from the stored rows.

The result is the same as before: expressions return the same value each time, and the parameters
that all rows share are stored. Only counts and some keys of differing rows leave the JVM.
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

_MAX_LISTED = 20
_KEYS_TOGETHER = 50_000
_MINE, _OTHERS, _COUNT, _SAYS = "mine", "others", "count_of", "says"
_RAW = ("bigint", "boolean", "int", "smallint", "tinyint", "varint")
"""Types whose JSON has no quotes."""


class ManyRowsPlayback:
    """Plays the events of a stream that write for each of many rows."""

    def __init__(self, run: RunContext, stream: str, copies: Copies) -> None:
        self._run, self._stream, self._copies = run, stream, copies
        self._sessions: dict[tuple[object, ...], tuple[SparkSession, IsolatedJars]] = {}

    @cached_property
    def _spark(self) -> SparkSession:
        return session(self._run)

    def checked(self, event: PlayedEvent) -> int:
        """Check that the writes of an event can be computed; return the number of rows.

        Raises:
            WrongData: rows of its query do not exist any more, or Spark rejects an expression.
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
        """Write the rows of an event to the copy."""
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
            events: all events that have written many rows of it.
            seen: keys of its rows that were compared already, as JSON.

        Returns:
            numbers of rows as the report names them, and the first differences.
        """
        [event, *_] = events
        table = self._copies.table(event)
        with event.named(), failing():
            # Each plan is reduced to its rows: otherwise all of them would be planned as one.
            keys = reduce(
                DataFrame.unionByName,
                (self._keys(played, table) for played in events),
            ).dropDuplicates()
            # Both keyspaces are read with these keys.
            keys = kept_once(keys)
            compared = self._compared(keys, event, table)
            for seen_keys in self._as_keys(seen, table):
                compared = compared.join(seen_keys, on=list(table.key), how="left_anti")
            compared = kept_once(compared)
            try:
                counted = compared.groupBy(_COUNT).count().collect()
                differing = compared.where(F.col(_COUNT).isNotNull()).limit(_MAX_LISTED).collect()
            finally:
                compared.unpersist()
                keys.unpersist()
        counts = {row[_COUNT]: row["count"] for row in counted if row[_COUNT] is not None}
        counts["rows_compared"] = sum(row["count"] for row in counted)
        kinds = {name: table.columns[name] for name in table.key}
        listed = [
            TableDifference({name: _as_json(row[name], kinds[name]) for name in kinds}, row[_SAYS])
            for row in differing
        ]
        return counts, listed

    def _compared(self, keys: DataFrame, event: PlayedEvent, table: Table) -> DataFrame:
        """Return the rows that exist in either keyspace: the key, `_COUNT` and `_SAYS`.

        `_COUNT` is null for equal rows.
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
                    F.when(~_cell(_MINE, index).eqNullSafe(_cell(_OTHERS, index)), F.lit(name))
                    for index, name in enumerate(names[len(key) :])
                )
            ).cast("array<string>")
        )
        count = (
            F.when(F.col(_OTHERS).isNull(), "rows_only_in_source")
            .when(F.col(_MINE).isNull(), "rows_only_in_target")
            .when(F.size(differing) > 0, "rows_different")
        )
        description = (
            F.when(F.col(_OTHERS).isNull(), f"only in {event.source.keyspace}")
            .when(F.col(_MINE).isNull(), f"only in {event.target.keyspace}")
            .otherwise(F.concat_ws(", ", differing))
        )
        return both.select(*key, count.alias(_COUNT), description.alias(_SAYS))

    def _side(self, keys: DataFrame, statement: Statement, table: Table, side: str) -> DataFrame:
        """Return the rows of one keyspace: the key, and the texts of all other columns."""
        name = statement.keyspace, statement.table
        row_sizes.sample(self._run.control, self._spark, *name)
        kinds = {column: table.columns[column] for column in columns_of(table)}
        frame = cells.of_rows(keys, *name, kinds)
        other_columns = [f"c{index}" for index in range(len(kinds) - len(table.key))]
        texts = frame.toDF(*table.key, *other_columns)
        # Two texts of a key may name the same row.
        return texts.select(
            *table.key, F.struct(F.lit(True).alias("there"), *other_columns).alias(side)
        ).dropDuplicates(list(table.key))

    def _as_keys(self, seen: Iterable[Sequence[str]], table: Table) -> Iterator[DataFrame]:
        schema = ", ".join(f"{name} string" for name in table.key)
        remaining = iter(seen)
        while part := list(islice(remaining, _KEYS_TOGETHER)):
            texts = [
                tuple(json.loads(text) if text.startswith('"') else text for text in key)
                for key in part
            ]
            yield local_rows(self._spark, texts, schema)

    def _keys(self, event: PlayedEvent, table: Table) -> DataFrame:
        spark, jars = self._with_jars(event)
        keys = gateway.leaf(rows.stored_keys(self._written(event, spark, jars), table))
        if spark is self._spark:
            return keys
        # Jobs that compare the rows of several groups cannot have the JARs of all of them.
        with jars.in_use():
            return keys.localCheckpoint()

    def _written(self, event: PlayedEvent, spark: SparkSession, jars: IsolatedJars) -> DataFrame:
        kept = self._kept(event, spark)
        return self._write_of(event).rows(kept, event.parameters[0], jars.functions)

    def _with_jars(self, event: PlayedEvent) -> tuple[SparkSession, IsolatedJars]:
        """Return a session with the functions that the event could call, and their JARs."""
        plain = self._spark, IsolatedJars(self._spark)
        if all(need.sql is None for need in event.event.row_needs):
            return plain
        jar_functions = Loading(self._run, self._stream, event.sequence).jar_functions()
        if not jar_functions.classes:
            return plain
        session_key = (*jar_functions.jars, *jar_functions.classes.items())
        if session_key not in self._sessions:
            spark = session(self._run)
            self._sessions[session_key] = spark, functions.registered(spark, jar_functions)
        return self._sessions[session_key]

    def _write_of(self, event: PlayedEvent) -> EventWrite:
        return EventWrite(
            event.definition, event.event, lambda parsed: self._copies.source(parsed, event.place)
        )

    def _kept(self, event: PlayedEvent, spark: SparkSession) -> KeptImages:
        group = self._stream, event.group
        return KeptImages(self._run.control, self._run.settings.keyspace, spark, group)


def _cell(side: str, index: int) -> Column:
    return F.col(side)[f"c{index}"]


def _as_json(text: str, kind: str) -> str:
    return text if kind in _RAW else json.dumps(text, ensure_ascii=False)
