"""The check of events without a payload."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, MESSAGE_KEYS
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of

_EVENT = [*MESSAGE_KEYS]


@shaped(
    events=shapes.WITH_OR_WITHOUT_PAYLOAD,
    deleted=DELETED,
    unwritable=MESSAGE_KEYS,
    returns=shapes.FINDINGS,
)
def null_payloads(events: DataFrame, deleted: DataFrame, unwritable: DataFrame) -> DataFrame:
    """Return a finding for each event without a payload; its number is the sequence nr.

    Deleted events that still exist are ignored, since nobody reads them; unwritable events have
    findings of another check.
    """
    empty = events.where(~F.col("has_payload")).join(deleted, on="persistence_id", how="left")
    rule = FindingRule(
        checks.NULL_PAYLOAD,
        F.col("sequence_nr") > F.coalesce("deleted_to", F.lit(0)),
        F.col("sequence_nr"),
        F.lit(None),
        F.format_string("the event with sequence nr %d has no payload", "sequence_nr"),
    )
    writable = empty.join(unwritable.select(*_EVENT), on=_EVENT, how="left_anti")
    return findings_of(writable, [rule])
