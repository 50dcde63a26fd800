"""All checks together: from the keys of a journal to the findings of some time buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import findings, sequence, tag_sequence, unwritable
from tidemark.ledger.purged import Removed


@dataclass(frozen=True)
class JournalKeys:
    """What there is, without payload, over the whole history of the journal.

    Attributes:
        index: `journal.frames.message_index`.
        rows: `journal.frames.tag_view_keys`.
        progress: `read.progress`.
        scanning: `journal.frames.scanning`.
        deleted: `journal.frames.deleted`.
        listed: `read.listed`.
        unwritable: `unwritable.unwritable_events`.
    """

    index: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame
    unwritable: DataFrame


def all_findings(
    keys: JournalKeys, absent: DataFrame, removed: Removed, buckets: Sequence[int]
) -> DataFrame:
    """Every finding that lies in one of those time buckets (epoch ms), one for each KEY.

    The history before and after them counts: an event's predecessor may lie anywhere.

    Columns in: those of `JournalKeys`, and of `tag_sequence.absent_events`. Columns out: those of
    `findings.findings_of`.
    """
    numbers = tag_sequence.tag_sequence_findings(keys.rows, absent, keys.deleted, removed)
    return findings.of_buckets([numbers, *_others(keys, absent, removed, max(buckets))], buckets)


def suspicions(
    keys: JournalKeys, absent: DataFrame, removed: Removed, buckets: Sequence[int]
) -> DataFrame:
    """The same of what `news` has read, which is never less than what there is to find.

    Whatever `all_findings` finds in those time buckets by the whole history shows here, too; but
    what shows need not be a finding. Nothing excuses a missing row: what would is not at hand.

    Columns in and out: those of `all_findings`, but of `JournalKeys` what is new and around it.
    """
    none = F.lit(False)
    numbers = tag_sequence.tag_sequence_findings(
        keys.rows, absent.where(none), keys.deleted.where(none), Removed()
    )
    return findings.of_buckets([numbers, *_others(keys, absent, removed, max(buckets))], buckets)


def _others(keys: JournalKeys, absent: DataFrame, removed: Removed, last: int) -> list[DataFrame]:
    return [
        sequence.sequence_findings(keys.index, keys.deleted),
        sequence.lost_tails(
            keys.index, keys.progress, keys.scanning, keys.deleted, keys.listed, last
        ),
        tag_sequence.lost_tag_tails(keys.rows, keys.progress, keys.deleted, removed),
        tag_sequence.untagged_events(absent, keys.unwritable),
        unwritable.unwritable_findings(keys.unwritable),
    ]
