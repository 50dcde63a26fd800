"""All checks together: from the keys of a journal to the findings of some time buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemark.continuity import findings, sequence, tag_sequence, unwritable
from tidemark.retention.purged import Removed


@dataclass(frozen=True)
class Keys:
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
    keys: Keys, absent: DataFrame, removed: Removed, buckets: Sequence[int]
) -> DataFrame:
    """Every finding that lies in one of those time buckets (epoch ms), one for each KEY.

    The history before and after them counts: an event's predecessor may lie anywhere.

    Columns in: those of `Keys`, and of `tag_sequence.absent_events`. Columns out: those of
    `findings.findings_of`.
    """
    parts = [
        sequence.sequence_findings(keys.index, keys.deleted),
        sequence.lost_tails(
            keys.index, keys.progress, keys.scanning, keys.deleted, keys.listed, max(buckets)
        ),
        tag_sequence.tag_sequence_findings(keys.rows, absent, keys.deleted, removed),
        tag_sequence.lost_tag_tails(keys.rows, keys.progress, keys.deleted, removed),
        tag_sequence.untagged_events(absent, keys.unwritable),
        unwritable.unwritable_findings(keys.unwritable),
    ]
    return findings.of_buckets(parts, buckets)
