"""Stores the rows of events with many rows, in parts that are small enough for Cassandra."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.event_groups.spark_engine.shapes import KEPT
from tidemark.event_groups.stream.kept_parts import ROWS, KeptParts
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once
from tidemark.spark.shapes import shaped

_PART_BYTES = 16 << 20
_PLACE = "stream string, group_id string, event string, kind string, part int"


class KeptImages:
    """The stored rows of one group's events."""

    def __init__(
        self,
        control: Control,
        keyspace: str,
        spark: SparkSession,
        group: tuple[str, str],
    ) -> None:
        """Bind to a group: its stream and its id."""
        self._control, self._spark, self._keyspace = control, spark, keyspace
        self._group, self._parts = group, KeptParts(control, keyspace, group)

    @shaped(rows=KEPT)
    def keep(
        self, event: str, kind: str, rows: DataFrame, ensure_locked: Callable[[], None]
    ) -> int:
        """Store the rows of an event in place of those of a run that died; return their number.

        The number of parts is written first, so that a delete finds all parts. It gets a later
        write time than the rows, so that deletes after this time delete the rows.
        """
        rows = kept_once(rows)
        try:
            size = F.octet_length("id") + F.octet_length("row_text")
            [(count, total)] = rows.agg(F.count(F.lit(1)), F.sum(size)).collect()
            parts = 1 + (total or 0) // _PART_BYTES
            ensure_locked()
            self._parts.empty(event, kind)
            at = self._control.write_time()
            ensure_locked()
            self._parts.announce(event, kind, parts, count)
            ensure_locked()
            self.write(event, kind, rows, parts, at)
        finally:
            rows.unpersist()
        return int(count)

    def write(self, event: str, kind: str, rows: DataFrame, parts: int, at: int) -> None:
        """Write the rows at a write time, which must be later than that of earlier deletes."""
        stream, group = self._group
        connector.write(
            rows.select(
                F.lit(stream).alias("stream"),
                F.lit(group).alias("group_id"),
                F.lit(event).alias("event"),
                F.lit(kind).alias("kind"),
                F.pmod(F.xxhash64("id"), F.lit(parts)).cast("int").alias("part"),
                *KEPT,
                F.lit(at).alias("write_time"),
            ),
            self._keyspace,
            ROWS,
            write_time="write_time",
        )

    @shaped(returns=KEPT)
    def read(self, event: str, kind: str) -> DataFrame:
        """Return the rows of an event."""
        keys = local_rows(self._spark, self._parts.places(event, kind), _PLACE)
        return connector.read_partitions(keys, self._keyspace, ROWS, *KEPT)

    def complete_count(self, event: str, kind: str) -> int | None:
        """Return the number of rows stored for an event; None if some are missing."""
        size = self._parts.size(event, kind)
        count = self.read(event, kind).count() if size else None
        return count if size and count == size["row_count"] else None
