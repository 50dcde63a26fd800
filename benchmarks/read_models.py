"""Read models in PostgreSQL, one of each mode, with the rows that a plain query makes of a journal.

The events are those of `synthetic.py`. What `events` has here are the columns of the same names
that a definition sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.partitioning import columns
from tidemark.settings import Settings

_HEADER = """\
/*---
name: {name}
version: 1
source: {source}
mode: {mode}
target: postgres://embedded/{schema}.{name}
event: body BINARY
decoders: [bytes]
---*/

"""
_FOLD = """\
from tidemark.projection import projection


@projection(
    name="{name}",
    version=1,
    source="{source}",
    mode="fold",
    target="postgres://embedded/{schema}.{name}",
    event="body BINARY",
    decoders=["bytes"],
    state="events BIGINT, bytes BIGINT",
)
def total(state, events):
    state = state or {{"events": 0, "bytes": 0}}
    return {{
        "events": state["events"] + len(events),
        "bytes": state["bytes"] + int(events["body"].map(len).sum()),
    }}
"""
_SIZES = """\
SELECT time_bucket, persistence_id, count(*) AS events, sum(length(body)) AS bytes
FROM events
GROUP BY time_bucket, persistence_id
"""
_LOG = """\
SELECT persistence_id, sequence_nr, timestamp AS at, cast(body AS STRING) AS body FROM events
"""
_LATEST = "SELECT persistence_id, sequence_nr, cast(body AS STRING) AS body FROM events\n"
_NEWEST = """\
SELECT persistence_id, max(sequence_nr) AS sequence_nr,
    max_by(cast(body AS STRING), sequence_nr) AS body
FROM events
GROUP BY persistence_id
"""
"""What mode upsert makes of `_LATEST`."""
_TOTALS = "persistence_id string, sequence_nr bigint, events bigint, bytes bigint"


@dataclass(frozen=True)
class ReadModel:
    """A read model.

    Attributes:
        mode: the mode of its projection.
        columns: the columns and the primary key of its table.
        select: the SELECT of its definition; empty in mode fold.
        plain: the query that makes all of its rows at once; empty in mode fold.
    """

    mode: str
    columns: str
    select: str = ""
    plain: str = ""

    def define(
        self, directory: Path, name: str, schema: str, source: str | Mapping[str, object]
    ) -> None:
        """Write its definition in place of all others in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        for file in [*directory.glob("*.sql"), *directory.glob("*.py")]:
            file.unlink()
        given = {"name": name, "schema": schema, "source": source, "mode": self.mode}
        suffix, text = (".sql", _HEADER) if self.select else (".py", _FOLD)
        (directory / f"{name}{suffix}").write_text(text.format(**given) + self.select)

    def plain_rows(self, events: DataFrame) -> DataFrame:
        """Return its rows, made of all events at once."""
        if not self.plain:
            return events.groupBy("persistence_id").applyInPandas(_total, _TOTALS)
        events.createOrReplaceTempView("events")
        return events.sparkSession.sql(self.plain)


def _total(events: pd.DataFrame) -> pd.DataFrame:
    """Return the total of one persistence id, as the function of the fold does."""
    values = {
        "persistence_id": [events["persistence_id"].iloc[0]],
        "sequence_nr": [events["sequence_nr"].max()],
        "events": [len(events)],
        "bytes": [int(events["body"].map(len).sum())],
    }
    return pd.DataFrame(values)


LATEST = ReadModel(
    "upsert",
    "persistence_id text PRIMARY KEY, sequence_nr bigint, body text",
    _LATEST,
    _NEWEST,
)
READ_MODELS = (
    ReadModel(
        "bucket",
        "time_bucket bigint, persistence_id text, events bigint, bytes bigint,"
        " PRIMARY KEY (time_bucket, persistence_id)",
        _SIZES,
        _SIZES,
    ),
    LATEST,
    ReadModel(
        "append",
        "persistence_id text, sequence_nr bigint, at timestamptz, body text,"
        " PRIMARY KEY (persistence_id, sequence_nr)",
        _LOG,
        _LOG,
    ),
    ReadModel(
        "fold",
        "persistence_id text PRIMARY KEY, sequence_nr bigint, events bigint, bytes bigint",
    ),
)


def plain_events(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read all events of `messages` by the plain connector.

    Columns out: persistence_id, sequence_nr, timestamp, time_bucket (epoch ms), body (binary).
    """
    rows = connector.read(
        spark,
        settings.journal_keyspace,
        settings.journal_table,
        *("persistence_id", "sequence_nr", "timestamp", "event"),
    )
    ticks = columns.timeuuid_ticks(F.col("timestamp"))
    epoch_ms = columns.ticks_epoch_ms(ticks)
    return rows.select(
        "persistence_id",
        "sequence_nr",
        columns.ticks_timestamp(ticks).alias("timestamp"),
        columns.time_bucket(epoch_ms, settings.bucket_size).alias("time_bucket"),
        F.col("event").alias("body"),
    )
