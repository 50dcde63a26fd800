"""The messages of single events, with their payloads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import frames, increments
from tidemark.journal.tables import PAYLOAD_COLUMNS

MESSAGE = ["persistence_id", "sequence_nr", "timestamp"]
_SCAN_FROM = 10
"""A scan reads about this many messages in the time of one read by key."""


def messages_of(run: RunContext, events: DataFrame, number_of_messages: int) -> DataFrame:
    """The messages of those events: by key when they are few, else by a scan.

    Args:
        run: the application's frame.
        events: MESSAGE and time_bucket, in memory.
        number_of_messages: how many there are in all.

    Columns out: those of `journal.frames.message_index`, and the payload columns.
    """
    wanted = events.select(*MESSAGE).distinct()
    number = wanted.count()
    if number * _SCAN_FROM <= number_of_messages:
        keys = increments.keys_of(wanted, run.settings).distinct()
        found = frames.messages_of(keys, run.settings, *PAYLOAD_COLUMNS)
        found = found.join(wanted, on=MESSAGE, how="left_semi")
        # Fewer, if target_partition_size is not the one that the messages were written with.
        if found.count() == number:
            return found
    [ends] = events.select(F.min("time_bucket"), F.max("time_bucket")).collect()
    scanned = frames.messages_between(run.spark, run.settings, ends[0] or 0, (ends[1] or 0) + 1)
    return scanned.join(wanted, on=MESSAGE, how="left_semi")
