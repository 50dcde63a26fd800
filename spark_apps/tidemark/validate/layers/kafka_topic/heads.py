"""The comparison of records with heads in metajournal, as pure transformations."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate.shapes import HEADS
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.layers.kafka_topic import checks
from tidemark.validate.layers.kafka_topic.events import with_finding_key
from tidemark.validate.layers.kafka_topic.records import Expiry
from tidemark.validate.layers.kafka_topic.shapes import JOURNALS, READ, VERDICTS

_JOURNAL = tuple(JOURNAL_KEY)
_RECORD = ("topic", "partition", "offset")


@shaped(journals=JOURNALS, heads=HEADS, read=READ, verdicts=VERDICTS, returns=shapes.FINDINGS)
def head_findings(
    journals: DataFrame,
    heads: DataFrame,
    read: DataFrame,
    verdicts: DataFrame,
    expiry: Expiry | None,
) -> DataFrame:
    """Return the findings of heads whose journals have records.

    A head is not judged if the record at its offset belongs to another journal, or if its offset is
    after all records of its journal.
    """
    said, stored = F.col("said"), F.col("head")
    records = read.select(*_RECORD, F.struct("id").alias("record"))
    mixed = verdicts.where("is_foreign").select(*_JOURNAL).distinct()
    seen = F.col("offset").isNull() | (F.col("offset") <= F.col("last_offset"))
    is_own = F.col("record").isNull() | F.col("record").eqNullSafe(F.struct("id"))
    is_here = F.coalesce(stored["partition"] == F.col("partition"), F.lit(True))
    is_expired = F.lit(False) if expiry is None else expiry.is_over()
    with_differences = (
        journals.join(heads, list(_JOURNAL), "left")
        .join(mixed, list(_JOURNAL), "left_anti")
        .where(~F.col("is_in_doubt") & is_here)
        .withColumn("offset", stored["offset"])
        .join(records, list(_RECORD), "left")
        .where(is_own & seen)
        .withColumn("differs", differing_fields())
    )
    details = F.concat_ws(
        ", ",
        *(
            F.when(
                F.array_contains("differs", name),
                F.format_string(f"{name} is %s, not %s", _text(stored[name]), _text(said[name])),
            )
            for name in ("offset", "seq_nr", "delete_to", "expire_after")
        ),
    )
    return findings_of(
        with_finding_key(with_differences),
        [
            FindingRule(
                checks.MISSING_HEAD,
                said.isNotNull() & stored.isNull() & ~is_expired,
                said["seq_nr"],
                said["seq_nr"],
                F.format_string("seq_nr would be %d", said["seq_nr"]),
            ),
            FindingRule(
                checks.DIFFERENT_HEAD,
                said.isNotNull() & stored.isNotNull() & (F.size("differs") > 0),
                F.coalesce(stored["seq_nr"], F.lit(0)),
                said["seq_nr"],
                details,
            ),
            FindingRule(
                checks.EXTRA_HEAD,
                said.isNull() & stored.isNotNull(),
                F.coalesce(stored["seq_nr"], F.lit(0)),
                F.lit(None),
                F.lit("its journal is purged"),
            ),
        ],
    )


def differing_fields() -> Column:
    """Return the names of the fields in which `head` differs from `said`.

    kafka-journal merges the deletes of a poll and keeps the largest, so `delete_to` may be as high
    as that of any of these deletes, and the head's offset may be that of an earlier delete.
    """
    said, stored = F.col("said"), F.col("head")
    deleted, stored_deleted = (F.coalesce(head["delete_to"], F.lit(0)) for head in (said, stored))
    highest_allowed = F.greatest(
        deleted, F.least(F.coalesce("most_delete_to", F.lit(0)), said["seq_nr"])
    )
    has_append, is_whole = F.col("has_append"), F.col("is_whole")
    # A delete that Kafka no longer holds may have had a higher number.
    too_low = (is_whole | F.col("deleted_since")) & (stored_deleted < deleted)
    differs_by_field = {
        "offset": has_append & (stored["offset"] < F.col("last_append")),
        "seq_nr": has_append & ~stored["seq_nr"].eqNullSafe(said["seq_nr"]),
        "delete_to": too_low | (is_whole & (stored_deleted > highest_allowed)),
        "expire_after": has_append & ~stored["expire_after"].eqNullSafe(said["expire_after"]),
    }
    return F.array_compact(
        F.array(*(F.when(differs, F.lit(name)) for name, differs in differs_by_field.items()))
    )


def _text(value: Column) -> Column:
    return F.coalesce(value.cast("string"), F.lit("nothing"))
