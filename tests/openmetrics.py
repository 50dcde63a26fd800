"""OpenMetrics text as the parser of Prometheus' own client reads it."""

from __future__ import annotations

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def families(text: str) -> dict[str, Metric]:
    """Return the figures of a text by their names."""
    read = text_string_to_metric_families(text)
    return {family.name: family for family in read}
