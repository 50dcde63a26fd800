"""Deletes of the tag tables' rows of persistence ids, by Spark's executors."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko import tables
from tidemark.journals.pekko.shapes import ID
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.tag_write import completeness


@shaped(ids=ID)
def forget(ids: DataFrame, settings: Settings) -> None:
    """Delete tag-write's state of persistence ids whose tag views will change."""
    of_journal = F.lit(settings.journal_keyspace).alias("journal_keyspace")
    connector.delete(
        ids.select(of_journal, "persistence_id"), settings.keyspace, completeness.TABLE
    )


@shaped(ids=ID)
def delete_scanning(ids: DataFrame, settings: Settings) -> None:
    """Delete the rows of tag_scanning of persistence ids."""
    connector.delete(ids.select("persistence_id"), settings.journal_keyspace, tables.TAG_SCANNING)


@shaped(series={**ID, "tag": "string"})
def delete_progress(series: DataFrame, settings: Settings) -> None:
    """Delete the rows of tag_write_progress of persistence ids and tags."""
    keys = series.select("persistence_id", "tag")
    connector.delete(keys, settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)
