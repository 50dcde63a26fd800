"""The rules of kafka-journal's tables, as pure transformations of their keys."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.kafka.tables import OLD_SEGMENTS, SEGMENTS
from tidemark.journals.kafka.written import EVENT_ROWS, HEAD_ROWS
from tidemark.partitioning import columns
from tidemark.replicate.shapes import HELD
from tidemark.spark.shapes import Shape, shaped
from tidemark.validate import shapes
from tidemark.validate.findings.check import Check
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.layers.kafka_journal import checks
from tidemark.validate.no_time_bucket import no_time_bucket

JOURNAL = ("topic", "persistence_id")
PLACED_HEADS: Shape = {**HEAD_ROWS, "own_segment": "bigint", "formula": "int", "place": "int"}
"""Heads; `place` is 1 for the head of a journal that readers use, then counts further heads."""


@shaped(heads=HEAD_ROWS, returns=PLACED_HEADS)
def placed_heads(heads: DataFrame) -> DataFrame:
    """Rank the heads of each journal as readers do: by the new formula, by the old one, by none.

    `formula` is then 0, 1 or 2. A head that no reader finds represents its journal if it is the
    only one, so that one damage is one finding.
    """
    pid, segment = F.col("persistence_id"), F.col("segment")
    by_new = columns.head_segment(pid, SEGMENTS)
    by_old = columns.head_segment(pid, OLD_SEGMENTS)
    order = Window.partitionBy(*JOURNAL).orderBy("formula", "segment")
    return heads.withColumns(
        {
            "own_segment": by_new,
            "formula": F.when(segment == by_new, 0).when(segment == by_old, 1).otherwise(2),
        }
    ).withColumn("place", F.row_number().over(order))


@shaped(heads=HEAD_ROWS, events=EVENT_ROWS, returns=shapes.FINDINGS)
def journal_findings(heads: DataFrame, events: DataFrame) -> DataFrame:
    """Return the findings of each journal; the detail explains number and expected.

    Both frames have all rows of each of their journals.
    """
    ranked = placed_heads(heads)
    used = ranked.where(F.col("place") == 1)
    used_heads = used.select(
        *JOURNAL,
        "segment_size",
        "delete_to",
        "record_id",
        F.col("seq_nr").alias("head_nr"),
        F.col("partition").alias("head_partition"),
        F.col("offset").alias("head_offset"),
    )
    with_head = events.join(used_heads, on=[*JOURNAL])
    parts = [
        _head_findings(ranked),
        _event_findings(with_head),
        _heads_against_events(used_heads, with_head),
        _without_head(events.join(used_heads, on=[*JOURNAL], how="left_anti")),
    ]
    return reduce(DataFrame.unionByName, parts)


@shaped(held=HELD, returns=shapes.FINDINGS)
def held_findings(held: DataFrame) -> DataFrame:
    """Return a finding for each journal with held records; number is the first offset."""
    journals = held.groupBy("topic", F.col("id").alias("persistence_id")).agg(
        F.min("offset").alias("first"),
        F.count(F.lit(1)).alias("records"),
        F.min("found_at").alias("since"),
        F.min_by("cause", F.when(F.col("cause").isNotNull(), F.col("offset"))).alias("cause"),
    )
    since = F.date_format("since", "yyyy-MM-dd HH:mm")
    detail = F.concat_ws(
        " ", F.col("records"), F.lit("held since"), since, F.concat(F.lit("("), "cause", F.lit(")"))
    )
    rows = journals.withColumns({"time_bucket": no_time_bucket(), "tag": F.col("topic")})
    return findings_of(
        rows,
        [
            FindingRule(
                checks.HELD_RECORDS, F.lit(True), F.col("first"), F.lit(None).cast("bigint"), detail
            )
        ],
    )


@shaped(heads=HEAD_ROWS, returns=shapes.FINDINGS)
def topic_findings(heads: DataFrame) -> DataFrame:
    """Return the findings in the heads of each topic, with counts."""
    sizes = heads.groupBy("topic", "segment_size").agg(F.count(F.lit(1)).alias("heads"))
    in_topic = Window.partitionBy("topic")
    by_number = in_topic.orderBy(F.desc("heads"), F.desc("segment_size"))
    ranked = sizes.withColumns(
        {
            "usual": F.first("segment_size").over(by_number),
            "all_heads": F.sum("heads").over(in_topic),
        }
    )
    size, usual = F.col("segment_size"), F.col("usual")
    mixed = FindingRule(
        checks.MIXED_SEGMENT_SIZE,
        size != usual,
        size,
        usual,
        F.format_string(
            "%,d of %,d heads have segment size %d, most have %d",
            *("heads", "all_heads", "segment_size", "usual"),
        ),
    )
    id_counts = (
        heads.groupBy("topic")
        .agg(
            F.count(F.lit(1)).alias("all_heads"),
            F.count_if(F.col("record_id").isNull()).alias("heads"),
        )
        .withColumn("none", F.lit(0))
    )
    without_id = FindingRule(
        checks.HEADS_WITHOUT_RECORD_ID,
        F.col("heads") > 0,
        F.col("heads"),
        F.col("none"),
        F.format_string("%,d of %,d heads have no record id", "heads", "all_heads"),
    )
    return findings_of(_of_topic(ranked), [mixed]).unionByName(
        findings_of(_of_topic(id_counts), [without_id])
    )


def _with_finding_key(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"time_bucket": no_time_bucket(), "tag": F.col("topic")})


def _of_topic(rows: DataFrame) -> DataFrame:
    return _with_finding_key(rows).withColumn("persistence_id", F.lit(""))


@shaped(heads=PLACED_HEADS, returns=shapes.FINDINGS)
def _head_findings(heads: DataFrame) -> DataFrame:
    segment, own = F.col("segment"), F.col("own_segment")
    is_found = F.col("formula") < 2
    return findings_of(
        _with_finding_key(heads),
        [
            FindingRule(
                checks.HEAD_IN_WRONG_SEGMENT,
                ~is_found,
                segment,
                own,
                F.format_string("the head is in segment %d, not %d", segment, own),
            ),
            FindingRule(
                checks.TWO_HEADS,
                is_found & (F.col("place") > 1),
                segment,
                own,
                F.format_string("a head in segment %d besides that in %d", segment, own),
            ),
        ],
    )


@shaped(events=EVENT_ROWS, returns=shapes.FINDINGS)
def _event_findings(events: DataFrame) -> DataFrame:
    """Find faults that an event or it and its predecessor show.

    `events` has `segment_size` and `delete_to` of the head of each event.
    """
    in_order = Window.partitionBy(*JOURNAL).orderBy("seq_nr", "timestamp")
    written = F.struct("timestamp", "partition", "offset", "origin", "meta_record_id")
    number, size = F.col("seq_nr"), F.col("segment_size")
    reached = F.greatest(F.coalesce("previous", F.lit(0)), F.col("delete_to")).cast("bigint")
    followed = events.withColumns(
        {
            "previous": F.lag("seq_nr").over(in_order),
            "other": F.lag(written).over(in_order),
            "own_segment": columns.journal_segment(number, size),
        }
    ).withColumn("expected", reached + 1)
    expected = F.col("expected")
    is_gap = (number > F.col("delete_to")) & (number > expected)
    # At the end of a segment, readers continue only in the segment of the next number.
    is_hidden = F.col("own_segment") > columns.journal_segment(expected, size)
    missing = F.format_string(
        "expected %d, found %d: %d missing", expected, number, number - expected
    )
    return findings_of(
        _with_finding_key(followed),
        [
            FindingRule(
                checks.EVENT_IN_WRONG_SEGMENT,
                F.col("segment") != F.col("own_segment"),
                number,
                F.lit(None),
                F.format_string("in segment %d, not %d", "segment", "own_segment"),
            ),
            FindingRule(
                checks.DUPLICATE_SEQ_NR, number == F.col("previous"), number, number, _writers()
            ),
            FindingRule(checks.SEQ_NR_GAP, is_gap & ~is_hidden, number, expected, missing),
            FindingRule(
                checks.HIDDEN_EVENTS,
                is_gap & is_hidden,
                number,
                expected,
                F.concat(missing, F.lit(" across the end of a segment: readers stop before")),
            ),
        ],
    )


def _writers() -> Column:
    """Return the writers of the two events with the same seq_nr, as a clause."""
    differs = [
        F.when(~F.col(name).eqNullSafe(F.col(f"other.{name}")), F.lit(words))
        for name, words in (
            ("origin", "two origins"),
            ("meta_record_id", "two record ids"),
            ("partition", "two partitions"),
        )
    ]
    differences = F.concat_ws(", ", F.lit("two events"), *differs)

    def written(prefix: str) -> Column:
        return F.format_string(
            "offset %d of partition %d at %s by %s",
            *(F.col(f"{prefix}{name}") for name in ("offset", "partition")),
            F.date_format(F.col(f"{prefix}timestamp"), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
            F.coalesce(F.col(f"{prefix}origin"), F.lit("nobody named")),
        )

    return F.concat(differences, F.lit(": "), written("other."), F.lit("; "), written(""))


@shaped(events=EVENT_ROWS, returns=shapes.FINDINGS)
def _heads_against_events(heads: DataFrame, events: DataFrame) -> DataFrame:
    """Find differences between heads and their events; `events` has the head of each event."""
    number, record_id = F.col("seq_nr"), F.col("record_id")
    is_alive = number > F.col("delete_to")
    is_behind = is_alive & (number > F.col("head_nr"))
    is_older = F.coalesce(
        (F.col("partition") == F.col("head_partition")) & (F.col("offset") <= F.col("head_offset")),
        F.lit(False),
    )
    is_foreign = is_alive & (F.col("meta_record_id") != record_id)
    sets = {
        "behind": is_behind & ~is_older,
        "older": is_behind & is_older,
        "undeleted": ~is_alive,
        "foreign": is_foreign,
    }
    counted = events.groupBy(*JOURNAL).agg(
        F.max(number).alias("highest"),
        *(F.count_if(condition).alias(f"{name}_events") for name, condition in sets.items()),
        *(F.min(F.when(condition, number)).alias(name) for name, condition in sets.items()),
    )
    head_nr, delete_to = F.col("head_nr"), F.col("delete_to")
    reached = F.greatest(F.coalesce("highest", F.lit(0)), delete_to).cast("bigint")
    above = "%,d events from %d on, the head ends at %d"

    def first_of(check: Check, name: str, expected: Column, detail: Column) -> FindingRule:
        return FindingRule(check, F.col(f"{name}_events") > 0, F.col(name), expected, detail)

    def ends(name: str) -> Column:
        return F.format_string(above, f"{name}_events", name, "head_nr")

    return findings_of(
        _with_finding_key(heads.join(counted, on=[*JOURNAL], how="left")),
        [
            first_of(checks.EVENTS_BEHIND_HEAD, "behind", head_nr, ends("behind")),
            first_of(checks.SEQ_NR_WENT_DOWN, "older", head_nr, ends("older")),
            first_of(
                checks.UNDELETED_EVENTS,
                "undeleted",
                delete_to + 1,
                F.format_string(
                    "%,d events from %d on, deleted to %d",
                    *("undeleted_events", "undeleted", "delete_to"),
                ),
            ),
            first_of(
                checks.FOREIGN_EVENTS,
                "foreign",
                F.lit(None),
                F.format_string(
                    "%,d events from %d on are not of record id %s",
                    *("foreign_events", "foreign", "record_id"),
                ),
            ),
            FindingRule(
                checks.LOST_TAIL,
                head_nr > reached,
                reached,
                head_nr,
                F.format_string("the head knows %d, journal ends at %d", head_nr, reached),
            ),
            FindingRule(
                checks.DELETE_TO_BEYOND_SEQ_NR,
                delete_to > head_nr,
                delete_to,
                head_nr,
                F.format_string("delete_to %d, seq_nr %d", delete_to, head_nr),
            ),
        ],
    )


@shaped(events=EVENT_ROWS, returns=shapes.FINDINGS)
def _without_head(events: DataFrame) -> DataFrame:
    orphans = events.groupBy(*JOURNAL).agg(
        F.count(F.lit(1)).alias("events"),
        F.min("seq_nr").alias("first"),
        F.max("seq_nr").alias("last"),
    )
    detail = F.format_string("%,d events from %d to %d", "events", "first", "last")
    rule = FindingRule(checks.EVENTS_WITHOUT_HEAD, F.lit(True), F.col("first"), F.lit(None), detail)
    return findings_of(_with_finding_key(orphans), [rule])
