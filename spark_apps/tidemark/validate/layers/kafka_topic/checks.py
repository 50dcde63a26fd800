"""The checks that compare topics with tables.

Only records up to the pointers are judged. Not judged are journals that later records may have
changed, records in quarantine, expired journals, and rows whose records Kafka no longer holds. In a
finding, `tag` is the topic.
"""

from __future__ import annotations

from functools import partial

from tidemark.validate.findings.check import Check, Layer, checks_of

_TOPIC = partial(Check, layer=Layer.KAFKA_TOPIC, subject="topic")
BY_REPAIR = "replicate.py repair --apply"

MISSING_EVENT = _TOPIC(
    "kafka_missing_event",
    "journal contains every event of the topic up to its pointer, unless it is deleted.",
    remedy=BY_REPAIR,
)
"""An event of the topic is not in journal, although no record deletes it."""

DIFFERENT_EVENT = _TOPIC(
    "kafka_different_event",
    "Every event in journal equals its record in Kafka.",
    remedy=BY_REPAIR,
)
"""The content of an event in journal differs from its record."""

EXTRA_EVENT = _TOPIC(
    "kafka_extra_event",
    "Every event in journal is in its record in Kafka.",
    remedy=BY_REPAIR,
)
"""An event in journal whose record has no such event, or that a later record deletes."""

FORK = _TOPIC(
    "kafka_fork",
    "No two records of a journal append the same seq_nr.",
    remedy="decide which writer's events count, and delete those of the other",
)
"""Two records append the same seq_nr: two writers at once. Readers reject the journal."""

MISSING_HEAD = _TOPIC(
    "kafka_missing_head",
    "Every journal that exists by its records has its head in metajournal.",
    remedy=BY_REPAIR,
)
"""A journal that its records do not purge has no head, so that readers find nothing."""

DIFFERENT_HEAD = _TOPIC(
    "kafka_different_head",
    "Every head in metajournal agrees with the records of its journal.",
    remedy=BY_REPAIR,
)
"""A head differs from what the records of its journal say."""

EXTRA_HEAD = _TOPIC(
    "kafka_extra_head",
    "No journal that its records purge has a head in metajournal.",
    remedy="let kafka-journal purge the head if you do not need its journal",
)
"""A head whose journal a record has purged."""

CHECKS = checks_of(globals())
"""The checks of the layer, in display order."""
