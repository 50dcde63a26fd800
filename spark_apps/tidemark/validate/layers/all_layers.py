"""All layers that validate checks besides messages and the tag views."""

from __future__ import annotations

from enum import StrEnum

from tidemark.validate.findings.check import Layer
from tidemark.validate.layers.kafka_journal import checks as kafka_journal_checks
from tidemark.validate.layers.kafka_journal import find as kafka_journal_find
from tidemark.validate.layers.kafka_topic import checks as kafka_topic_checks
from tidemark.validate.layers.layer import FurtherLayer
from tidemark.validate.layers.projections import checks as projections_checks
from tidemark.validate.layers.projections import find as projections_find
from tidemark.validate.layers.storage import checks as storage_checks
from tidemark.validate.layers.storage import find as storage_find
from tidemark.validate.r2dbc import checks as r2dbc_checks


class LayerName(StrEnum):
    """The names of the layers that can be requested."""

    KAFKA_JOURNAL = Layer.KAFKA_JOURNAL.value
    PROJECTIONS = Layer.PROJECTIONS.value
    STORAGE = Layer.STORAGE.value


LAYERS = (
    FurtherLayer(Layer.STORAGE, storage_checks.CHECKS, storage_find.find, is_always=True),
    FurtherLayer(Layer.KAFKA_JOURNAL, kafka_journal_checks.CHECKS, kafka_journal_find.find),
    FurtherLayer(Layer.PROJECTIONS, projections_checks.CHECKS, projections_find.find),
)
CHECKS = (
    *(check for layer in LAYERS for check in layer.checks),
    *kafka_topic_checks.CHECKS,
    *r2dbc_checks.OWN,
)
"""The checks of all layers besides messages and tag views, and those that only a journal in
PostgreSQL has. Those of topics are run by `replicate.py verify` only, since no other application
reads Kafka."""
