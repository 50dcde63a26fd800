"""The reference page of the checks, from their objects."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.markdown import code, plain, table
from tidemark.validate.findings.check import Check, Layer
from tidemark.validate.findings.checks import CHECKS as TAG_VIEW_CHECKS
from tidemark.validate.layers.all_layers import CHECKS as FURTHER_CHECKS

CHECKS = (*TAG_VIEW_CHECKS, *FURTHER_CHECKS)
_HEAD = """# Checks

The checks of `validate` and `replicate.py verify`. A finding of a check that *blocks* stops
everything downstream until it is repaired or settled. A finding of a check that *warns* stops
nothing.

[Operating](operating.md#when-a-check-fails) describes what to do about findings, and how to write
[checks of your own](operating.md#checks-of-your-own).
"""
_LAYERS = {
    Layer.MESSAGES: "The events in the table `messages`.",
    Layer.TAG_VIEWS: "The rows of the tag views, and the progress of actors.",
    Layer.STORAGE: "How long tables keep their rows, and how Cassandra compacts them.",
    Layer.PROJECTIONS: "Projections, their offsets and read models.",
    Layer.KAFKA_JOURNAL: "The tables of kafka-journal.",
    Layer.KAFKA_TOPIC: "The tables of kafka-journal, compared with the topics in Kafka by"
    " `replicate.py verify`.",
}


def page() -> str:
    """Return the page."""
    missing = {check.layer for check in CHECKS} ^ set(_LAYERS)
    if missing:
        raise ValueError(f"no text, or no check, for the layers {sorted(missing)}")
    return "\n\n".join([_HEAD, *(part for layer in _LAYERS for part in _layer(layer))])


def _layer(layer: Layer) -> Iterator[str]:
    yield f"## {layer.value}"
    yield _LAYERS[layer]
    yield table(
        ("check", "what must hold", "a finding", "how to fix a finding"),
        [
            (code(check.name), plain(check.rule), check.severity.value, _fix(check))
            for check in CHECKS
            if check.layer is layer
        ],
    )


def _fix(check: Check) -> str:
    by_hand = plain(check.for_people)
    if not check.is_repairable:
        return by_hand
    return "`reconcile repair`" + (f"; {by_hand}" if by_hand else "")
