"""The connector's connections inside the test process, where applications share a Spark session."""

from __future__ import annotations

import itertools

from pyspark.sql import SparkSession

from tests.integration.pool import Shape, shape
from tidemark.cassandra.control import Control

_known: dict[tuple[str, ...], Shape] = {}
_timeouts_ms = itertools.count(20_000)


def know(control: Control, *keyspaces: str) -> None:
    """Make the connector reconnect unless it has seen these keyspaces with their present tables.

    An old connection hears of a new table only after a second. The connector shares a connection
    between equal settings, so a new timeout makes a new connection.
    """
    spark = SparkSession.getActiveSession()
    now = shape(control, *keyspaces)
    if spark is not None and _known.get(keyspaces) != now:
        spark.conf.set("spark.cassandra.connection.timeoutMS", str(next(_timeouts_ms)))
        _known[keyspaces] = now
