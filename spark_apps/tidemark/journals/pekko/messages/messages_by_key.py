"""Reads the messages of given events, with their payloads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames, shapes
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.spark.shapes import shaped

MESSAGE = ["persistence_id", "sequence_nr", "timestamp"]
_SCAN_FROM = 10
"""The number of messages that a scan reads in about the time of one read by key."""


@shaped(events=shapes.PLACED_MESSAGE_KEYS, returns=shapes.WHOLE_MESSAGES)
def messages_of(
    run: RunContext, events: DataFrame, number_of_messages: int | None = None
) -> DataFrame:
    """Read the messages of events: by key when the events are few, else by a scan.

    `events` are in memory; without `number_of_messages`, that of the journal, they count as few.
    """
    event_keys = events.select(*MESSAGE).distinct()
    event_count = event_keys.count()
    if number_of_messages is None or event_count * _SCAN_FROM <= number_of_messages:
        keys = increments.keys_of(event_keys, run.settings).distinct()
        messages = frames.messages_of(keys, run.settings, *PAYLOAD_COLUMNS)
        messages = messages.join(event_keys, on=MESSAGE, how="left_semi")
        # The join finds fewer if the messages were written with another target_partition_size.
        if messages.count() == event_count:
            return messages
    [ends] = events.select(F.min("time_bucket"), F.max("time_bucket")).collect()
    scanned = frames.messages_between(run.spark, run.settings, ends[0] or 0, (ends[1] or 0) + 1)
    return scanned.join(event_keys, on=MESSAGE, how="left_semi")
