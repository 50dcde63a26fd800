"""The checks of topics against tables: what each of them takes for a finding, and why.

Only records up to the pointers are judged. Journals that later records may have changed by now,
records in quarantine, expired journals, and rows whose records Kafka does not hold are not. In a
finding, `tag` is the topic.
"""

from __future__ import annotations

from functools import partial

from tidemark.continuity.findings.check import Check, Layer, checks_of

_TOPIC = partial(Check, layer=Layer.KAFKA_TOPIC, subject="topic")
BY_REPAIR = "replicate.py repair --apply"

MISSING_EVENT = _TOPIC(
    "kafka_missing_event",
    "journal contains every event of the topic up to its pointer, unless it is deleted.",
    remedy=BY_REPAIR,
)
"""An event of the topic is not in journal, although nothing has deleted it."""

DIFFERENT_EVENT = _TOPIC(
    "kafka_different_event",
    "Every event in journal equals its record in Kafka.",
    remedy=BY_REPAIR,
)
"""An event in journal has another content than its record."""

EXTRA_EVENT = _TOPIC(
    "kafka_extra_event",
    "Every event in journal is in its record in Kafka.",
    remedy=BY_REPAIR,
)
"""An event in journal whose own record was read and has no such event, or is deleted since."""

FORK = _TOPIC(
    "kafka_fork",
    "No two records of a journal append the same seq_nr.",
    remedy="decide which writer's events count, and delete those of the other",
)
"""Two records append the same seq_nr: two writers at once, and readers refuse the journal."""

MISSING_HEAD = _TOPIC(
    "kafka_missing_head",
    "Every journal that exists by its records has its head in metajournal.",
    remedy=BY_REPAIR,
)
"""A journal that lives by its records has no head, so that readers find nothing."""

DIFFERENT_HEAD = _TOPIC(
    "kafka_different_head",
    "Every head in metajournal agrees with the records of its journal.",
    remedy=BY_REPAIR,
)
"""A head says something else than the records of its journal."""

EXTRA_HEAD = _TOPIC(
    "kafka_extra_head",
    "No journal that its records purge has a head in metajournal.",
    remedy="let kafka-journal purge the head if you do not need its journal",
)
"""A head whose journal is purged since."""

CHECKS = checks_of(globals())
"""The checks of the layer, in the order in which they are shown."""
