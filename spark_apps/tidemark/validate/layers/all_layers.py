"""All layers that validate looks at beside messages and the tag views."""

from __future__ import annotations

from enum import StrEnum

from tidemark.validate.findings.check import Layer
from tidemark.validate.layers.kafka_journal import checks as of_kafka_journal
from tidemark.validate.layers.kafka_journal import find as in_kafka_journal
from tidemark.validate.layers.kafka_topic import checks as of_kafka_topic
from tidemark.validate.layers.layer import FurtherLayer
from tidemark.validate.layers.projections import checks as of_projections
from tidemark.validate.layers.projections import find as in_projections
from tidemark.validate.layers.storage import checks as of_storage
from tidemark.validate.layers.storage import find as in_storage


class LayerName(StrEnum):
    """The names of the layers that can be asked for."""

    KAFKA_JOURNAL = Layer.KAFKA_JOURNAL.value
    PROJECTIONS = Layer.PROJECTIONS.value
    STORAGE = Layer.STORAGE.value


LAYERS = (
    FurtherLayer(Layer.STORAGE, of_storage.CHECKS, in_storage.find, is_always=True),
    FurtherLayer(Layer.KAFKA_JOURNAL, of_kafka_journal.CHECKS, in_kafka_journal.find),
    FurtherLayer(Layer.PROJECTIONS, of_projections.CHECKS, in_projections.find),
)
CHECKS = (*(check for layer in LAYERS for check in layer.checks), *of_kafka_topic.CHECKS)
"""Those of all layers beside messages and tag views. Of topics only `replicate.py verify` makes
them, since no other application reads Kafka."""
