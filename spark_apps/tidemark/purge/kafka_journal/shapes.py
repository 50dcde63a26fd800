"""The frames of an expiry."""

from __future__ import annotations

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.spark.shapes import Shape

EXPIRED: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "deleted_to": "bigint",
    "expire_on": "date",
    "first_segment": "bigint",
    "last_segment": "bigint",
}
"""Expired journals, by the heads that readers find. `partition` and `offset` are of the last Kafka
record that changed the head; `deleted_to` is 0 if nothing is deleted; a purge deletes
`first_segment` to `last_segment`."""
JUDGED: Shape = {**EXPIRED, "reason": "string"}
"""EXPIRED with the reason to keep a journal; null if it can be purged."""
