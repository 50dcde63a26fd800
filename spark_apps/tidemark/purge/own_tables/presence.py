"""Which persistence ids are absent from the tables of the real systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.kafka import written
from tidemark.journals.pekko import frames, snapshots, tag_view_rows
from tidemark.journals.pekko.shapes import ID
from tidemark.spark.shapes import shaped

_Read = Callable[[DataFrame], DataFrame]
"""Reads which persistence ids a table has, of those given; it may return others, too."""


@shaped(ids=ID, returns=ID)
def without_trace(run: RunContext, ids: DataFrame, topic: str | None = None) -> DataFrame:
    """Return the persistence ids that no longer exist; unique, and in memory.

    In a journal (topic None): no event, no metadata, no snapshot, no row of the tag views, and not
    listed in all_persistence_ids. In a topic of kafka-journal: neither head nor event. Reads by key
    come first; a table is scanned only if some ids remain.
    """
    absent = ids.select("persistence_id").distinct().localCheckpoint()
    for read in _of_journal(run) if topic is None else _of_topic(run, topic):
        if absent.isEmpty():
            break
        present = read(absent).select("persistence_id")
        absent = absent.join(present, on="persistence_id", how="left_anti").localCheckpoint()
    return absent


def _of_journal(run: RunContext) -> Iterator[_Read]:
    settings = run.settings
    yield lambda ids: frames.deleted(ids.sparkSession, settings, ids)
    yield lambda ids: connector.read_partitions(
        ids, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    )
    if run.control.table_columns(settings.snapshot_keyspace, settings.snapshot_table) is not None:
        yield lambda ids: snapshots.index(ids.sparkSession, settings, ids)
    yield lambda _: frames.message_index(run.spark, settings)
    yield lambda _: tag_view_rows.tag_view_keys(run.spark, settings)


def _of_topic(run: RunContext, topic: str) -> Iterator[_Read]:
    for read in (written.head_rows, written.event_rows):
        rows = read(run.spark, run.settings)
        yield lambda _, rows=rows: rows.where(rows["topic"] == topic)  # type: ignore[misc]
