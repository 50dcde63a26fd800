"""The checks of topics against tables: what each of them takes for a finding, and why.

Only what lies up to the pointers is judged. What records behind them may have changed by now, what
is held or skipped, and what has expired is not. In a finding, `tag` is the topic.
"""

from __future__ import annotations

from functools import partial

from tidemark.continuity.findings.checks import Check, Layer

MISSING_EVENT = "kafka_missing_event"
"""An event of the topic is not in journal, although nothing has deleted it."""

DIFFERENT_EVENT = "kafka_different_event"
"""An event in journal has another content than its record."""

EXTRA_EVENT = "kafka_extra_event"
"""An event in journal names an offset whose record says nothing of it, or is deleted since."""

FORK = "kafka_fork"
"""Two records append the same seq_nr: two writers at once, and readers refuse the journal."""

MISSING_HEAD = "kafka_missing_head"
"""A journal that lives by its records has no head, so that readers find nothing."""

DIFFERENT_HEAD = "kafka_different_head"
"""A head says something else than the records of its journal."""

EXTRA_HEAD = "kafka_extra_head"
"""A head names an offset whose record is not of its journal, or its journal is purged since."""

_TOPIC = partial(Check, layer=Layer.KAFKA_TOPIC, is_repairable=False, subject="topic")
_BY_REPAIR = "replicate.py repair --apply"

CHECKS = (
    _TOPIC(
        MISSING_EVENT,
        "journal holds every event of the topic up to its pointer, unless it is deleted.",
        mend=_BY_REPAIR,
    ),
    _TOPIC(
        DIFFERENT_EVENT,
        "Every event in journal is what its record in Kafka says.",
        mend=_BY_REPAIR,
    ),
    _TOPIC(
        EXTRA_EVENT,
        "Every event in journal has its record in Kafka.",
        mend=_BY_REPAIR,
    ),
    _TOPIC(
        FORK,
        "No two records of a journal append the same seq_nr.",
        mend="decide which writer's events count, and delete those of the other",
    ),
    _TOPIC(
        MISSING_HEAD,
        "Every journal that lives by its records has its head in metajournal.",
        mend=_BY_REPAIR,
    ),
    _TOPIC(
        DIFFERENT_HEAD,
        "Every head in metajournal is what the records of its journal say.",
        mend=_BY_REPAIR,
    ),
    _TOPIC(
        EXTRA_HEAD,
        "Every head in metajournal has its records in Kafka.",
        mend="let kafka-journal purge it if its journal is not wanted",
    ),
)
"""The checks of the layer, in the order in which they are shown."""
